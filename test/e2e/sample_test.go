package e2e

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
)

// sampled names the cases that "make test" runs: cases of each kind that take different code paths.
// "make prove" runs all cases. Tests that do not call inSample are always run.
const sampled = `
TestAutoscaledBlueGreen/served
TestBlueGreen/from_start_to_end
TestBlueGreen/rolled_back_out_of_the_soak
TestUpgradeWithExpiredOrRevokedCredentials/tokens_last_for_seconds
TestUpgradesWithFailingAPIServerAndCloud/three_requests_in_ten_fail,_seed_0
TestManagedGroups/cases/default
TestManagedGroups/cases/blocked
TestManagedGroups/cases/both_kinds
TestCheckFindsFaultsAndItsCommandsFixThem/PDB001
TestProblemsReportedAboutOtherTools/suc-9-inplace-no-budget
TestUnreliableCloud/answers_are_lost
TestUpgrade/case/three_nodes_in_three_zones
TestUpgrade/case/a_node_that_cannot_be_drained:_fail
TestUpgrade/case/a_group_that_cannot_launch_in_zone
TestUpgrade/case/a_current_machine_without_its_label
TestUpgrade/case/nodes_brought_in_advance
TestUpgrade/case/two_groups_at_once
TestUpgrade/case/interrupted:_terminal
TestVerbsReachUpgradeOnAnotherMachine/abort/draining
TestVerbsReachUpgradeOnAnotherMachine/complete/scale_down
TestVerbsReachUpgradeOnAnotherMachine/pause/draining
TestVerbsReachUpgradeOnAnotherMachine/resume/paused
TestSurgeAndUnavailableOfFixedSizeGroups/pair/w3-s2-u2
TestSurgeAndUnavailableOfFixedSizeGroups/pair/w1-s1-u1
TestSurgeAndUnavailableOfFixedSizeGroups/pair/w3-s0-u0
`

// proving reports whether all cases run.
func proving() bool { return os.Getenv("NODEUPGRADE_PROVE") == "1" }

// met contains the names of the sampled cases that ran.
var met struct {
	sync.Mutex
	names map[string]bool
}

// inSample skips the test unless it is sampled or all cases run.
func inSample(t *testing.T) {
	t.Helper()
	if proving() {
		return
	}
	if !strings.Contains(sampled, "\n"+t.Name()+"\n") {
		t.Skip("make prove runs it")
	}
	met.Lock()
	defer met.Unlock()
	if met.names == nil {
		met.names = map[string]bool{}
	}
	met.names[t.Name()] = true
}

// checkSample returns 1 if a sampled name belongs to no case. Otherwise a renamed case would be skipped silently.
func checkSample(out io.Writer) (code int) {
	for name := range strings.FieldsSeq(sampled) {
		if !proving() && !met.names[name] {
			fmt.Fprintf(out, "sample_test.go: no case has the name %s: bring the list up to date\n", name)
			code = 1
		}
	}
	return code
}
