package awscloud

import (
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// power is the state of an instance in EC2. Its Auto Scaling group has a lifecycle state of its own for the instance.
type power int

const (
	powerPending power = iota
	powerRunning
	powerShuttingDown
	powerTerminated
)

// instance is one EC2 instance and its membership in a group. Instances are values: every change stores a new value.
type instance struct {
	id, group, zone, subnet string
	number                  int // order of launch
	spec                    launchSpec
	weight                  int // capacity units
	address, node           string

	state     at.LifecycleState
	hookUntil time.Time // end of Terminating:Wait
	heldUntil time.Time // end of the drain by load balancers, before the group stops the machine
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

// advanceInstance returns the instance after the changes that time brings: it boots, its hook ends, it stops, it is gone. Each
// call makes at most one of these steps. The next tick makes the next step.
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

// advancePower returns the instance with the next state of its machine.
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

// beginTermination starts the termination of an instance by its group. With a hook, a running instance first waits in
// Terminating:Wait.
func beginTermination(i instance, hook time.Duration, o Options, now time.Time) instance {
	if hook > 0 && !isStopped(i) {
		i.state, i.hookUntil = at.LifecycleStateTerminatingWait, now.Add(hook)
		return i
	}
	i.state = at.LifecycleStateTerminating
	return shutDown(i, o, now)
}

// beginTerminationAfterDrain starts the termination of an instance that load balancers must drain first. The group stops the
// machine when the drain and the hook have ended. Both run in parallel.
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

// healthStatus returns the instance's health as the group shows it.
func healthStatus(i instance) string {
	if i.unhealthy {
		return "Unhealthy"
	}
	return "Healthy"
}
