package plugin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// balancerProvider is a provider that returns the given load balancers. It implements nothing else.
type balancerProvider struct {
	cloud.Provider
	asked []string
	found cloud.TargetGroups
	err   error
}

// TargetGroups implements cloud.Balancer.
func (h *balancerProvider) TargetGroups(_ context.Context, _ *nodegroup.Group, bound []string) (cloud.TargetGroups, error) {
	h.asked = bound
	return h.found, h.err
}

// Targets implements cloud.Balancer.
func (*balancerProvider) Targets(context.Context, []nodegroup.TargetGroup, []string) ([]nodegroup.Target, error) {
	return nil, errors.New("not asked for before an upgrade")
}

// TestStartNamesWatchedLoadBalancers checks that the start lists which load balancers are watched, and which are not
// and why.
func TestStartNamesWatchedLoadBalancers(t *testing.T) {
	const before, otherwise = "the upgrade does not watch ", "; it relies on the node label and --settle instead"
	web := nodegroup.TargetGroup{ID: "arn:web", Name: "web", Delay: time.Minute, Bound: true}
	bindings := []*inventory.TargetGroupBinding{{Spec: inventory.TargetGroupBindingSpec{TargetGroup: "arn:web"}}, {}}
	cases := map[string]struct {
		harbor   balancerProvider
		strategy record.Strategy
		unread   []string
		want     []string
	}{
		"one":           {balancerProvider{found: cloud.TargetGroups{Groups: []nodegroup.TargetGroup{web}}}, record.Surge, nil, []string{"a node is terminated after these target groups have removed it: web"}},
		"none":          {balancerProvider{}, record.Surge, nil, nil},
		"denied":        {balancerProvider{found: cloud.TargetGroups{Denied: []string{"elasticloadbalancing:DescribeTargetHealth"}}}, record.Surge, nil, []string{before + "load balancers (your cloud credentials may not elasticloadbalancing:DescribeTargetHealth)" + otherwise}},
		"no answer":     {balancerProvider{err: errors.New("no route")}, record.Surge, nil, []string{before + "load balancers (no route)" + otherwise}},
		"of others":     {balancerProvider{found: cloud.TargetGroups{Skipped: []string{"theirs of account 9"}}}, record.Surge, nil, []string{before + "target groups of other accounts (theirs of account 9)" + otherwise}},
		"unlisted":      {balancerProvider{}, record.Surge, []string{"targetgroupbindings"}, []string{before + "target groups that only TargetGroupBindings name (you may not list targetgroupbindings)" + otherwise}},
		"EKS drains":    {balancerProvider{found: cloud.TargetGroups{Groups: []nodegroup.TargetGroup{web}}}, record.Delegated, nil, nil},
		"no one drains": {balancerProvider{found: cloud.TargetGroups{Groups: []nodegroup.TargetGroup{web}}}, record.ShortLived, nil, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := &groupContext{
				observation: observation{provider: &c.harbor, members: []nodegroup.Member{{Outdated: true}}},
				resolution:  resolution{request: record.Request{Strategy: c.strategy}},
			}
			p := &planning{groupContext: g, balancers: g.findBalancers(t.Context(), nil, &inventory.Objects{Bindings: bindings, Unread: c.unread})}
			if got := p.balancers.describeWatched(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.strategy == record.Surge && !slices.Equal(c.harbor.asked, []string{"arn:web"}) {
				t.Errorf("the cloud was asked for %q", c.harbor.asked)
			}
			facts := p.makeFacts("v1.34.0", false)
			if len(p.balancers.Groups) > 0 && !maps.Equal(facts.Delays, map[string]time.Duration{"arn:web": time.Minute}) || !slices.Equal(facts.DeniedReads, p.balancers.Denied) {
				t.Errorf("facts have delays %v and denied reads %v", facts.Delays, facts.DeniedReads)
			}
		})
	}
}
