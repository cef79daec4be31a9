package runner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// balancerCloud is the site's cloud with a load balancer. It deregisters a machine at the first request about it, and the machine then
// drains for a while.
type balancerCloud struct {
	siteCloud
	drains time.Duration
	err    error
	taken  map[string]time.Time
}

// TargetGroups implements cloud.Balancer.
func (h *balancerCloud) TargetGroups(context.Context, *nodegroup.Group, []string) (cloud.TargetGroups, error) {
	return cloud.TargetGroups{}, nil
}

// Targets implements cloud.Balancer.
func (h *balancerCloud) Targets(_ context.Context, groups []nodegroup.TargetGroup, ids []string) ([]nodegroup.Target, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("targets")
	var all []nodegroup.Target
	for _, id := range append(slices.Clone(ids), "i-other") {
		if h.taken[id].IsZero() {
			h.taken[id] = time.Now()
		}
		if time.Since(h.taken[id]) < h.drains {
			all = append(all, nodegroup.Target{Group: groups[0], ID: id, Draining: true})
		}
	}
	return all, h.err
}

// runnerWithBalancer returns a runner of the site that watches the harbor's load balancer.
func (h *balancerCloud) runnerWithBalancer(delay time.Duration) *Runner {
	r := h.runner(func(r *record.Request) { r.Settle.Duration = 0 })
	r.Cloud = h
	r.Targets.Groups = []nodegroup.TargetGroup{{ID: "arn:web", Name: "web", Delay: delay, Bound: true}}
	return r
}

// TestMachineIsTerminatedAfterTargetIsDrained uses a machine whose target drains for two minutes. The machine must be terminated right after that and
// not before.
func TestMachineIsTerminatedAfterTargetIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.addPods("old-1", 2)
		h := &balancerCloud{siteCloud: siteCloud{s}, drains: 2 * time.Minute, taken: map[string]time.Time{}}
		if rec, err := h.runnerWithBalancer(5 * time.Minute).Run(t.Context()); err != nil || rec.Result != record.Succeeded {
			t.Fatalf("ended with %q, error %v", rec.Result, err)
		}
		terminated, drained := s.times("terminate")[0], h.taken["i-old-1"].Sub(s.began)+h.drains
		if terminated < drained || terminated > drained+6*time.Second {
			t.Errorf("terminated at %s; the target was drained at %s", terminated, drained)
		}
		for _, pause := range pauses(s.times("targets"), 0) {
			if pause > 5*time.Second {
				t.Errorf("%s between two readings while the node was empty", pause)
			}
		}
	})
}

// TestNodeStaysIfItsLoadBalancerTargetsCannotBeRead: the node may still get requests. The error is reported, and the upgrade stops at the
// time limit for new nodes. If the read is refused, the upgrade ends immediately.
func TestNodeStaysIfItsLoadBalancerTargetsCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		denied := errors.New("denied")
		h := &balancerCloud{siteCloud: siteCloud{s}, drains: time.Hour, taken: map[string]time.Time{}, err: denied}
		r := h.runnerWithBalancer(5 * time.Minute)
		var told error
		r.BalancersRead = func(err error) { told = err }
		rec, err := r.Run(t.Context())
		if err != nil || rec.Result != record.Failed || !errors.Is(told, denied) || len(s.times("terminate")) > 0 {
			t.Fatalf("ended with %q, error %v, told %v, terminated at %v", rec.Result, err, told, s.times("terminate"))
		}
		if at := time.Since(s.began); at < 20*time.Minute || at > 21*time.Minute {
			t.Errorf("ended at %s, want after the boot timeout", at)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		h := &balancerCloud{siteCloud: siteCloud{s}, drains: time.Hour, taken: map[string]time.Time{}, err: errEnded}
		if _, err := h.runnerWithBalancer(5 * time.Minute).Run(t.Context()); !errors.Is(err, errEnded) || len(s.times("terminate")) > 0 {
			t.Errorf("ended with error %v, terminated at %v", err, s.times("terminate"))
		}
		if at := time.Since(s.began); at > 30*time.Second {
			t.Errorf("ended at %s", at)
		}
	})
}
