package plugin

import (
	"strings"
	"testing"
)

// TestCheckAndPlanWarnIfNoControllerRecreatesPods checks dumps with pods of CI runners and of a training job. The warning must explain how
// to wait for such pods, and recommend the strategy for long jobs (POD013, NG005).
func TestCheckAndPlanWarnIfNoControllerRecreatesPods(t *testing.T) {
	const wait = "cluster.x-k8s.io/drain=wait-completed"
	for name, c := range map[string]struct {
		args []string
		says []string
		not  string
	}{
		"the check of runners": {
			args: []string{"check", "-f", "testdata/dumps/runners.json", "--all-nodes"},
			says: []string{"warning", "POD013", "EphemeralRunner", "pod arc/set-runner-1", wait},
		},
		"what mends it": {
			args: []string{"check", "-f", "testdata/dumps/runners.json", "--all-nodes", "-o", "patch"},
			says: []string{"kubectl label pod -n arc --overwrite set-runner-2 " + wait},
		},
		"the plan of runners": {
			args: []string{"simulate", "-f", "testdata/dumps/runners.json"},
			says: []string{"Warning", "pod arc/set-runner-1 and 1 more", "EphemeralRunner", wait},
		},
		"the plan of a training job": {
			args: []string{"simulate", "-f", "testdata/dumps/training.json", "--strategy=autoscaled-blue-green"},
			says: []string{"PyTorchJob", wait},
			not:  "--strategy=surge fits better",
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := invoke(t, c.args...)
			for _, want := range c.says {
				if !strings.Contains(stdout, want) {
					t.Errorf("the output lacks %q (code %d):\n%s%s", want, code, stdout, stderr)
				}
			}
			if c.not != "" && strings.Contains(stdout, c.not) {
				t.Errorf("the output contains %q:\n%s", c.not, stdout)
			}
			if code != exitDone {
				t.Errorf("a warning ends with %d", code)
			}
		})
	}
}
