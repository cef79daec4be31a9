package simulate

import (
	"math"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// scanInterval is how often the autoscaler looks for pods that wait, as cluster-autoscaler does by
// default (--scan-interval).
const scanInterval = 10 * time.Second

// autoscaler brings up nodes of the group for pods that no node takes, up to the group's maximum if it has one.
// It removes none: the upgrade does that with the outdated ones.
type autoscaler struct {
	clock     *clock
	scheduler *scheduler
	cloud     *cloud
	// due is true while a look is to come; last is what the last one found, which is not looked at
	// again before it changes.
	due  bool
	last autoscalerView
}

// autoscalerView is all that the autoscaler decides by, in nodes and pods.
type autoscalerView struct{ pending, booting, desired, most int }

// watchPending has the autoscaler look for pods that wait, a while after they came.
func (a *autoscaler) watchPending() {
	if a == nil || a.due || len(a.scheduler.pending) == 0 || a.observe() == a.last {
		return
	}
	a.due = true
	a.clock.scheduleAfter(scanInterval, a.scaleUp)
}

func (a *autoscaler) observe() autoscalerView {
	view := autoscalerView{desired: a.cloud.group.Desired, most: a.cloud.group.Max}
	if !a.cloud.group.Can.Bounds {
		view.most = math.MaxInt
	}
	for _, g := range a.scheduler.pending {
		view.pending += len(g.pods)
	}
	for _, m := range a.cloud.group.members {
		if m.instance.State == nodegroup.InstancePending {
			view.booting++
		}
	}
	return view
}

// scaleUp launches what the pods that wait need beyond the nodes that are on their way.
func (a *autoscaler) scaleUp() {
	a.due = false
	a.last = a.observe()
	missing := min(a.countNeeded()-a.last.booting, a.last.most-a.last.desired)
	if missing <= 0 {
		return
	}
	a.clock.changed = true
	a.cloud.launchInstances(missing, "")
	a.last = a.observe()
}

// countNeeded is how many empty nodes of the group take the pods that wait, filled one after the
// other. Pods that no such node takes count for none, as do those that waited before.
func (a *autoscaler) countNeeded() int {
	needed := 0
	var filled *simNode
	for _, g := range a.scheduler.pending {
		empty := a.findFittingModel(g.key)
		for _, u := range g.pods {
			if empty == nil || u.initiallyPending {
				continue
			}
			if filled == nil || fit.Check(&g.key.needs, &filled.room) != fit.Fits {
				another := *empty
				needed, filled = needed+1, &another
			}
			filled.room.Reserve(&g.key.needs)
		}
	}
	return needed
}

// findFittingModel is an empty node of the group, in the first of its zones, that takes pods of the
// key; nil where none does.
func (a *autoscaler) findFittingModel(k *schedulingKey) *simNode {
	a.scheduler.index.readSchedulingKey(k)
	for _, zone := range a.cloud.group.Zones {
		n := &simNode{}
		n.room.Attachable = a.cloud.model.attachable
		n.readNodeObject(a.cloud.newNodeObject("next", nodegroup.Instance{ID: "i-next", Zone: zone}))
		if checkNodeFit(k, n) == fit.Fits {
			return n
		}
	}
	return nil
}
