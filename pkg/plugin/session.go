package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// command is a command line and the cluster that it is about.
type command struct {
	line *commandLine
	conn *connection
}

// openCommand reads a command line and connects to the cluster.
func (f *flags) openCommand(cmd *cobra.Command, args []string, parse func(*cobra.Command, []string) (*commandLine, error)) (*command, error) {
	line, err := parse(cmd, args)
	if err != nil {
		return nil, usageError(err)
	}
	conn, err := f.connectCluster(cmd.Context(), f.ErrOut)
	if err == nil {
		line.clock = conn.Now
	}
	return &command{line, conn}, err
}

// openStore is where a group's upgrade is recorded.
func (c *command) openStore(group string) *cluster.Store {
	return cluster.NewStore(c.conn.Client, c.line.stateNamespace, group)
}

// loadRecords returns the upgrade records of all groups, by group name. For each record that cannot be read, unreadable holds
// the error by group name.
func (c *command) loadRecords(ctx context.Context) (records map[string]upgrade.Record, unreadable map[string]error, err error) {
	return cluster.LoadRecords(ctx, c.conn.Client, c.line.stateNamespace)
}

// warnUnreadable names the records of other groups that cannot be read.
func (c *command) warnUnreadable(unreadable map[string]error) {
	for _, group := range slices.Sorted(maps.Keys(unreadable)) {
		fmt.Fprintf(c.line.ErrOut, "warning: the upgrade of group %s is left out: %v\n", group, unreadable[group])
	}
}

// openSession reads the cluster and chooses the provider.
func (c *command) openSession(ctx context.Context) (*session, error) {
	view, err := c.conn.readView(ctx)
	if err != nil {
		return nil, err
	}
	provider, err := c.line.openProvider(ctx, view.Nodes)
	if err != nil {
		return nil, err
	}
	return &session{command: c, provider: cloud.ByClock(provider, c.conn.Now), view: view}, nil
}

// session is a cluster as it was read, and the provider of its nodes.
type session struct {
	*command
	provider cloud.Provider
	view     upgrade.View
	// podsOfGroupOnly sessions need no forecast, for which pods of all nodes count, and read those
	// of their group alone.
	podsOfGroupOnly bool
	// background is read with the first plan.
	clusterWorkloads *inventory.Objects
	// objects are what rules look at, of a session that makes plans; nil of others.
	objects *inventory.Objects
	// checkedBy is the command that checks a dump as this session does; "" for a cluster.
	checkedBy string
	// account is whose cloud credentials are used, for people.
	account string
}

// readPods fills in the pods of the view: of the whole cluster once, or of the group's outdated
// nodes.
func (s *session) readPods(ctx context.Context, members []nodegroup.Member, m mode) error {
	var err error
	switch {
	case s.podsOfGroupOnly:
		s.view.Pods, err = cluster.PodsOn(ctx, s.conn.Client, listOutdatedNodes(members))
	case len(s.view.Pods) > 0:
	case m == modeUpgrade: // a plan, which says what rules find
		if s.objects, err = cluster.ReadObjects(ctx, s.conn.Client, inventory.ForChecks); err == nil {
			s.view.Pods, s.clusterWorkloads = podsByNode(s.objects.Pods), s.objects
		}
	default:
		s.view.Pods, err = cluster.ListPods(ctx, s.conn.Client)
	}
	if err != nil {
		return explainReadError(err)
	}
	if m == modeStatus { // plans sort them when they tell of workloads, and checks do without
		s.view.Workloads = indexWorkloads(s.view.Pods, s.clusterWorkloads).Current()
	}
	return nil
}

// indexWorkloads sorts pods by what keeps them running. Without background no one knows which of
// them are behind Services.
func indexWorkloads(pods map[string][]*corev1.Pod, background *inventory.Objects) *drain.WorkloadIndex {
	var facts drain.Facts
	if background != nil {
		facts = background.Facts()
	}
	index := drain.NewWorkloadIndex(facts)
	for _, onNode := range pods {
		for _, pod := range onNode {
			index.Store(pod)
		}
	}
	return index
}

// podsByNode are the pods by the name of their node, "" for those without.
func podsByNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
	}
	return byNode
}

// listOutdatedNodes names the nodes that would be drained.
func listOutdatedNodes(members []nodegroup.Member) []string {
	var names []string
	for i := range members {
		if node := members[i].Node; node != nil && members[i].Outdated {
			names = append(names, node.Name)
		}
	}
	return names
}

// reloadCluster reads the cluster once more, which an upgrade has changed.
func (s *session) reloadCluster(ctx context.Context) error {
	var err error
	s.view, err = s.conn.readView(ctx)
	s.clusterWorkloads, s.objects = nil, nil
	return err
}
