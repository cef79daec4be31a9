package simulate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// moment is a group in the middle of an upgrade: its record as an older version wrote it, with the cluster and the
// cloud at that time.
type moment struct {
	Now       time.Time                       `json:"now"`
	Record    json.RawMessage                 `json:"record"`
	Group     nodegroup.Group                 `json:"group"`
	Observed  time.Time                       `json:"observed"`
	Instances []nodegroup.Instance            `json:"instances"`
	Nodes     []*corev1.Node                  `json:"nodes"`
	Pods      []*corev1.Pod                   `json:"pods"`
	Budgets   []*policyv1.PodDisruptionBudget `json:"budgets"`
}

// The records are those that commit 537f91f wrote in each phase and each state of a node. Reading and writing them
// loses nothing, and the upgrade reaches its end.
func TestOlderRecordsAreContinued(t *testing.T) {
	files, err := filepath.Glob("testdata/records/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stored records: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var m moment
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			var record record.Record
			if err := json.Unmarshal(m.Record, &record); err != nil {
				t.Fatal(err)
			}
			written, err := json.Marshal(record)
			if err != nil {
				t.Fatal(err)
			}
			if string(written) != string(m.Record) {
				t.Errorf("the record was\n%s\nand is written as\n%s", m.Record, written)
			}
			checkContinued(t, m, record.Reopened())
		})
	}
}

func checkContinued(t *testing.T, m moment, rec record.Record) {
	t.Helper()
	m.Group.Observed, m.Group.Instances = m.Observed, m.Instances
	spec := simulate.Spec{
		Now: m.Now, Group: m.Group, Nodes: m.Nodes, Pods: m.Pods, Budgets: m.Budgets, Record: rec,
		Outdated: func(*corev1.Node) bool { return true },
	}
	spec.Times, _ = simulate.Estimate(&spec)
	cluster := simulate.New(spec)
	end, err := cluster.Run(t.Context(), rec.Request, nil)
	if err != nil {
		t.Fatal(err)
	}
	if end.Result != record.Succeeded || end.Run != rec.Run || end.Replaced != end.Total {
		t.Errorf("run %s ended with %s %q, %d of %d replaced", end.Run, end.Result, end.Message, end.Replaced, end.Total)
	}
	group := cluster.World(record.Request{}).Group
	if got, want := build.ZoneSizes(&group), fmt.Sprintf("a:%d", rec.Sizes.Desired); got != want {
		t.Errorf("the zones have %q nodes, want %q", got, want)
	}
}
