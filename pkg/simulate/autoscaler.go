package simulate

import (
	"math"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// scanInterval is how often the autoscaler looks for pending pods. It is cluster-autoscaler's default
// (--scan-interval).
const scanInterval = 10 * time.Second

// autoscaler adds nodes to the group for pods that no node takes, up to the group's maximum if it has one. It removes
// no nodes.
type autoscaler struct {
	clock     *clock
	scheduler *scheduler
	cloud     *cloud
	// due is true while a scan is scheduled. last is the view after the last scan; the autoscaler scans again only
	// after that has changed.
	due  bool
	last autoscalerView
}

// autoscalerView is all that the autoscaler's decision depends on, as numbers of nodes and pods.
type autoscalerView struct{ pending, booting, desired, most int }

// scanIfPending schedules a scan if pods are pending and the view has changed.
func (a *autoscaler) scanIfPending() {
	if a == nil || a.due || len(a.scheduler.pending) == 0 || a.currentView() == a.last {
		return
	}
	a.due = true
	a.clock.scheduleAfter(scanInterval, a.scaleUp)
}

func (a *autoscaler) currentView() autoscalerView {
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

// scaleUp launches the nodes that pending pods need, minus those that are already booting.
func (a *autoscaler) scaleUp() {
	a.due = false
	a.last = a.currentView()
	missing := min(a.countNeededNodes()-a.last.booting, a.last.most-a.last.desired)
	if missing <= 0 {
		return
	}
	a.clock.changed = true
	a.cloud.launchInstances(missing, "")
	a.last = a.currentView()
}

// countNeededNodes returns how many empty nodes of the group the pending pods need, filled one after the other. It ignores
// pods that no such node takes, and pods that were pending before the simulation.
func (a *autoscaler) countNeededNodes() int {
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
			filled.room.ReserveRoom(&g.key.needs)
		}
	}
	return needed
}

// findFittingModel returns an empty node of the group that takes pods of the key, in the first such zone. It returns
// nil if there is none.
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
