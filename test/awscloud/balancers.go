package awscloud

import (
	"errors"
	"fmt"
	"slices"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	lt "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// TargetGroupSpec describes a target group to create.
type TargetGroupSpec struct {
	Name    string
	Account string // "" for the stand-in's own
	IP      bool   // targets are IP addresses; otherwise instances
	// DeregistrationDelay is how long a deregistered target drains. ShownDeregistrationDelay is the delay that the group's
	// attribute shows, DeregistrationDelay by default. A test can drain for seconds and show minutes.
	DeregistrationDelay, ShownDeregistrationDelay time.Duration
}

// TargetEvent is a change of one target: it was registered, began to drain, or is gone.
type TargetEvent struct {
	At        time.Time
	Group, ID string // the target group by its name
	State     string // healthy, draining or gone
}

// targetGroup is one target group.
type targetGroup struct {
	spec    TargetGroupSpec
	arn     string
	targets []target // in order of registration
	events  []TargetEvent
}

// target is one registered or draining target.
type target struct {
	id    string
	port  int32
	until time.Time // when the target has drained; zero while it is registered
}

func (t target) isDraining() bool { return !t.until.IsZero() }

// AddTargetGroup creates the target group of a load balancer and returns its ARN.
func (c *Cloud) AddTargetGroup(s TargetGroupSpec) string {
	if s.Account == "" {
		s.Account = c.opts.Account
	}
	if s.ShownDeregistrationDelay == 0 {
		s.ShownDeregistrationDelay = s.DeregistrationDelay
	}
	var arn string
	_ = c.home.update(func(time.Time) error {
		arn = fmt.Sprintf("arn:aws:elasticloadbalancing:%s:%s:targetgroup/%s/%016x", c.opts.Region, s.Account, s.Name, c.home.nextRandom())
		c.home.balancers.groups[arn] = &targetGroup{spec: s, arn: arn}
		return nil
	})
	return arn
}

// RegisterTarget registers a target as a controller in the cluster does. The change is not in the request log. If the target is
// already registered, nothing changes.
func (c *Cloud) RegisterTarget(arn, id string) error {
	return c.home.update(func(now time.Time) error { return c.home.balancers.changeTarget(arn, id, now, (*targetGroup).register) })
}

// DeregisterTarget starts to drain a target as a controller in the cluster does. The change is not in the request log.
func (c *Cloud) DeregisterTarget(arn, id string) error {
	return c.home.update(func(now time.Time) error {
		return c.home.balancers.changeTarget(arn, id, now, (*targetGroup).deregister)
	})
}

// Targets lists the ids of the registered targets of a target group. Draining targets are not included.
func (c *Cloud) Targets(arn string) []string {
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	var ids []string
	if g := c.home.balancers.groups[arn]; g != nil {
		for _, t := range g.targets {
			if !t.isDraining() {
				ids = append(ids, t.id)
			}
		}
	}
	return ids
}

// TargetEvents lists the changes of the targets of all target groups, in order.
func (c *Cloud) TargetEvents() []TargetEvent {
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	var all []TargetEvent
	for _, arn := range sortedKeys(c.home.balancers.groups) {
		all = append(all, c.home.balancers.groups[arn].events...)
	}
	slices.SortStableFunc(all, func(a, b TargetEvent) int { return a.At.Compare(b.At) })
	return all
}

// balancers are the target groups of a region, by ARN.
type balancers struct{ groups map[string]*targetGroup }

// changeTarget calls change, which is register or deregister, for a target of the group with the ARN.
func (b *balancers) changeTarget(arn, id string, now time.Time, change func(*targetGroup, target, time.Time)) error {
	g, ok := b.groups[arn]
	if !ok {
		return errors.New("changing target " + id + " of " + arn + ": there is no such target group: add it with AddTargetGroup")
	}
	change(g, target{id: id, port: 80}, now)
	return nil
}

// findTarget returns the index of a target, or -1.
func (g *targetGroup) findTarget(id string, port int32) int {
	return slices.IndexFunc(g.targets, func(t target) bool { return t.id == id && t.port == port })
}

func (g *targetGroup) recordEvent(id, state string, now time.Time) {
	g.events = append(g.events, TargetEvent{At: now, Group: g.spec.Name, ID: id, State: state})
}

// register adds a target. A draining target becomes healthy again.
func (g *targetGroup) register(t target, now time.Time) {
	switch i := g.findTarget(t.id, t.port); {
	case i < 0:
		g.targets = append(g.targets, t)
	case !g.targets[i].isDraining():
		return
	default:
		g.targets[i].until = time.Time{}
	}
	g.recordEvent(t.id, "healthy", now)
}

// deregister starts to drain a target, for the delay of its group.
func (g *targetGroup) deregister(t target, now time.Time) {
	if i := g.findTarget(t.id, t.port); i >= 0 && !g.targets[i].isDraining() {
		g.targets[i].until = now.Add(g.spec.DeregistrationDelay)
		g.recordEvent(t.id, "draining", now)
	}
}

// removeDrained removes the targets that have drained.
func (b *balancers) removeDrained(now time.Time) {
	for _, g := range b.groups {
		g.targets = slices.DeleteFunc(g.targets, func(t target) bool {
			over := t.isDraining() && !now.Before(t.until)
			if over {
				g.recordEvent(t.id, "gone", t.until)
			}
			return over
		})
	}
}

// registerInstances registers the instances of the Auto Scaling group that are in service in the target groups of the Auto
// Scaling group.
func (r *region) registerInstances(g *group, now time.Time) {
	if len(g.spec.TargetGroupARNs) == 0 || g.isSuspended("AddToLoadBalancer") {
		return
	}
	for _, i := range r.liveMembers(g.name) {
		for _, arn := range g.spec.TargetGroupARNs {
			if tg := r.balancers.groups[arn]; tg != nil && i.state == at.LifecycleStateInService && tg.findTarget(i.id, 80) < 0 {
				tg.register(target{id: i.id, port: 80}, now)
			}
		}
	}
}

// deregisterInstance deregisters an instance from its group's target groups. drained is the time when all these target groups
// will have drained the instance, zero if the instance is in none of them.
func (r *region) deregisterInstance(g *group, i instance, now time.Time) (drained time.Time) {
	for _, arn := range g.spec.TargetGroupARNs {
		tg := r.balancers.groups[arn]
		if tg == nil {
			continue
		}
		tg.deregister(target{id: i.id, port: 80}, now)
		if n := tg.findTarget(i.id, 80); n >= 0 && tg.targets[n].until.After(drained) {
			drained = tg.targets[n].until
		}
	}
	return drained
}

// health returns the target's health as the API describes it.
func (t target) health() *lt.TargetHealth {
	if t.isDraining() {
		return &lt.TargetHealth{State: lt.TargetHealthStateEnumDraining, Reason: lt.TargetHealthReasonEnumDeregistrationInProgress}
	}
	return &lt.TargetHealth{State: lt.TargetHealthStateEnumHealthy}
}
