package awscloud

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// The processes of a group that can be suspended and that the stand-in implements.
const (
	processLaunch           = "Launch"
	processTerminate        = "Terminate"
	processAZRebalance      = "AZRebalance"
	processReplaceUnhealthy = "ReplaceUnhealthy"
	processHealthCheck      = "HealthCheck"
)

// suspendableProcesses lists the processes that SuspendProcesses accepts.
func suspendableProcesses() []string {
	return []string{
		processLaunch, processTerminate, "AddToLoadBalancer", "AlarmNotification", processAZRebalance,
		processHealthCheck, "InstanceRefresh", processReplaceUnhealthy, "ScheduledActions",
	}
}

// group is one Auto Scaling group. Views for lagging reads share its maps and slices, so these are replaced and never changed
// in place.
type group struct {
	spec      GroupSpec // as it was created; the fields below can change later
	name, arn string
	created   time.Time

	min, max, desired int
	template          *at.LaunchTemplateSpecification
	mixed             *at.MixedInstancesPolicy
	config            string
	suspended         map[string]time.Time // processes, and since when they are suspended
	activities        []at.Activity

	cause      string               // why the desired capacity last changed; the next activity reports it
	blocked    map[string]time.Time // zones with a failed launch, and until when the group avoids them
	unbalanced time.Time            // since when the zones differ by more than one; zero if they do not
}

func (g *group) isSuspended(process string) bool { _, ok := g.suspended[process]; return ok }

// suspend suspends the processes. A process that is already suspended keeps its time.
func (g *group) suspend(names []string, now time.Time) {
	g.suspended = maps.Clone(g.suspended)
	for _, p := range names {
		if !g.isSuspended(p) {
			g.suspended[p] = now
		}
	}
}

func (g *group) resume(names []string) {
	g.suspended = maps.Clone(g.suspended)
	for _, p := range names {
		delete(g.suspended, p)
	}
}

// setDesired changes the desired capacity and adds the reason to the cause of the next activity.
func (g *group) setDesired(n int, now time.Time, why string) {
	if n != g.desired {
		g.cause += causeSentence(now, "%s changing the desired capacity from %d to %d.  ", why, g.desired, n)
		g.desired = n
	}
}

func (g *group) takeCause() string {
	c := g.cause
	g.cause = ""
	return c
}

// blockedZones returns true for each zone in which the group does not launch at the time now.
func (g *group) blockedZones(now time.Time) map[string]bool {
	out := map[string]bool{}
	for z, until := range g.blocked {
		out[z] = now.Before(until)
	}
	return out
}

// adjustGroup launches and terminates instances to reach the desired capacity and to balance the zones.
func (r *region) adjustGroup(g *group, now time.Time) {
	r.terminateUnhealthy(g, now)
	members := r.liveMembers(g.name)
	if totalUnits(members) < g.desired && !g.isSuspended(processLaunch) {
		r.launchMissing(g, members, now)
	}
	if !g.isSuspended(processTerminate) {
		r.terminateSurplus(g, r.liveMembers(g.name), now)
	}
	r.rebalance(g, r.liveMembers(g.name), now)
}

// terminateUnhealthy terminates the unhealthy instances. launchMissing then replaces them.
func (r *region) terminateUnhealthy(g *group, now time.Time) {
	if g.isSuspended(processReplaceUnhealthy) || g.isSuspended(processHealthCheck) || g.isSuspended(processTerminate) {
		return
	}
	for _, i := range r.liveMembers(g.name) {
		if i.unhealthy {
			r.terminate(g, i, now, causeSentence(now,
				"an instance was taken out of service in response to an EC2 health check indicating it has been terminated or stopped."))
		}
	}
}

// launchMissing launches instances until the group has its desired capacity, each in the zone with the fewest instances. If a
// launch fails in a zone, the group avoids the zone for a while and tries the next zone (balanced best effort).
func (r *region) launchMissing(g *group, members []instance, now time.Time) {
	n, have, blocked := countByZone(members), totalUnits(members), g.blockedZones(now)
	cause := causeSentence(now, "an instance was started in response to a difference between desired and actual capacity, increasing the capacity from %d to %d.", have, g.desired)
	for have < g.desired {
		zone, ok := chooseLaunchZone(g.spec.Zones, n, blocked)
		if !ok {
			return
		}
		i, err := r.launchInstance(g, zone, now, cause)
		if err != nil {
			r.avoidZone(g, zone, now, err)
			blocked[zone] = true
			continue
		}
		n[zone]++
		have += i.weight
	}
}

// avoidZone records a failed launch in the zone, and makes the group avoid the zone for Options.CapacityRetry.
func (r *region) avoidZone(g *group, zone string, now time.Time, err error) {
	r.recordFailedLaunch(g, now, asAPIError(err).Message)
	g.blocked = maps.Clone(g.blocked)
	g.blocked[zone] = now.Add(r.opts.CapacityRetry)
}

// terminateSurplus shrinks a group that has more than its desired capacity. It does not drain the nodes.
func (r *region) terminateSurplus(g *group, members []instance, now time.Time) {
	have := totalUnits(members)
	for _, i := range surplusInstances(members, g.desired) {
		r.terminate(g, i, now, causeSentence(now,
			"an instance was taken out of service in response to a difference between desired and actual capacity, shrinking the capacity from %d to %d.  ", have, g.desired)+
			causeSentence(now, "instance %s was selected for termination.", i.id))
	}
}

// rebalance launches one instance in the emptiest zone if the zones have differed by more than one instance for
// Options.Rebalance. Once the new instance is in service, terminateSurplus terminates an instance in the fullest zone.
func (r *region) rebalance(g *group, members []instance, now time.Time) {
	_, to, uneven := chooseRebalanceZones(g.spec.Zones, members, g.blockedZones(now))
	if !uneven || g.isSuspended(processAZRebalance) || g.isSuspended(processLaunch) {
		g.unbalanced = time.Time{}
		return
	}
	if g.unbalanced.IsZero() {
		g.unbalanced = now
	}
	have := totalUnits(members)
	settled := !slices.ContainsFunc(members, func(i instance) bool { return i.state == at.LifecycleStatePending })
	if !settled || have < g.desired || have >= maxDuringRebalance(g.max) || now.Sub(g.unbalanced) < r.opts.Rebalance {
		return
	}
	i, err := r.launchInstance(g, to, now, causeSentence(now,
		"instances were launched to balance instances in zones %s with other zones resulting in more than desired number of instances in the group.", to))
	if err != nil {
		r.avoidZone(g, to, now, err)
		return
	}
	i.rebalance = true
	r.instances[i.id] = i
}

// launchInstance starts one instance in a zone. It fails with EC2's errors for missing capacity or addresses, an unknown image
// or an unknown template.
func (r *region) launchInstance(g *group, zone string, now time.Time, cause string) (instance, error) {
	spec, err := r.resolveLaunchSpec(g)
	if err != nil {
		return instance{}, err
	}
	if r.freeAddresses(zone) <= 0 {
		return instance{}, clientError("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", subnetID(zone))
	}
	if n, limited := r.launchLimits[zone]; limited && n <= 0 {
		return instance{}, noCapacityError(spec.kind, zone)
	} else if limited {
		r.launchLimits[zone] = n - 1
	}
	i := r.newInstance(g, zone, spec, now)
	i.activity = r.beginActivity(g, now, "Launching a new EC2 instance: "+i.id, g.takeCause()+cause)
	r.instances[i.id] = i
	r.launched = append(r.launched, i.id)
	return i, nil
}

// noCapacityError returns EC2's error when a zone has no capacity of a type.
func noCapacityError(kind, zone string) *apiError {
	return clientError("InsufficientInstanceCapacity",
		"We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). Our system will be working on provisioning additional capacity.", kind, zone)
}

// newInstance returns a pending instance without adding it to the region.
func (r *region) newInstance(g *group, zone string, spec launchSpec, now time.Time) instance {
	n := r.addresses[zone]
	r.addresses[zone]++
	id := r.newID("i")
	return instance{
		id:         id,
		group:      g.name,
		zone:       zone,
		subnet:     subnetID(zone),
		number:     int(r.counter),
		spec:       spec,
		weight:     spec.capacity(),
		address:    fmt.Sprintf("10.0.%d.%d", zoneIndex(zone)*32+n/250, 4+n%250),
		node:       r.nodeName(zoneIndex(zone)*32+n/250, 4+n%250),
		state:      at.LifecycleStatePending,
		protected:  g.spec.ProtectNew,
		power:      powerPending,
		powerUntil: now.Add(r.opts.Boot),
		launched:   now,
	}
}

// nodeName returns the private DNS name of the address 10.0.third.fourth. The oldest region, us-east-1, has a shorter domain.
func (r *region) nodeName(third, fourth int) string {
	domain := r.opts.Region + ".compute.internal"
	if r.opts.Region == "us-east-1" {
		domain = "ec2.internal"
	}
	return fmt.Sprintf("ip-10-0-%d-%d.%s", third, fourth, domain)
}

// terminate starts the termination of an instance: after a lifecycle hook and the drain of its targets, its machine stops.
func (r *region) terminate(g *group, i instance, now time.Time, cause string) at.Activity {
	after := beginTermination(i, g.spec.TerminatingHook, r.opts, now)
	if drained := r.deregisterInstance(g, i, now); drained.After(now) && !isStopped(i) {
		after = beginTerminationAfterDrain(i, g.spec.TerminatingHook, drained, now)
	}
	after.activity = r.beginActivity(g, now, "Terminating EC2 instance: "+i.id, g.takeCause()+cause)
	r.storeInstance(i, after, now)
	return g.activities[len(g.activities)-1]
}

// isAllSpot reports whether a mixed instances policy launches only Spot instances.
func isAllSpot(d *at.InstancesDistribution) bool {
	return d != nil && aws.ToInt32(d.OnDemandBaseCapacity) == 0 &&
		d.OnDemandPercentageAboveBaseCapacity != nil && *d.OnDemandPercentageAboveBaseCapacity == 0
}

func isAllOnDemand(d *at.InstancesDistribution) bool {
	return d == nil || d.OnDemandPercentageAboveBaseCapacity == nil || *d.OnDemandPercentageAboveBaseCapacity == 100
}
