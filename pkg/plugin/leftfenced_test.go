package plugin

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestOnlyNodesThatRunShouldHaveUnfencedCountAsLeftFenced: nodes that must stay fenced until the run continues do
// not count.
func TestOnlyNodesThatRunShouldHaveUnfencedCountAsLeftFenced(t *testing.T) {
	started, other := build.Node("started", "a"), build.Node("other", "a")
	for _, node := range []*corev1.Node{started, other} {
		if err := nodemark.SetFence(node, "r1", nodegroup.FenceTaint("aws")); err != nil {
			t.Fatal(err)
		}
	}
	rec := func(result record.Result, keep bool) record.Record {
		return record.Record{Run: "r1", Result: result, Request: record.Request{KeepFence: keep}, Nodes: map[string]record.NodeRecord{"started": {}}}
	}
	both, one := []*corev1.Node{started, other}, []*corev1.Node{started}
	cases := map[string]struct {
		record record.Record
		nodes  []*corev1.Node
		err    error
		want   bool
	}{
		"it could not continue":            {rec("", false), one, errors.New("forbidden"), true},
		"another process continues":        {rec("", false), both, runner.ErrLost, false},
		"it was interrupted twice":         {rec("", false), both, runner.ErrNotStoppedInTime, false},
		"refused":                          {rec(record.Failed, false), both, nil, true},
		"failed with a node in drain":      {rec(record.Failed, false), one, nil, false},
		"interrupted, fences are kept":     {rec(record.Interrupted, true), both, nil, false},
		"interrupted, fences are not kept": {rec(record.Interrupted, false), both, nil, true},
		"paused":                           {rec(record.Paused, false), both, nil, false},
		"fenced by another run":            {record.Record{Run: "r2", Result: record.Failed}, both, nil, false},
	}
	for name, c := range cases {
		if got := hasLeftNodesFenced(&c.record, c.nodes, c.err); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
