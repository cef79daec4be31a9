package plugin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// TestSimulateCompares holds the ways of the built-in example to what the table shows.
func TestSimulateCompares(t *testing.T) {
	stdout, _, code := simulated(t, "", "--compare")
	if code != exitDone {
		t.Errorf("exit code %d, want %d", code, exitDone)
	}
	golden(t, "testdata/compare.txt", stdout)
}

// TestCompareIsOneDocument has each way once, and one of them be the best.
func TestCompareIsOneDocument(t *testing.T) {
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
	want := "as asked; --max-unavailable=10%; --max-surge=0; --strategy=blue-green; --strategy=blue-green --batch=25%"
	if got := strings.Join(flags, "; "); got != want {
		t.Errorf("the ways are %s, want %s", got, want)
	}
}
