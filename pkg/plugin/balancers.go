package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// balancers are the load balancers that send traffic to a group's nodes and their pods.
type balancers struct {
	cloud.TargetGroups
	// targets are all targets of the target groups, as they were last read.
	targets []nodegroup.Target
	// notes describe for people which load balancers are not watched and why.
	notes []string
}

// unwatchedFallback is what the upgrade does instead of watching a load balancer.
const unwatchedFallback = "it relies on the node label and --settle instead"

// findBalancers returns the load balancers to watch. It adds a note for each one that it cannot read, because the
// upgrade can continue without it. objects are the objects that were read from the cluster, nil if none were.
func (g *groupContext) findBalancers(ctx context.Context, client kubernetes.Interface, objects *inventory.Objects) balancers {
	var b balancers
	balancer, ok := cloud.As[cloud.Balancer](g.provider)
	if !ok || g.isCurrent() || !g.request.Strategy.Traits().Drains {
		return b // no node is drained
	}
	bound, err := listBoundTargetGroups(ctx, client, objects)
	if err != nil {
		b.noteUnwatched("target groups that only TargetGroupBindings name", err.Error())
	}
	if b.TargetGroups, err = balancer.TargetGroups(ctx, &g.group, bound); err != nil {
		b.TargetGroups = cloud.TargetGroups{}
		b.noteUnwatched("load balancers", err.Error())
	}
	b.loadTargets(ctx, g.provider)
	if len(b.Denied) > 0 {
		b.noteUnwatched("load balancers", "your cloud credentials may not "+strings.Join(b.Denied, ", "))
	}
	if len(b.Skipped) > 0 {
		b.noteUnwatched("target groups of other accounts ("+strings.Join(b.Skipped, ", ")+")", "")
	}
	return b
}

// loadTargets reads the targets of the watched load balancers. If that fails there are none, because a forecast is
// useful without them.
func (b *balancers) loadTargets(ctx context.Context, provider cloud.Provider) {
	b.targets = nil
	if balancer, ok := cloud.As[cloud.Balancer](provider); ok && len(b.Groups) > 0 {
		if targets, err := balancer.Targets(ctx, b.Groups, nil); err == nil {
			b.targets = targets
		}
	}
}

// noteUnwatched adds a note that the upgrade does not watch some load balancers. why may be "" if what contains the
// reason.
func (b *balancers) noteUnwatched(what, why string) {
	note := "the upgrade does not watch " + what
	if why != "" {
		note += " (" + why + ")"
	}
	b.notes = append(b.notes, note+"; "+unwatchedFallback)
}

// listBoundTargetGroups returns the ARNs of the target groups in the cluster's TargetGroupBindings.
func listBoundTargetGroups(ctx context.Context, client kubernetes.Interface, objects *inventory.Objects) ([]string, error) {
	var err error
	if objects == nil {
		if objects, err = cluster.ReadObjects(ctx, client, inventory.ForBalancers); err != nil {
			return nil, err
		}
	}
	if slices.Contains(objects.Unread, "targetgroupbindings") {
		err = errors.New("you may not list targetgroupbindings")
	}
	var arns []string
	for _, binding := range objects.Bindings {
		if binding.Spec.TargetGroup != "" {
			arns = append(arns, binding.Spec.TargetGroup)
		}
	}
	return arns, err
}

// deregistrationDelays returns the deregistration delays of the watched target groups, by ID.
func (b *balancers) deregistrationDelays() map[string]time.Duration {
	delays := map[string]time.Duration{}
	for _, group := range b.Groups {
		delays[group.ID] = group.Delay
	}
	return delays
}

// describeWatched describes for people which load balancers are watched and which are not.
func (b *balancers) describeWatched() []string {
	lines := slices.Clone(b.notes)
	if len(b.Groups) == 0 {
		return lines
	}
	var names []string
	for _, group := range b.Groups {
		names = append(names, group.Name)
	}
	return append(lines, "a node is terminated after these target groups have removed it: "+report.JoinFew(names))
}
