package worlds

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Denial is one kind of request that is refused each time while the denial lasts, or until Calm. The zero value means none.
type Denial struct {
	// Kind is the prefix of the keys of the refused actions.
	Kind     string
	From, To time.Duration
	// Again is true where the answer says that the request may be accepted later. It never is.
	Again bool
}

// denials draws a kind of request that is refused for good. It draws from its own generator, so that all other draws stay the same.
func denials(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x64656e79))}
	if !d.chance(12) {
		return
	}
	p.Denial = Denial{Kind: pick(d, deniable(p)...), To: d.between(10*time.Minute, 6*time.Hour)}
	if d.chance(50) {
		p.Denial.From = d.between(0, 30*time.Minute)
	}
	p.Denial.Again = d.chance(35)
}

// deniable lists the kinds of requests that upgrades of the plan's group make.
func deniable(p *Plan) []string {
	if p.delegated() {
		return []string{"delegate"}
	}
	kinds := []string{"fence", "unfence", "free", "hold", "start-drain", "evict", "delete", "delete-node"}
	if p.podScaled() {
		return append(kinds, "set-revision", "terminate", "terminate")
	}
	if p.sized() {
		kinds = append(kinds, "set-revision", "quiesce", "resume", "resume", "raise-max", "lower-max", "add", "terminate", "terminate")
	}
	return kinds
}

// denies reports whether the action is refused now.
func (c *cluster) denies(action nodegroup.Action) bool {
	d, at := &c.plan.Denial, c.since()
	return keyKind(action) == d.Kind && !c.calm && at >= d.From && at < d.To
}

// keyKind returns the prefix that the keys of all actions of one kind share.
func keyKind(action nodegroup.Action) string {
	kind, _, _ := strings.Cut(action.Key(), "/")
	return kind
}

// answer returns the answer to a request that is refused.
func (d *Denial) answer(action nodegroup.Action) error {
	switch cloud := nodegroup.IsCloudAction(action); {
	case d.Again && cloud:
		return answered(nodegroup.OutcomeLater, "Rate exceeded (Throttling)")
	case d.Again:
		return apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New(`admission webhook "guard" denied the request`))
	}
	if nodegroup.IsCloudAction(action) {
		return answered(nodegroup.OutcomeFatal, "not authorized (forbidden)")
	}
	return apierrors.NewForbidden(corev1.Resource("nodes"), "", errNoPolicy)
}

// denied reports whether requests of one of the kinds are refused in the world at some time.
func (p *Plan) denied(kinds ...string) bool {
	for _, kind := range kinds {
		if p.Denial.Kind == kind {
			return true
		}
	}
	return false
}

// deniedOnly reports whether the world's only disturbances are refused requests, users' requests, and crashes of processes.
func (p *Plan) deniedOnly() bool { return p.Denial.Kind != "" && p.peopleOnly() }

// refusals is the state of the rule about requests that are refused for good, for one process.
type refusals struct {
	process *process
	// since is when a refusal was first seen; zero for never.
	since time.Time
	// again is, by its key, the time since when each retried request has been refused.
	again map[string]time.Time
	// said is when a refused request was last named.
	said time.Time
}

// tellsRetries checks S21: a retried request is named within half a minute. It stops the upgrade within the time that new nodes have
// to boot.
func (r *rules) tellsRetries(w *upgrade.World, step *upgrade.Step) {
	if d := &r.c.plan.Denial; !d.Again || slices.Contains([]string{"evict", "hold", "add", "delegate", "delete", "delete-node"}, d.Kind) {
		return
	}
	if step.Status.Retried.Action != "" {
		r.refusals.said = w.Now
	}
	since := map[string]time.Time{}
	for key, attempt := range w.Open {
		recent := attempt.InFlight || w.Now.Sub(attempt.Ended) < 45*time.Second
		tried := recent && r.c.plan.denied(strings.Split(key, "/")[0]) && attempt.Tries > 1 && attempt.Outcome != nodegroup.OutcomeDone
		node, ofNode := attempt.Action.(nodemark.NodeAction)
		over := ofNode && slices.Contains([]record.NodeState{record.NodeQuarantined, record.NodeParked}, step.Record.Nodes[node.Target().Node].State)
		if !tried || over || step.Record.Stopping != "" || step.Finished {
			continue
		}
		if since[key] = w.Now; !r.refusals.again[key].IsZero() {
			since[key] = r.refusals.again[key]
		}
	}
	r.refusals.again = since
	for _, key := range sortedKeys(since) {
		tried := w.Now.Sub(since[key])
		switch {
		case min(tried, w.Now.Sub(r.refusals.said)) > 30*time.Second: // its effect may be visible a moment before its answer
			r.fail("S21", "%s has been refused again and again for %s, and that is not said", key, tried)
		case tried > r.c.plan.Request.BootTimeout.Duration+2*time.Minute:
			r.fail("S21", "%s has been refused again and again for %s, and the upgrade continues", key, tried)
		}
	}
}

// endsRefused checks S20: a run ends soon after one of its requests was refused for good. Its message says which request, and why.
func (r *rules) endsRefused(p *process, w *upgrade.World, step *upgrade.Step) {
	if !r.c.plan.deniedOnly() {
		return
	}
	if r.refusals.process != p {
		r.refusals = refusals{process: p}
	}
	r.tellsRetries(w, step)
	for _, attempt := range w.Open {
		if attempt.Outcome != nodegroup.OutcomeFatal || attempt.InFlight || isLeftOut(attempt.Action) {
			continue
		}
		if r.refusals.since.IsZero() {
			r.refusals.since = w.Now
		}
		if step.Finished && step.Record.Result != "" && !strings.Contains(step.Record.Message, attempt.Detail) {
			r.fail("S20", "to %s was refused for good, and the end does not say so: %q", attempt.Action, step.Record.Message)
		}
	}
	limit := 2*time.Minute + r.c.plan.Leave // machines that are given back must end first
	if since := r.refusals.since; !since.IsZero() && !step.Finished && w.Now.Sub(since) > limit {
		r.fail("S20", "a request was refused for good %s ago, and the run has not ended: it is stopping with %q", w.Now.Sub(since), step.Record.Stopping)
	}
}

// isLeftOut reports whether an upgrade continues without the action.
func isLeftOut(action nodegroup.Action) bool {
	switch action.(type) {
	case nodemark.HoldNode, schedule.Restart:
		return true
	default:
		return false
	}
}
