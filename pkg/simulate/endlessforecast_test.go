package simulate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// The forecast of an upgrade that waits without an end contains what the upgrade waits for, but no time at which it
// ends.
func TestForecastOfEndlessWaitHasNoEndTime(t *testing.T) {
	revision := nodegroup.Revision{ID: "image=v2", Name: "image=v2"}
	spec := Spec{
		Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Outdated: func(*corev1.Node) bool { return true },
		Nodes: []*corev1.Node{build.Node("n1", "a"), build.Node("n2", "a")},
		Group: nodegroup.Group{Name: "workers", Provider: "manual", Wanted: revision, Pointed: revision},
	}
	req := record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, MaxUnavailable: 1, Window: 1, OnTimeout: record.Fail, WaitReplacement: true,
		DrainTimeout: record.Duration{Duration: time.Minute}, BootTimeout: record.Duration{Duration: time.Minute},
	}
	f, err := predictOnce(t.Context(), spec, req, 0)
	if err != nil || f.Endless != "1 new node that you add" || f.Duration != (Span{}) || f.ExtraHours != 0 {
		t.Errorf("endless %q, takes %v, %.1f extra hours: %v", f.Endless, f.Duration, f.ExtraHours, err)
	}
	if len(f.Nodes) != 1 || f.Nodes[0].Name != "n1" {
		t.Errorf("the forecast lacks the node that is drained first: %+v", f.Nodes)
	}
	ended := Forecast{Duration: newSpan(time.Hour)}
	if ended.mergeRun(&f); ended.Endless == "" || ended.Duration != (Span{}) {
		t.Errorf("with one run that ends: endless %q, takes %v", ended.Endless, ended.Duration)
	}
}
