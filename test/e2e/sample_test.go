package e2e

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
)

// sampledCases lists the cases that "make test" runs. They take different code paths. "make prove" runs all cases. Tests that do
// not call skipUnlessSampled always run.
const sampledCases = `
TestAutoscaledUpgradesUseNodesThatAutoscalerAdds/served
TestBlueGreenKeepsOutdatedNodesUntilSoakEnds/from_start_to_end
TestBlueGreenKeepsOutdatedNodesUntilSoakEnds/rolled_back_out_of_the_soak
TestUpgradeFinishesAfterCredentialsExpireOrAreRevoked/tokens_last_for_seconds
TestUpgradesFinishDespiteFailingAPIServerAndCloud/three_requests_in_ten_fail,_seed_0
TestEKSUpgradesManagedGroups/cases/default
TestEKSUpgradesManagedGroups/cases/blocked
TestEKSUpgradesManagedGroups/cases/both_kinds
TestGKEUpgradesItsPools/blue-green
TestGKEUpgradesItsPools/surge
TestGKEUpgradesItsPools/rolled_back
TestCheckFindsFaultsAndItsCommandsFixThem/PDB001
TestUpgradeAvoidsProblemsReportedAboutOtherTools/suc-9-inplace-no-budget
TestUpgradesTolerateUnreliableCloud/answers_are_lost
TestUpgradesEndAsExpectedWithoutCloudFaults/case/three_nodes_in_three_zones
TestUpgradesEndAsExpectedWithoutCloudFaults/case/a_node_that_cannot_be_drained:_fail
TestUpgradesEndAsExpectedWithoutCloudFaults/case/mixed_instances
TestUpgradesEndAsExpectedWithoutCloudFaults/case/a_node_without_its_label
TestUpgradesEndAsExpectedWithoutCloudFaults/case/nodes_added_in_advance
TestUpgradesEndAsExpectedWithoutCloudFaults/case/two_groups_together
TestUpgradesEndAsExpectedWithoutCloudFaults/case/interrupted:_terminal
TestVerbsReachUpgradeOnAnotherMachine/abort/draining
TestVerbsReachUpgradeOnAnotherMachine/complete/scale_down
TestVerbsReachUpgradeOnAnotherMachine/pause/draining
TestVerbsReachUpgradeOnAnotherMachine/resume/paused
TestFixedSizeGroupEndsWithAllNodesCurrentAndReady/pair/w3-s2-u2
TestFixedSizeGroupEndsWithAllNodesCurrentAndReady/pair/w1-s1-u1
TestFixedSizeGroupEndsWithAllNodesCurrentAndReady/pair/w3-s0-u0
`

// runsAllCases reports whether all cases run.
func runsAllCases() bool { return os.Getenv("NODEUPGRADE_PROVE") == "1" }

// sampledCasesRun contains the names of the sampled cases that ran.
var sampledCasesRun struct {
	sync.Mutex
	names map[string]bool
}

// skipUnlessSampled skips the test unless sampledCases lists it or all cases run.
func skipUnlessSampled(t *testing.T) {
	t.Helper()
	if runsAllCases() {
		return
	}
	if !strings.Contains(sampledCases, "\n"+t.Name()+"\n") {
		t.Skip("make prove runs it")
	}
	sampledCasesRun.Lock()
	defer sampledCasesRun.Unlock()
	if sampledCasesRun.names == nil {
		sampledCasesRun.names = map[string]bool{}
	}
	sampledCasesRun.names[t.Name()] = true
}

// checkSampledNames returns 1 if sampledCases lists a name for which no case ran. Without this check, a renamed case would be
// skipped silently.
func checkSampledNames(out io.Writer) (code int) {
	for name := range strings.FieldsSeq(sampledCases) {
		if !runsAllCases() && !sampledCasesRun.names[name] {
			fmt.Fprintf(out, "sample_test.go: no case has the name %s: update the list\n", name)
			code = 1
		}
	}
	return code
}
