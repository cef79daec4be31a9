package upgrade_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestOldRecordsAreRead: commit c0e198c wrote these records in random worlds, one for each phase of each strategy and
// of a rollback. They are readable, keep every field when they are stored again, and continue in the phase that they
// name.
func TestOldRecordsAreRead(t *testing.T) {
	files, err := filepath.Glob("record/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d records: %v", len(files), err)
	}
	met := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var rec record.Record
			var before, after any
			if err := json.Unmarshal(text, &rec); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			if json.Unmarshal(text, &before) != nil || json.Unmarshal(again, &after) != nil || !reflect.DeepEqual(before, after) {
				t.Errorf("it becomes\n%s and was\n%s", again, text)
			}
			if err := upgrade.CheckReadable(&rec); err != nil || rec.Version > record.Version {
				t.Errorf("version %d: %v", rec.Version, err)
			}
			met[string(rec.Request.Strategy)+"."+string(rec.Phase)] = true
		})
	}
	for _, phase := range []record.Phase{record.PhaseSoak, record.PhaseDeleteBlue, record.PhaseExpire} {
		met[string(record.Delegated)+"."+string(phase)] = true // the commit did not have these phases
	}
	for _, strategy := range record.Strategies() {
		for _, phase := range upgrade.Phases(strategy) {
			if !met[string(strategy)+"."+string(phase)] {
				t.Errorf("no record of the strategy %s in the phase %q", strategy, phase)
			}
		}
	}
}
