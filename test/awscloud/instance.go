package awscloud

import (
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// power is the instance's state in EC2. It differs from the lifecycle state in its group.
type power int

const (
	powerPending power = iota
	powerRunning
	powerShuttingDown
	powerTerminated
)

// instance is one EC2 instance and its place in a group. Instances are values: a change replaces the whole.
type instance struct {
	id, group, zone, subnet string
	number                  int // order of launch
	spec                    launchSpec
	weight                  int // capacity units
	address, node           string

	state     at.LifecycleState
	hookUntil time.Time // end of Terminating:Wait
	heldUntil time.Time // while load balancers drain it, before its group stops the machine
	unhealthy bool
	protected bool
	rebalance bool // launched by AZRebalance, beyond the desired capacity
	left      bool // no longer in the group
	activity  string

	power      power
	powerUntil time.Time // when power changes next
	launched   time.Time
	stopped    time.Time // when the machine and its kubelet stopped
	joined     bool      // its Node was created
	nodeGone   bool      // its Node was deleted
	forgotten  bool      // EC2 no longer describes it
}

// removeDrained returns the instance at time now, if nothing but time changed it: booted, after its hook, stopped, gone. It takes one step
// per call, and the next tick takes the next step.
func advanceInstance(i instance, o Options, now time.Time) instance {
	switch {
	case i.state == at.LifecycleStateTerminatingWait && !now.Before(i.hookUntil):
		i.state = at.LifecycleStateTerminatingProceed
		i = shutDown(i, o, now)
	case !i.heldUntil.IsZero() && i.state == at.LifecycleStateTerminating && !now.Before(i.heldUntil):
		i.heldUntil = time.Time{}
		i = shutDown(i, o, now)
	case !now.Before(i.powerUntil):
		i = advancePower(i, o, now)
	}
	if i.state == at.LifecycleStateInService && isStopped(i) {
		i.unhealthy = !now.Before(i.stopped.Add(o.HealthCheck))
	}
	if i.state == at.LifecycleStateTerminating || i.state == at.LifecycleStateTerminatingProceed {
		i.left = i.power == powerTerminated
	}
	return i
}

// advancePower takes the machine to its next state once the time of its present state is over.
func advancePower(i instance, o Options, now time.Time) instance {
	switch i.power {
	case powerPending:
		i.power, i.joined = powerRunning, true
		if i.state == at.LifecycleStatePending {
			i.state = at.LifecycleStateInService
		}
	case powerShuttingDown:
		i.power, i.powerUntil = powerTerminated, now.Add(o.NodeGoneAfter)
	case powerTerminated:
		if i.nodeGone {
			i.forgotten = i.left
		} else {
			i.nodeGone, i.powerUntil = true, now.Add(o.TerminatedVisible)
		}
	}
	return i
}

func isStopped(i instance) bool { return i.power >= powerShuttingDown }

// shutDown stops the machine as EC2 TerminateInstances does. A stopped machine does not change.
func shutDown(i instance, o Options, now time.Time) instance {
	if !isStopped(i) {
		i.power, i.stopped, i.powerUntil = powerShuttingDown, now, now.Add(o.Terminate)
	}
	return i
}

// beginTermination starts the termination of an instance by its group. A hook first keeps a running instance in Terminating:Wait.
func beginTermination(i instance, hook time.Duration, o Options, now time.Time) instance {
	if hook > 0 && !isStopped(i) {
		i.state, i.hookUntil = at.LifecycleStateTerminatingWait, now.Add(hook)
		return i
	}
	i.state = at.LifecycleStateTerminating
	return shutDown(i, o, now)
}

// beginTerminationAfterDrain starts the termination of an instance that load balancers must drain first. Its group waits for the drain before it
// stops the machine. A hook's time runs in parallel.
func beginTerminationAfterDrain(i instance, hook time.Duration, drained, now time.Time) instance {
	if hook > 0 {
		i.state, i.hookUntil = at.LifecycleStateTerminatingWait, now.Add(max(hook, drained.Sub(now)))
		return i
	}
	i.state, i.heldUntil = at.LifecycleStateTerminating, drained
	return i
}

// nodeEffects lists the calls for an instance's Node when the instance changes from before to after.
func nodeEffects(before, after instance) []nodeEffect {
	var out []nodeEffect
	if after.joined && !before.joined {
		out = append(out, bootNode)
	}
	if after.joined && isStopped(after) && !isStopped(before) {
		out = append(out, stopKubelet)
	}
	if after.joined && after.nodeGone && !before.nodeGone {
		out = append(out, deleteNode)
	}
	return out
}

// healthStatus returns the health status that the group shows.
func healthStatus(i instance) string {
	if i.unhealthy {
		return "Unhealthy"
	}
	return "Healthy"
}
