// Package karpenter is the provider of Karpenter's NodePools, also of those of EKS Auto Mode and AKS node auto-provisioning.
// Karpenter replaces drifted nodes by itself. This provider only reads: it shows how far that is and what is in the way.
package karpenter

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

const (
	providerName = "karpenter"
	kind         = "Karpenter NodePool"
	// prefix begins the names of all groups, so that no group of a cloud has the same name.
	prefix = providerName + "/"
)

// Read reads the NodePools and NodeClaims of the cluster.
type Read func(context.Context) ([]*nodepool.NodePool, []*nodepool.NodeClaim, error)

// Provider implements cloud.Provider for the NodePools of one cluster.
type Provider struct {
	read Read

	mu sync.Mutex
	// began has when each pool's running roll-out was first seen to have begun. The drift that began first is gone with its node.
	began map[string]time.Time
}

var _ cloud.Provider = (*Provider)(nil)

// New returns a Provider that reads NodePools and NodeClaims with read. It sends no request.
func New(read Read) *Provider { return &Provider{read: read, began: map[string]time.Time{}} }

// Owns reports whether the node is one of Karpenter's.
func Owns(node *corev1.Node) bool { return node.Labels[nodepool.Label] != "" }

// IsGroup reports whether a group of that name is a NodePool.
func IsGroup(name string) bool { return strings.HasPrefix(name, prefix) }

// GroupName returns the name of the group of a NodePool.
func GroupName(pool string) string { return prefix + pool }

// Name implements cloud.Provider.
func (p *Provider) Name() string { return providerName }

// Account implements cloud.Provider. There is no account.
func (p *Provider) Account(context.Context) (string, error) { return "", nil }

// Groups implements cloud.Provider. It returns all NodePools, also those without nodes.
func (p *Provider) Groups(ctx context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error) {
	began := time.Now()
	pools, claims, err := p.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading Karpenter's NodePools: %w", err)
	}
	if len(pools) == 0 && slices.ContainsFunc(nodes, Owns) {
		return nil, errNoPools
	}
	if len(claims) == 0 && slices.ContainsFunc(nodes, Owns) {
		return nil, errNoClaims
	}
	var groups []nodegroup.Group
	for _, pool := range pools {
		groups = append(groups, p.describe(pool, claims, began))
	}
	slices.SortFunc(groups, func(a, b nodegroup.Group) int { return strings.Compare(a.Name, b.Name) })
	return groups, nil
}

// errNoPools means that the cluster has nodes of Karpenter but serves no NodePools of the version that this package reads.
var errNoPools = errors.New("reading Karpenter's NodePools: nodes have the label " + nodepool.Label + ", but the cluster has no NodePool of " + nodepool.APIVersion + ": upgrade Karpenter to 1.0 or newer")

// errNoClaims means that the NodeClaims of existing nodes are not known. Without them no node can be called current.
var errNoClaims = errors.New("reading Karpenter's NodePools: nodes have the label " + nodepool.Label + ", but the cluster has no NodeClaim of " + nodepool.APIVersion + ": check kubectl get nodeclaims")

// Observe implements cloud.Provider.
func (p *Provider) Observe(ctx context.Context, ref cloud.Ref) (nodegroup.Group, error) {
	began := time.Now()
	pools, claims, err := p.read(ctx)
	if err != nil {
		return nodegroup.Group{}, fmt.Errorf("reading NodePool %q: %w", strings.TrimPrefix(ref.Name, prefix), err)
	}
	i := slices.IndexFunc(pools, func(pool *nodepool.NodePool) bool { return GroupName(pool.Name) == ref.Name })
	if i < 0 {
		return nodegroup.Group{}, fmt.Errorf("reading NodePool %q: %w: list the groups with kubectl nodeupgrade", strings.TrimPrefix(ref.Name, prefix), cloud.ErrNotFound)
	}
	return p.describe(pools[i], claims, began), nil
}

// Belongs implements cloud.Provider. It goes by the node's label.
func (p *Provider) Belongs(group *nodegroup.Group, node *corev1.Node) bool {
	return Owns(node) && GroupName(node.Labels[nodepool.Label]) == group.Name
}

// Outdated implements cloud.Provider. A node without a NodeClaim cannot have drifted.
func (p *Provider) Outdated(*nodegroup.Group, *corev1.Node) bool { return false }

// Do implements cloud.Provider. Karpenter is asked for nothing.
func (p *Provider) Do(_ context.Context, _ string, action nodegroup.Action) error {
	return cloud.Unsupported(providerName, action)
}

// describe returns the group of a pool with its claims, as they were read at the time.
func (p *Provider) describe(pool *nodepool.NodePool, all []*nodepool.NodeClaim, at time.Time) nodegroup.Group {
	claims := slices.DeleteFunc(slices.Clone(all), func(c *nodepool.NodeClaim) bool { return c.PoolName() != pool.Name })
	name := GroupName(pool.Name)
	revision := nodegroup.Revision{ID: pool.TemplateID(), Name: "template:" + pool.ShortHash()}
	group := nodegroup.Group{
		Name: name, Provider: providerName, Kind: kind, Observed: at, Wanted: revision, Pointed: revision,
		Can:     nodegroup.Capabilities{ListInstances: true, Refill: nodegroup.RefillByPods},
		Managed: describeDisruption(pool, claims, at), Autoscaler: nodegroup.Autoscaler{Serves: true},
	}
	for _, c := range claims {
		group.Instances = append(group.Instances, instanceOf(c, revision))
	}
	group.Managed.Operation = p.describeRollout(pool, claims, revision)
	if group.Managed.Operation.ID == "" && !pool.IsCompared(claims) {
		group.Wanted, group.Pointed = nodegroup.Revision{}, nodegroup.Revision{}
		group.Refusal = "Karpenter has not yet compared the nodes with the newest version of NodePool " + pool.Name + ": wait a minute, or check that Karpenter runs"
	}
	group.Managed.Halted = whyHalted(pool, all, at)
	return group
}

// whyHalted returns why Karpenter replaces no node of the pool, although its budgets and pods allow it; "" if nothing is known.
func whyHalted(pool *nodepool.NodePool, all []*nodepool.NodeClaim, at time.Time) string {
	if why := pool.WhyNotReady(); why != "" {
		return "Karpenter launches no nodes for NodePool " + pool.Name + ": " + why
	}
	i := slices.IndexFunc(all, func(c *nodepool.NodeClaim) bool { return c.IsStalled(at) })
	if i < 0 {
		return ""
	}
	text := "NodeClaim " + all[i].Name + " has no machine, and until then Karpenter replaces no node of any NodePool"
	if why := all[i].WhyNotLaunched(); why != "" {
		text += ": " + why
	}
	return text
}

// instanceOf returns the machine of a claim. Its ID is that of the provider ID, and the claim's name while it has none. A machine
// counts as leaving when its pods are gone: until then they may block it.
func instanceOf(c *nodepool.NodeClaim, wanted nodegroup.Revision) nodegroup.Instance {
	drift, drifted := c.FindDrift()
	instance := nodegroup.Instance{ID: instanceID(c), Zone: c.Labels[corev1.LabelTopologyZone], State: nodegroup.InstanceInService, Revision: wanted, Outdated: drifted, Why: drift.Reason}
	_, instance.DeletesRest = c.GracePeriod()
	if drifted {
		instance.Revision = nodegroup.Revision{ID: "drifted", Name: drift.Reason}
	}
	switch {
	case c.IsDrained():
		instance.State = nodegroup.InstanceLeaving
	case !c.IsInitialized():
		instance.State = nodegroup.InstancePending
	}
	return instance
}

// instanceID returns the ID of a claim's machine; see instanceOf.
func instanceID(c *nodepool.NodeClaim) string {
	if c.Status.ProviderID == "" {
		return c.Name
	}
	return path.Base(c.Status.ProviderID)
}

// sight is how far the allowance of a pool's budgets is looked ahead.
const sight = 35 * 24 * time.Hour

// describeDisruption returns how Karpenter replaces the pool's drifted nodes: as many at a time as its budgets allow, each after
// its replacement (karpenter, disruption/drift.go, queue.go).
func describeDisruption(pool *nodepool.NodePool, claims []*nodepool.NodeClaim, at time.Time) *nodegroup.Managed {
	nodes := max(countInitialized(claims), 1) // a percentage of no node is no node, which is not a closed budget
	managed := &nodegroup.Managed{
		SurgeCoversUnavailable: true, PassesOver: true,
		ByItself:    "Karpenter replaces its drifted nodes by itself: follow that with " + nodegroup.Command("status", GroupName(pool.Name)) + " -w",
		ChangeWidth: shell.Command("kubectl edit nodepool", pool.Name) + " (spec.disruption.budgets)", PollInterval: loopInterval, Settle: settle,
	}
	for _, change := range pool.Changes(at, at.Add(sight), nodes) {
		allowed := min(change.Allowed, nodes)
		managed.Pace = append(managed.Pace, nodegroup.Pace{From: change.At, MaxUnavailable: allowed})
		if managed.MaxUnavailable.N == 0 {
			managed.MaxUnavailable.N = allowed
		}
	}
	managed.DrainTimeout, managed.DeletesRest = drainLimit(claims)
	return managed
}

// drainLimit returns how long Karpenter drains a drifted node before it deletes the pods that are left, and false if it waits
// without end for one of the nodes. With a limit it also begins with nodes whose pods cannot be evicted (karpenter,
// disruption/types.go).
func drainLimit(claims []*nodepool.NodeClaim) (limit time.Duration, deletesRest bool) {
	limit = nodegroup.EndlessDrain
	for _, c := range claims {
		own, limited := c.GracePeriod()
		switch _, drifted := c.FindDrift(); {
		case drifted && !limited:
			return nodegroup.EndlessDrain, false
		case drifted && (!deletesRest || own > limit):
			limit, deletesRest = own, true
		}
	}
	return limit, deletesRest
}

// settle is how long Karpenter waits after the drain of a node before it terminates the machine (karpenter,
// node/termination/controller.go).
const settle = 5 * time.Second

// loopInterval is how often Karpenter looks for drifted nodes if it has just found none that it may replace (karpenter,
// disruption/controller.go).
const loopInterval = 10 * time.Second

// countInitialized returns the number of nodes of which Karpenter takes the percentages of budgets (karpenter,
// disruption/helpers.go, BuildDisruptionBudgetMapping).
func countInitialized(claims []*nodepool.NodeClaim) int {
	n := 0
	for _, c := range claims {
		if c.IsInitialized() {
			n++
		}
	}
	return n
}

// describeRollout returns the replacement of the pool's drifted nodes as an operation. It has ended if no node is drifted any
// more. If this process has not seen it running, it is not known whether there was one, and the operation is zero.
func (p *Provider) describeRollout(pool *nodepool.NodePool, claims []*nodepool.NodeClaim, to nodegroup.Revision) nodegroup.Operation {
	op := nodegroup.Operation{ID: pool.Name + "-" + pool.ShortHash(), State: nodegroup.OperationSucceeded, To: to, Kind: "drift"}
	left, chosen := 0, 0
	var current []*nodepool.NodeClaim
	for _, c := range claims {
		drift, drifted := c.FindDrift()
		if !drifted {
			current = append(current, c)
			continue
		}
		op.State = nodegroup.OperationRunning
		if left++; c.IsChosen() || c.IsLeaving() {
			chosen++
		}
		if op.Began.IsZero() || drift.Since.Before(op.Began) {
			op.Began = drift.Since
		}
	}
	if op.Began = p.rememberBegan(pool.Name, op.Began); op.Began.IsZero() {
		return nodegroup.Operation{}
	}
	for _, c := range current {
		if c.IsInitialized() && !c.CreationTimestamp.Time.Before(op.Began) {
			op.Replaced++
		}
	}
	op.Replaced = max(0, op.Replaced-chosen) // each of them has its replacement, or soon has it
	op.Stage = fmt.Sprintf("%d drifted, %d of them being replaced, %d current", left, chosen, len(current))
	return op
}

// rememberBegan returns when the pool's roll-out began: the earliest time that was read, and the last known one if nothing is
// drifted any more.
func (p *Provider) rememberBegan(pool string, began time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, is := p.began[pool]; is && (began.IsZero() || known.Before(began)) {
		return known
	}
	if !began.IsZero() {
		p.began[pool] = began
	}
	return began
}
