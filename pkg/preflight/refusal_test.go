package preflight_test

import (
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestFirstRefusalSkipsWarnings(t *testing.T) {
	warn, first := preflight.Finding{Rule: "A", Severity: preflight.Warn}, preflight.Finding{Rule: "B", Severity: preflight.Refuse}
	second := preflight.Finding{Rule: "C", Severity: preflight.Refuse}
	if got := preflight.FirstRefusal([]preflight.Finding{warn, first, second}); got == nil || got.Rule != "B" {
		t.Errorf("got %v", got)
	}
	if got := preflight.FirstRefusal([]preflight.Finding{warn}); got != nil {
		t.Errorf("got %v", got)
	}
}

func TestRequiredLabelKeyThatNoNodeHasIsReported(t *testing.T) {
	node := build.Node("n1", "a")
	node.Labels["image"] = "v1"
	members := []nodegroup.Member{{}, {Node: node}}
	cases := map[string]struct {
		current map[string]string
		want    string
	}{
		"none is asked for":       {nil, ""},
		"another value":           {map[string]string{"image": "v2"}, ""},
		"no node has it":          {map[string]string{"image": "v2", "imgae": "v2"}, "imgae"},
		"the first of two by key": {map[string]string{"y": "", "x": ""}, "x"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := preflight.UnknownLabel(c.current, members); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
