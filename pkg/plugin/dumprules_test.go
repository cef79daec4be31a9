package plugin

import (
	"path/filepath"
	"strings"
	"testing"
)

// checkDumpCase is the expected output of check for a dump in which every node is outdated.
type checkDumpCase struct {
	// code is check's exit code: 3 if a finding is an error or worse.
	code int
	// says are texts that check -o wide must print. without are texts that it must not print.
	says, without []string
}

// TestCheckFindsExpectedFaultsInDumps checks dumps in which a rule once missed a finding or found too much.
func TestCheckFindsExpectedFaultsInDumps(t *testing.T) {
	cases := map[string]checkDumpCase{
		"five":                              {says: []string{"info", "PDB006", "its controllers have still to create 1 pod"}, without: []string{"block", "can never allow"}},
		"s1-70-pdb6-starting-10s":           {says: []string{"info", "PDB006", "pod default/my-nginx-75b76-1 has not been ready for 10s"}, without: []string{"block"}},
		"s1-30c-one-imagepull":              {code: exitStructural, says: []string{"block", "PDB006", "pod default/my-nginx-75b76-2 is not ready, because container my-nginx is in ImagePullBackOff"}},
		"s1-31c-pending-unsched":            {code: exitStructural, says: []string{"block", "PDB006", "its controllers report 1 pod that the dump lacks"}},
		"s1-41-sleep-1":                     {says: []string{"TERM003", "the preStop hook of container my-nginx lasts only 1 s", "TERM004", "The default is 300 s"}},
		"s1-38-nginx-quit":                  {says: []string{"TERM003", "closes its port immediately (/usr/sbin/nginx -s quit)"}},
		"s1-44-sleep-1m":                    {code: exitStructural, says: []string{"error", "TERM001", "the preStop hook of container my-nginx sleeps 60 s, and terminationGracePeriodSeconds is 30"}},
		"s1-45-two-sleeps":                  {code: exitStructural, says: []string{"error", "TERM001", "the preStop hook of container my-nginx sleeps 40 s, and terminationGracePeriodSeconds is 30"}},
		"s1-80-gate-label-but-old-pods":     {says: []string{"LB001", "2 of its 3 pods have no readiness gate"}},
		"s3-15-skew":                        {says: []string{"TSC004", "delete one of those 2 before the upgrade"}, without: []string{"REP003", "spread it over zones"}},
		"rook-9324-pinned-by-hostname":      {says: []string{"warning", "POD010", "the drain goes on, and its replacement stays Pending"}, without: []string{"block"}},
		"kyverno-4686-webhook-without-pods": {code: exitStructural, says: []string{"block", "WH001", "webhook mutate.policy.svc-fail has failurePolicy Fail, and Service policy/policy-svc has no pod"}},
		"k8s-89209-quota-below-use":         {code: exitStructural, says: []string{"error", "NS001", "ResourceQuota shop/q is exceeded", "with pods at 2 of 1, 1 too much"}},
		"psa-enforced-later":                {code: exitStructural, says: []string{"error", "NS002", "namespace shop enforces the pod security level restricted", "hostNetwork=true"}},
		"s3-07-no-gate":                     {code: exitStructural, says: []string{"error", "LB001", "TargetGroupBinding foo/foo-api sends to the pods' addresses"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			said, code := runOnDump(t, []string{"check", "-f", filepath.Join("testdata", "dumps", name+".json"), "--all-nodes", "-o", "wide"})
			if code != c.code {
				t.Errorf("check exits %d, want %d:\n%s", code, c.code, said)
			}
			checkOutput(t, said, c.says, c.without)
		})
	}
}

// TestCheckOfAllNodesAddsAsManyNodesAsForOutdatedOnes checks --all-nodes on a group whose nodes are all current. The plan must add as many nodes
// first as if all nodes were outdated.
func TestCheckOfAllNodesAddsAsManyNodesAsForOutdatedOnes(t *testing.T) {
	said, code := runOnDump(t, []string{"check", "workers", "-f", filepath.Join("testdata", "dumps", "five.json"), "--current=alpha.eksctl.io/nodegroup-name=workers", "--all-nodes"})
	if code != exitDone || strings.Contains(said, "CAP002") || !strings.Contains(said, "6 of 6 nodes are outdated") {
		t.Errorf("check exits %d:\n%s", code, said)
	}
}
