package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// horizon limits the virtual time of an upgrade.
	horizon = 90 * 24 * time.Hour
	// maxStepsAtOnce limits how many steps in a row may act without a change of the time.
	maxStepsAtOnce = 10_000
	// maxQuietSteps limits how many steps in a row may do nothing while nothing happens. An upgrade that waits for a
	// known time looks again only then.
	maxQuietSteps = 10_000
)

// EndlessError is returned for an upgrade that waits for an event that never comes in the simulation.
type EndlessError struct {
	Group   string
	Phase   record.Phase
	Waiting string
	Blocked []drain.Blocked
	// Replaced of Total nodes have been replaced so far.
	Replaced, Total int
}

func (e *EndlessError) Error() string {
	return fmt.Sprintf("simulating group %q: the upgrade waits without end: phase %s, %d of %d nodes replaced, waiting for %q, blocked %v",
		e.Group, e.Phase, e.Replaced, e.Total, e.Waiting, e.Blocked)
}

// Run executes a whole upgrade in virtual time and returns its final record. watch, if not nil, is called for every
// step before the step is executed. It must not use the World after it returns. Run returns an *EndlessError when the
// upgrade waits for something that only others do, and the context's error when the context ends. It returns another
// error when the upgrade does not end for another reason: that is a fault of the state machine, never of the cluster.
func (c *Cluster) Run(ctx context.Context, req record.Request, watch func(upgrade.World, upgrade.Step)) (record.Record, error) {
	end := c.clock.now.Add(horizon)
	var step upgrade.Step
	still, quiet := 0, 0
	for c.clock.now.Before(end) && quiet < maxQuietSteps {
		if ctx.Err() != nil {
			return c.record, fmt.Errorf("simulating group %q: %w", req.Group, context.Cause(ctx))
		}
		world := c.sharedWorld(req)
		world.Brief, world.OrderSeed, world.Stay, world.Memo = c.brief, c.drawn, true, &c.memo
		step = upgrade.Next(world)
		if watch != nil {
			watch(world, step)
		}
		c.Do(step)
		c.actions.forgetAnswers()
		switch {
		case step.Finished:
			return c.record, nil
		case len(step.Actions) > 0 || !step.Wake.After(c.clock.now):
			quiet = 0
			if still++; still > maxStepsAtOnce {
				return c.record, fmt.Errorf("simulating group %q: the upgrade never ends; its last actions are %v", req.Group, step.Actions)
			}
		default:
			still = 0
			c.budgets.watchBudgets(&step)
			c.waitForChange(nextWakeTime(&step, c.clock.now))
			if quiet++; step.Persist || c.clock.changed {
				quiet = 0
			}
		}
	}
	return c.record, &EndlessError{
		Group: req.Group, Phase: c.record.Phase, Waiting: step.Status.Waiting, Blocked: step.Blocked,
		Replaced: c.record.Replaced, Total: c.record.Total,
	}
}

// nextWakeTime returns when the next step must follow even if nothing happens. A process looks again from time to
// time in case it missed an event. The simulation misses no events, but the cloud and load balancers must still be
// polled.
func nextWakeTime(step *upgrade.Step, now time.Time) time.Time {
	wake := step.Wake
	if step.Due.After(step.Wake) && step.Poll == 0 {
		wake = step.Due
	}
	if read := now.Add(step.Targets.Every); step.Targets.Every > 0 && read.Before(wake) {
		return read
	}
	return wake
}

// waitForChange advances the time until a change happens that may wake the upgrade, or until wake. Events that are
// due exactly at wake are not run yet, because real changes take time to arrive.
func (c *Cluster) waitForChange(wake time.Time) {
	c.clock.changed = false
	for !c.clock.changed && c.clock.now.Before(wake) {
		if at, ok := c.clock.nextEventTime(); !ok || !at.Before(wake) {
			c.clock.now = wake
			return
		}
		c.Advance(wake)
	}
}

// Do executes a step: it stores the record and carries out all actions at once.
func (c *Cluster) Do(step upgrade.Step) {
	c.record, c.notes = step.Record, step.Notes
	for _, action := range step.Actions {
		outcome, detail := c.carryOutAction(action)
		c.actions.record(action, outcome, detail)
	}
	for _, w := range step.Unscaled {
		if w.Kind == daemonSet {
			c.controllers[w] = drain.Controller{} // the workload lacks no pod
			continue
		}
		c.controllers[w] = c.readController(w)
	}
	c.replaceDrainedNodes()
	c.placePending()
}

// readController returns the scale of the workload's controller. If the controller is not known, Replicas is the
// number of pods that the workload had at the beginning.
func (c *Cluster) readController(w drain.Workload) drain.Controller {
	read := drain.Controller{Refused: c.pods.refused[w], Read: c.clock.now}
	for _, known := range c.pods.sets.workloads {
		if p := known.Pods; p != nil && p.Kind == w.Kind && p.Namespace == w.Namespace && p.Name == w.Name {
			read.Replicas, read.Ordered, read.First = p.Count, known.Ordered, p.First
			return read
		}
	}
	before := c.record.Workloads[w.String()]
	read.Replicas = before.Ready + before.Unready
	return read
}

func (c *Cluster) carryOutAction(action nodegroup.Action) (nodegroup.Outcome, string) {
	switch a := action.(type) {
	case nodemark.NodeAction:
		if _, opens := action.(nodemark.Unfence); opens {
			c.scheduler.freedAnywhere = true
		}
		return c.nodes.applyAction(a, c.record.Run)
	case nodemark.DeleteNode:
		return c.nodes.deleteNode(a)
	case schedule.Eviction:
		return c.evictPod(a)
	case schedule.Restart:
		return c.actOnPod(a.Pod, c.pods.createSurgePod)
	case schedule.Deletion:
		return c.actOnPod(a.UID, c.deletePodPastBudget)
	default:
		return c.cloud.actOnCloud(action)
	}
}

// actOnPod calls act for a pod, if the pod still exists.
func (c *Cluster) actOnPod(uid types.UID, act func(*simPod)) (nodegroup.Outcome, string) {
	u, ok := c.index.bound[uid]
	if !ok {
		return nodegroup.OutcomeMoved, "the pod is gone"
	}
	act(u)
	return nodegroup.OutcomeDone, ""
}

// evictPod answers like the eviction API, and begins the pod's deletion if the eviction is accepted.
func (c *Cluster) evictPod(a schedule.Eviction) (nodegroup.Outcome, string) {
	u, ok := c.index.bound[a.UID]
	if !ok || u.pod.Spec.NodeName != a.Node {
		return nodegroup.OutcomeMoved, "the pod is gone"
	}
	if why := c.pods.webhooks.refuseEviction(u.pod); why != "" {
		return nodegroup.OutcomeLater, why
	}
	if outcome, detail := c.budgets.admitEviction(u); outcome != nodegroup.OutcomeDone {
		return outcome, detail
	}
	if u.pod.DeletionTimestamp == nil {
		c.evicted++
	}
	c.pods.beginPodDeletion(u)
	return nodegroup.OutcomeDone, ""
}

// deletePodPastBudget deletes a pod even if its budget does not allow it.
func (c *Cluster) deletePodPastBudget(u *simPod) {
	if u.pod.DeletionTimestamp == nil {
		c.recordDeletion(u.pod)
	}
	c.pods.beginPodDeletion(u)
}

// recordDeletion counts a pod that is deleted instead of evicted.
func (c *Cluster) recordDeletion(pod *corev1.Pod) {
	name := nameWorkload(pod)
	d := c.deletions[name]
	if d == nil {
		d = &Deletion{Workload: name, After: record.Duration{Duration: c.clock.now.Sub(c.began)}}
		c.deletions[name] = d
	}
	d.Pods++
	if !drain.Predict(pod, c.budgets.index, nil, false).Admitted() {
		d.PastBudget++
	}
}

// nameWorkload returns the name of the pod's workload. If the pod has none, it returns the name of its controller or
// of the pod.
func nameWorkload(pod *corev1.Pod) string {
	if w := drain.WorkloadOf(pod); w != (drain.Workload{}) {
		return w.String()
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return pod.Namespace + "/" + owner.Kind + "/" + owner.Name
	}
	return pod.Namespace + "/Pod/" + pod.Name
}

// listDeletions returns the deletions, in order of time and name.
func (c *Cluster) listDeletions() []Deletion {
	var all []Deletion
	for _, d := range c.deletions {
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b Deletion) int {
		return cmp.Or(cmp.Compare(a.After.Duration, b.After.Duration), strings.Compare(a.Workload, b.Workload))
	})
	return all
}
