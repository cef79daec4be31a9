package worlds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provider "github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// instance is one machine.
type instance struct {
	id, zone, revision string
	inService, leaving bool
	// standby is true if the owner took the instance out of service. It does not count towards the group's size.
	standby   bool
	unhealthy bool
	// protected is true if the owner protects the instance against scale-in.
	protected bool
	// token is the token of the launch that created the instance; "" if the group launched it itself.
	token string
}

// cloud is the group's true state. It behaves like an Auto Scaling group.
type cloud struct {
	min, desired    int
	max             int
	pointed, wanted string
	moves           int
	suspended       []string
	instances       map[string]*instance
	tokens          map[string]bool
	serial          int
	resizing        bool
	// shrunk counts, by instance, the terminations that lowered the size. scaledIn lists the instances that the cloud removed because
	// the group was larger than its size.
	shrunk   map[string]int
	scaledIn []string
	// readings are the group's states at earlier times, oldest first.
	readings []nodegroup.Group
	// operations are the operations of a cloud that upgrades its groups itself, oldest first. extra is the number of surge nodes that
	// the running operation has added.
	operations []*operation
	extra      int
}

// The processes by which a group changes by itself: rebalance moves instances between zones, alarm changes the size.
const (
	rebalance = "AZRebalance"
	alarm     = "AlarmNotification"
)

func newCloud(p *Plan) cloud {
	k := cloud{pointed: "2", wanted: "2", instances: map[string]*instance{}, tokens: map[string]bool{}, shrunk: map[string]int{}}
	if p.Repoint {
		k.pointed = "1"
	}
	if p.Suspended {
		k.suspended = []string{rebalance}
	}
	if p.hasSize() {
		k.desired = len(p.Nodes) - p.countStandby()
		k.max = k.desired + p.Room
		k.min = max(0, k.desired-p.Slack)
	}
	k.operations = p.pastOperations()
	return k
}

func (k *cloud) addInstance(i *instance) { k.instances[i.id] = i }

// liveInstances returns the instances that are not being terminated and not on Standby, by ID.
func (k *cloud) liveInstances() []*instance {
	var living []*instance
	for _, id := range slices.Sorted(maps.Keys(k.instances)) {
		if i := k.instances[id]; !i.leaving && !i.standby {
			living = append(living, i)
		}
	}
	return living
}

func (k *cloud) nodesPerZone() map[string]int {
	zones := map[string]int{}
	for _, i := range k.liveInstances() {
		zones[i.zone]++
	}
	return zones
}

func errCloud(outcome nodegroup.Outcome, format string, args ...any) error {
	return &provider.Error{Outcome: outcome, Err: fmt.Errorf(format, args...)}
}

// carryOutCloudRequest carries out one request. It returns the errors that the AWS provider returns.
func (c *cluster) carryOutCloudRequest(action nodegroup.Action) error {
	k := &c.cloud
	if c.plan.CloudLag > 0 {
		k.readings = append(k.readings, c.readGroup())
	}
	switch a := action.(type) {
	case nodegroup.SetRevision:
		if a.To.ID == madeUp && a.Recorded {
			return errCloud(nodegroup.OutcomeFatal, "this tool creates no template version from a record")
		}
		k.pointed = a.To.ID
	case nodegroup.Quiesce:
		for _, process := range a.Processes {
			if !slices.Contains(k.suspended, process) {
				k.suspended = append(slices.Clone(k.suspended), process)
			}
		}
	case nodegroup.Resume:
		k.suspended = slices.DeleteFunc(slices.Clone(k.suspended), func(s string) bool { return slices.Contains(a.Processes, s) })
	case nodegroup.RaiseMax:
		if k.max < a.Max && k.max != a.From {
			return errCloud(nodegroup.OutcomeMoved, "the maximum changed to %d from %d", k.max, a.From)
		}
		k.max = max(k.max, a.Max)
	case nodegroup.LowerMax:
		return c.lowerMax(a)
	case nodegroup.AddCapacity:
		return c.addCapacity(a)
	case nodegroup.Terminate:
		return c.terminate(a)
	case nodegroup.Delegate:
		return c.delegate(a)
	case nodegroup.CancelOperation:
		return c.cancelOperation(a)
	case nodegroup.EndSoak:
		return c.endSoak(a)
	default:
		return errCloud(nodegroup.OutcomeFatal, "the cloud cannot %s", action)
	}
	return nil
}

func (c *cluster) lowerMax(a nodegroup.LowerMax) error {
	k := &c.cloud
	switch {
	case k.max <= a.Max:
		return nil
	case k.max != a.From:
		return errCloud(nodegroup.OutcomeMoved, "the maximum changed to %d from %d", k.max, a.From)
	case k.desired > a.Max:
		return errCloud(nodegroup.OutcomeMoved, "the desired size is %d", k.desired)
	}
	k.max = a.Max
	return nil
}

func (c *cluster) addCapacity(a nodegroup.AddCapacity) error {
	k := &c.cloud
	if a.Zone == "" {
		switch {
		case k.desired != a.Desired:
			return errCloud(nodegroup.OutcomeMoved, "the desired size changed to %d from %d", k.desired, a.Desired)
		case k.max != a.Max:
			return errCloud(nodegroup.OutcomeMoved, "the maximum changed to %d from %d", k.max, a.Max)
		}
		k.max, k.desired = k.max+a.N, k.desired+a.N
		c.reconcileSize()
		return nil
	}
	switch {
	case c.plan.Zoneless:
		return errCloud(nodegroup.OutcomeUnsupported, "LaunchInstances is not known here (InvalidAction)")
	case k.tokens[a.Token]:
		return nil
	case k.desired+a.N > k.max:
		return errCloud(nodegroup.OutcomeMoved, "the desired size would be %d, above max value %d", k.desired+a.N, k.max)
	case c.drawFault(ZoneFull):
		return errCloud(nodegroup.OutcomeExhausted, "no capacity in zone %s (InsufficientInstanceCapacity)", a.Zone)
	}
	k.tokens[a.Token] = true
	k.desired += a.N
	for range a.N {
		c.launchInstance(a.Zone, a.Token)
	}
	return nil
}

// launchInstance creates an instance with the group's revision. Its node joins later.
func (c *cluster) launchInstance(zone, token string) {
	k := &c.cloud
	k.serial++
	i := &instance{id: fmt.Sprintf("i-new-%s-%02d", zone, k.serial), zone: zone, revision: k.pointed, token: token}
	k.addInstance(i)
	boot := c.plan.Boot + c.drawUpTo(c.plan.Boot/4)
	if c.calm {
		boot = min(boot, c.plan.Request.BootTimeout.Duration/3) // a group without zones launches instances one after the other
	}
	unlabelled := c.drawFault(BootUnlabelled)
	switch {
	case c.drawFault(BootNever):
		i.unhealthy = true
		c.after(boot, func() { i.inService = true })
		return
	case c.drawFault(BootLate):
		boot += c.drawUpTo(30 * time.Minute)
	}
	c.after(boot/2, func() { i.inService = true })
	c.after(boot, func() { c.registerNode(i, unlabelled) })
}

// registerNode adds the instance's node to the cluster. The node becomes Ready up to 20 s later.
func (c *cluster) registerNode(i *instance, unlabelled bool) {
	if i.leaving || c.cloud.instances[i.id] == nil {
		return
	}
	node := newNode(strings.TrimPrefix(i.id, "i-"), i.zone, i.revision, c.now)
	node.Spec.ProviderID = "aws:///" + i.zone + "/" + i.id
	if unlabelled && !c.calm {
		missing := imageLabel
		if len(c.plan.Request.Current) > 0 {
			missing = flavorLabel
		}
		delete(node.Labels, missing)
		i.unhealthy = true
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Time{Time: c.now}}}
	if c.plan.TaintLag > 0 {
		node.Spec.Taints = append(node.Spec.Taints, notReadyTaint())
	}
	c.closeNode(node)
	c.putNode(node)
	c.shadow[node.Name] = node
	c.after(c.drawUpTo(20*time.Second), func() { c.setNodeReady(node.Name, true) })
}

// reconcileSize simulates the cloud, which keeps the group at its size. It launches instances in the zone with the fewest, or removes
// the last instance by ID.
func (c *cluster) reconcileSize() {
	if c.cloud.resizing || !c.plan.hasSize() {
		return
	}
	c.cloud.resizing = true
	c.after(time.Second+c.drawUpTo(20*time.Second), func() {
		c.cloud.resizing = false
		k := &c.cloud
		living := k.liveInstances()
		switch {
		case len(living) < k.desired && c.drawFault(ZoneFull):
			c.after(time.Minute, c.reconcileSize)
		case len(living) < k.desired:
			c.launchInstance(c.smallestZone(), "")
			c.reconcileSize()
		case len(living) > k.desired:
			victim := living[len(living)-1]
			k.scaledIn = append(k.scaledIn, victim.id)
			c.endInstance(victim)
			c.reconcileSize()
		}
	})
}

func (c *cluster) smallestZone() string {
	zones := c.cloud.nodesPerZone()
	best := ""
	for i := range c.plan.Zones {
		if name := zoneName(i); best == "" || zones[name] < zones[best] {
			best = name
		}
	}
	return best
}

func (c *cluster) terminate(a nodegroup.Terminate) error {
	k := &c.cloud
	i, ok := k.instances[a.Instance]
	if !ok {
		return errCloud(nodegroup.OutcomeMoved, "instance %s is not in the group", a.Instance)
	}
	if i.leaving && k.shrunk[a.Instance] == 0 {
		return errCloud(nodegroup.OutcomeMoved, "instance %s is being terminated", a.Instance)
	}
	if a.Shrink && k.desired <= k.min {
		return errCloud(nodegroup.OutcomeExhausted, "the desired size equals the minimum of %d", k.min)
	}
	if a.Shrink { // it is not documented whether a second request counts: here it does
		k.desired--
		k.shrunk[a.Instance]++
	}
	c.endInstance(i)
	c.reconcileSize()
	return nil
}

// endInstance terminates a machine. Its kubelet stops reporting. Its Node object is deleted later, except if the fault NodeObjectStays
// happens.
func (c *cluster) endInstance(i *instance) {
	if i.leaving {
		return
	}
	i.leaving = true
	name := c.nodeNameOf(i)
	c.after(c.plan.Leave, func() {
		delete(c.cloud.instances, i.id)
		if name == "" {
			name = c.nodeNameOf(i)
		}
		if name == "" {
			return
		}
		c.setNodeReady(name, false)
		if !c.drawFault(NodeObjectStays) {
			c.after(c.drawUpTo(40*time.Second), func() { c.deleteNode(name) })
		}
	})
}

func (c *cluster) nodeNameOf(i *instance) string {
	for name, node := range c.nodes {
		if strings.HasSuffix(node.Spec.ProviderID, "/"+i.id) {
			return name
		}
	}
	return ""
}

func (c *cluster) instanceOf(node *corev1.Node) *instance {
	return c.cloud.instances[node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]]
}

func revisionOf(id string) nodegroup.Revision {
	return nodegroup.Revision{ID: id, Name: "workers:" + id}
}

// readGroup returns the group as its provider describes it, without lag and faults.
func (c *cluster) readGroup() nodegroup.Group {
	k := &c.cloud
	g := nodegroup.Group{
		Name: "workers", Provider: c.plan.Provider, Wanted: revisionOf(k.wanted), Pointed: revisionOf(k.pointed),
		Can: c.plan.capabilities(), Spot: c.plan.Spot, Desired: k.desired, Min: k.min, Max: k.max, Observed: c.now,
	}
	if !g.Can.ListInstances {
		g.Pointed = g.Wanted
		return g
	}
	if c.plan.isDelegated() {
		g.Managed = c.managedGroup()
	} else if g.Can.Resize {
		g.Quiesce, g.Scaling, g.Suspended = []string{rebalance}, []string{alarm}, k.suspended
	}
	g.WantedLabels = map[string]string{imageLabel: k.wanted}
	for i := range c.plan.Zones {
		g.Zones = append(g.Zones, zoneName(i))
	}
	for _, i := range k.instances {
		g.Instances = append(g.Instances, i.describe(k.wanted))
	}
	slices.SortFunc(g.Instances, func(a, b nodegroup.Instance) int { return strings.Compare(a.ID, b.ID) })
	return g
}

func (i *instance) describe(wanted string) nodegroup.Instance {
	state := nodegroup.InstancePending
	switch {
	case i.leaving:
		state = nodegroup.InstanceLeaving
	case i.standby:
		state = nodegroup.InstanceStandby
	case i.inService:
		state = nodegroup.InstanceInService
	}
	return nodegroup.Instance{
		ID: i.id, Zone: i.zone, State: state, Revision: revisionOf(i.revision), Outdated: i.revision != wanted, Protected: i.protected,
	}
}

// pollGroup returns the cloud's answer to a poll, with lag and faults: the group as it was up to CloudLag ago, or an error.
func (c *cluster) pollGroup() (nodegroup.Group, error) {
	if c.drawFault(CloudBlind) {
		return nodegroup.Group{}, errors.New("the cloud cannot be reached")
	}
	lag := c.plan.CloudLag
	if c.drawFault(CloudStale) {
		lag = max(lag, 25*time.Second)
	}
	g := c.readGroup()
	if c.drawFault(CloudUnknown) {
		c.obscureReading(&g)
	}
	if c.calm || lag == 0 {
		c.cloud.readings = append(c.cloud.readings[:0], g)
		return g, nil
	}
	from := c.now.Add(-lag)
	c.cloud.readings = append(c.cloud.readings, g)
	for len(c.cloud.readings) > 1 && c.cloud.readings[0].Observed.Before(from) {
		c.cloud.readings = c.cloud.readings[1:]
	}
	old := c.cloud.readings[c.rng.IntN(len(c.cloud.readings))]
	old.Observed = c.now
	return old, nil
}

// obscureReading changes the state of some instances in service to an unknown one, as during the replacement of a root volume. It may
// also hide the operations of a cloud that upgrades the group itself.
func (c *cluster) obscureReading(g *nodegroup.Group) {
	if c.plan.isDelegated() && c.chance(50) {
		g.Managed, g.Refusal = nil, "its operations cannot be read"
	}
	for i := range g.Instances {
		if g.Instances[i].State == nodegroup.InstanceInService && c.chance(50) {
			g.Instances[i].State = nodegroup.InstanceUnknown
		}
	}
}
