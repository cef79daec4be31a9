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

// Denial refuses all requests of one kind from From to To, or until Calm. The zero value means none.
type Denial struct {
	// Kind is the prefix of the keys of the refused actions.
	Kind     string
	From, To time.Duration
	// Again is true if the answer asks for a later retry. The retries are refused, too.
	Again bool
}

// drawDenial draws a denial for some worlds. It draws from its own generator, so that all other draws stay the same.
func drawDenial(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x64656e79))}
	if !d.chance(12) {
		return
	}
	p.Denial = Denial{Kind: pick(d, deniableKinds(p)...), To: d.between(10*time.Minute, 6*time.Hour)}
	if d.chance(50) {
		p.Denial.From = d.between(0, 30*time.Minute)
	}
	p.Denial.Again = d.chance(35)
}

// deniableKinds lists the kinds of requests that upgrades of the plan's group make.
func deniableKinds(p *Plan) []string {
	if p.isDelegated() {
		return []string{"delegate"}
	}
	kinds := []string{"fence", "unfence", "free", "hold", "start-drain", "evict", "delete", "delete-node"}
	if p.isPodScaled() {
		return append(kinds, "set-revision", "terminate", "terminate")
	}
	if p.hasSize() {
		kinds = append(kinds, "set-revision", "quiesce", "resume", "resume", "raise-max", "lower-max", "add", "terminate", "terminate")
	}
	return kinds
}

// isDenied reports whether the plan's denial refuses the action now.
func (c *cluster) isDenied(action nodegroup.Action) bool {
	d, at := &c.plan.Denial, c.elapsed()
	return actionKind(action) == d.Kind && !c.calm && at >= d.From && at < d.To
}

// actionKind returns the kind of an action: the first part of its key.
func actionKind(action nodegroup.Action) string {
	kind, _, _ := strings.Cut(action.Key(), "/")
	return kind
}

// refusalOf returns the denial's answer to a request.
func (d *Denial) refusalOf(action nodegroup.Action) error {
	switch cloud := nodegroup.IsCloudAction(action); {
	case d.Again && cloud:
		return errCloud(nodegroup.OutcomeLater, "Rate exceeded (Throttling)")
	case d.Again:
		return apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New(`admission webhook "guard" denied the request`))
	}
	if nodegroup.IsCloudAction(action) {
		return errCloud(nodegroup.OutcomeFatal, "not authorized (forbidden)")
	}
	return apierrors.NewForbidden(corev1.Resource("nodes"), "", errNoPolicy)
}

// hasDenial reports whether the plan's denial is for one of the kinds.
func (p *Plan) hasDenial(kinds ...string) bool {
	for _, kind := range kinds {
		if p.Denial.Kind == kind {
			return true
		}
	}
	return false
}

// hasOnlyDenials reports whether the world's only disturbances are refused requests, users' requests, and crashes of processes.
func (p *Plan) hasOnlyDenials() bool { return p.Denial.Kind != "" && p.hasOnlyUserRequests() }

// refusalState is the state of the rule about requests that are refused for good, for one process.
type refusalState struct {
	process *process
	// firstSeen is when a refusal was first seen; zero for never.
	firstSeen time.Time
	// refusedSince is, by its key, the time since when each retried request has been refused.
	refusedSince map[string]time.Time
	// lastNamed is when the status last named a refused request.
	lastNamed time.Time
}

// checkRetriesReported checks S21: the status names a refused and retried request within 30 s. The upgrade stops after the boot
// timeout.
func (r *rules) checkRetriesReported(w *upgrade.World, step *upgrade.Step) {
	if d := &r.c.plan.Denial; !d.Again || slices.Contains([]string{"evict", "hold", "add", "delegate", "delete", "delete-node"}, d.Kind) {
		return
	}
	if step.Status.Retried.Action != "" {
		r.refusals.lastNamed = w.Now
	}
	since := map[string]time.Time{}
	for key, attempt := range w.Open {
		recent := attempt.InFlight || w.Now.Sub(attempt.Ended) < 45*time.Second
		tried := recent && r.c.plan.hasDenial(strings.Split(key, "/")[0]) && attempt.Tries > 1 && attempt.Outcome != nodegroup.OutcomeDone
		node, ofNode := attempt.Action.(nodemark.NodeAction)
		over := ofNode && slices.Contains([]record.NodeState{record.NodeQuarantined, record.NodeParked}, step.Record.Nodes[node.Target().Node].State)
		if !tried || over || step.Record.Stopping != "" || step.Finished {
			continue
		}
		if since[key] = w.Now; !r.refusals.refusedSince[key].IsZero() {
			since[key] = r.refusals.refusedSince[key]
		}
	}
	r.refusals.refusedSince = since
	for _, key := range sortedKeys(since) {
		tried := w.Now.Sub(since[key])
		switch {
		case min(tried, w.Now.Sub(r.refusals.lastNamed)) > 30*time.Second: // the upgrade may see the effect of a request a moment before its answer
			r.fail("S21", "%s has been refused for %s, but the status does not say so", key, tried)
		case tried > r.c.plan.Request.BootTimeout.Duration+2*time.Minute:
			r.fail("S21", "%s has been refused for %s, but the upgrade continues", key, tried)
		}
	}
}

// checkEndsAfterRefusal checks S20: a run ends soon after a request was refused for good. Its message names the request and the
// reason.
func (r *rules) checkEndsAfterRefusal(p *process, w *upgrade.World, step *upgrade.Step) {
	if !r.c.plan.hasOnlyDenials() {
		return
	}
	if r.refusals.process != p {
		r.refusals = refusalState{process: p}
	}
	r.checkRetriesReported(w, step)
	for _, attempt := range w.Open {
		if attempt.Outcome != nodegroup.OutcomeFatal || attempt.InFlight || isOptional(attempt.Action) {
			continue
		}
		if r.refusals.firstSeen.IsZero() {
			r.refusals.firstSeen = w.Now
		}
		if step.Finished && step.Record.Result != "" && !strings.Contains(step.Record.Message, attempt.Detail) {
			r.fail("S20", "to %s was refused for good, but the final message does not say so: %q", attempt.Action, step.Record.Message)
		}
	}
	limit := 2*time.Minute + r.c.plan.Leave // the run waits until the surge nodes that it removes have ended
	if since := r.refusals.firstSeen; !since.IsZero() && !step.Finished && w.Now.Sub(since) > limit {
		r.fail("S20", "a request was refused for good %s ago, and the run has not ended: it is stopping with %q", w.Now.Sub(since), step.Record.Stopping)
	}
}

// isOptional reports whether an upgrade continues if the action is refused.
func isOptional(action nodegroup.Action) bool {
	switch action.(type) {
	case nodemark.HoldNode, schedule.Restart:
		return true
	default:
		return false
	}
}
