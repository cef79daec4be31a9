package plugin

import (
	"path/filepath"
	"testing"
)

// TestPlansSayHowTheyEnd: a plan describes the run that will happen, with its end, and exits as the
// upgrade would.
func TestPlansSayHowTheyEnd(t *testing.T) {
	cases := map[string]struct {
		dump          string
		args          []string
		code          int
		says, without []string
	}{
		"a budget that never opens": {
			"l-pdbclosed", nil, exitStructural,
			[]string{"Ends        PodEvictionFailure after 15m at node a-0 (PDB shop/web); 2 nodes not reached", "or pass --on-timeout=force"},
			[]string{"deletion"},
		},
		"is forced": {
			"l-pdbclosed",
			[]string{"--on-timeout=force"},
			exitDone,
			[]string{"0 evictions, 3 deletions", "Deletes     3 pods past their budgets: 3 of shop/Deployment/web after 15m"},
			[]string{"Ends ", "pass --on-timeout=force"},
		},
		"leaves its nodes behind": {
			"l-pdbclosed", []string{"--on-timeout=skip"}, exitStructural, []string{"but for nodes that cannot be drained, which stay (left-behind)"}, []string{"not reached", "deletion"},
		},
		"blue-green without a drain": {
			"g-10", []string{"--strategy=blue-green", "--batch=0"}, exitDone, []string{"0 evictions, 10 deletions"}, []string{"Ends ", "finalizers", "had no answer", "past their budgets"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"simulate", "-f", filepath.Join("testdata", "dumps", c.dump+".json")}, c.args...)
			planned, code := runOnDump(t, args)
			if code != c.code {
				t.Errorf("exits %d, want %d:\n%s", code, c.code, planned)
			}
			checkSaid(t, planned, c.says, c.without)
		})
	}
}
