package preflight_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestFitStrategy(t *testing.T) {
	cases := map[string]struct {
		grace    int64
		owner    string
		outdated bool
		want     upgrade.Strategy
		says     string
	}{
		"G07 an hour is enough":               {3600, "ReplicaSet", true, upgrade.Surge, "within an hour"},
		"G07 more than an hour":               {7200, "ReplicaSet", true, upgrade.BlueGreen, "pod shop/web may take 2h0m0s"},
		"a pod that does not move":            {7200, "DaemonSet", true, upgrade.Surge, "within an hour"},
		"a pod on a node that is current now": {7200, "ReplicaSet", false, upgrade.Surge, "within an hour"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := build.Pod("web", build.OwnedBy(c.owner, "web"), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &c.grace })
			members := []nodegroup.Member{{Outdated: c.outdated, Pods: []*corev1.Pod{pod}}}
			got, why := preflight.FitStrategy(members, drain.Policy{})
			if got != c.want || !strings.Contains(why, c.says) {
				t.Errorf("got %s because %s, want %s because %q", got, why, c.want, c.says)
			}
		})
	}
}

// TestPlanNamesTheStrategyThatFits has a note where another strategy was asked for, and none where that is beyond the group.
func TestPlanNamesTheStrategyThatFits(t *testing.T) {
	twoHours := int64(7200)
	pod := build.Pod("web", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &twoHours })
	cases := map[string]struct {
		asked upgrade.Strategy
		sized bool
		want  bool
	}{
		"G07 a surge of pods that take two hours": {upgrade.Surge, true, true},
		"the strategy that fits":                  {upgrade.BlueGreen, true, false},
		"a group to which no node can be added":   {upgrade.Surge, false, false},
		"a group that its own cloud upgrades":     {upgrade.Delegated, true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := upgrade.World{
				Request: upgrade.Request{Strategy: c.asked}, Group: nodegroup.Group{Name: "workers", Sized: c.sized},
				Members: []nodegroup.Member{{Outdated: true, Pods: []*corev1.Pod{pod}}},
			}
			found := preflight.CheckUpgrade(&w, preflight.Facts{})
			if got := slices.ContainsFunc(found, func(f preflight.Finding) bool { return f.Rule == "STR001" }); got != c.want {
				t.Errorf("a note on the strategy: %t, want %t: %v", got, c.want, found)
			}
		})
	}
}
