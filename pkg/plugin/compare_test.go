package plugin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

func TestComparePrintsTableForBuiltInExample(t *testing.T) {
	stdout, _, code := simulated(t, "", "--compare")
	if code != exitDone {
		t.Errorf("exit code %d, want %d", code, exitDone)
	}
	golden(t, "testdata/compare.txt", stdout)
}

// TestComparePrintsOneDocument checks that the document has each way once and one best way.
func TestComparePrintsOneDocument(t *testing.T) {
	stdout, stderr, code := simulated(t, "", "--compare", "--like=gke", "-o", "json")
	var c report.Comparison
	if err := json.Unmarshal([]byte(stdout), &c); err != nil || code != exitDone {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	var flags []string
	best := 0
	for _, way := range c.Ways {
		flags = append(flags, way.Flags)
		if way.Best {
			best++
		}
	}
	if c.Kind != "Comparison" || best != 1 {
		t.Errorf("kind %s with %d best ways, want Comparison and one", c.Kind, best)
	}
	want := "as asked; --max-unavailable=10%; --max-surge=0; --strategy=blue-green; --strategy=blue-green --batch=25%; --strategy=autoscaled-blue-green; --strategy=short-lived"
	if got := strings.Join(flags, "; "); got != want {
		t.Errorf("the ways are %s, want %s", got, want)
	}
}

// TestCompareRecommendsStrategiesForDumps checks that the strategies that fit the group are listed. A way may be named as the best only if
// it causes no harm that another way avoids.
func TestCompareRecommendsStrategiesForDumps(t *testing.T) {
	cases := map[string]struct {
		args    []string
		says    []string
		without string
	}{
		"f-job-4h":                          {says: []string{"--strategy=blue-green ", "--strategy=autoscaled-blue-green ", "Recommended autoscaled-blue-green: pod ml/train-0 belongs to a job"}},
		"f-pytorchjob-safe":                 {says: []string{"--strategy=autoscaled-blue-green ", "Recommended autoscaled-blue-green: pod ml/train-0 belongs to a job"}},
		"f-donotdisrupt":                    {says: []string{"Recommended blue-green: pod shop/web-h1-0 must not be disrupted"}},
		"g-10":                              {args: []string{"--strategy=blue-green"}, says: []string{"--max-surge=0 ", "--like=gke ", "--strategy=autoscaled-blue-green ", "Recommended surge"}},
		"g-1x5-gce":                         {says: []string{"--max-surge=0 --max-unavailable=1 ", "--like=eks ", "--strategy=blue-green ", "--strategy=autoscaled-blue-green "}, without: "Refused"},
		"f-job-4h with a setting of drains": {args: []string{"--drain-timeout=5m"}, says: []string{"Not known   --strategy=short-lived: "}, without: "Refused"},
		"g-10 short-lived":                  {args: []string{"--strategy=short-lived"}, says: []string{"Not known   as asked: no node is drained or removed"}},
		"l-pdbclosed":                       {says: []string{"PodEvictionFailure", "Best        none: each way that replaces all nodes deletes pods against their budgets"}, without: "*"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, code := runOnDump(t, append([]string{"simulate", "--compare", "-f", "testdata/dumps/" + strings.Fields(name)[0] + ".json"}, c.args...))
			for _, text := range c.says {
				if !strings.Contains(stdout, text) {
					t.Errorf("the output lacks %q:\n%s", text, stdout)
				}
			}
			if c.without != "" && strings.Contains(stdout, c.without) {
				t.Errorf("the output contains %q:\n%s", c.without, stdout)
			}
			if code != exitDone {
				t.Errorf("exit code %d, want %d", code, exitDone)
			}
		})
	}
	stdout, code := runOnDump(t, []string{"simulate", "--compare", "-f", "testdata/dumps/o-fargate.json"})
	if code != exitStructural || !strings.Contains(stdout, "Fargate created this node") {
		t.Errorf("nodes of Fargate: exit code %d, want %d and their owner named:\n%s", code, exitStructural, stdout)
	}
}
