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
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
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
func (c *command) loadRecords(ctx context.Context) (records map[string]record.Record, unreadable map[string]error, err error) {
	return cluster.LoadRecords(ctx, c.conn.Client, c.line.stateNamespace)
}

// describeUnreadableRecords returns a line for each record that cannot be read.
func describeUnreadableRecords(unreadable map[string]error) []string {
	var lines []string
	for _, group := range slices.Sorted(maps.Keys(unreadable)) {
		lines = append(lines, fmt.Sprintf("the upgrade of group %s is not shown: %v", group, unreadable[group]))
	}
	return lines
}

// warnOfUnreadableRecords warns of the records of other groups that cannot be read.
func (c *command) warnOfUnreadableRecords(unreadable map[string]error) {
	for _, line := range describeUnreadableRecords(unreadable) {
		c.line.warn(line)
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
	return &session{command: c, provider: cloud.ByClock(provider, c.conn.Now), cluster: &clusterReading{view: view}}, nil
}

// session is a cluster as it was read, and the provider of its nodes.
type session struct {
	*command
	provider cloud.Provider
	cluster  *clusterReading
	// podsOfGroupOnly sessions need no forecast, for which pods of all nodes count, and read those
	// of their group alone.
	podsOfGroupOnly bool
	// checkedBy is the command that checks a dump as this session does; "" for a cluster.
	checkedBy string
	// account is whose cloud credentials are used, for people.
	account string
}

// clusterReading is what was read of a cluster, at one moment. The groups of a session share it.
type clusterReading struct {
	// view has the nodes at first, and the pods when a group was loaded.
	view drain.Snapshot
	// objects are what plans and forecasts look at beside the view; nil before the first of them. use says which of the two
	// they were read for: ForChecks or ForForecasts.
	objects *inventory.Objects
	use     inventory.Use
}

// objectsForChecks returns the objects if they were read for rules. It returns nil if they were read for a forecast, which needs
// fewer kinds, or were not read.
func (r *clusterReading) objectsForChecks() *inventory.Objects {
	if r.use != inventory.ForChecks {
		return nil
	}
	return r.objects
}

// readPods returns what was read of the cluster with the pods that a group with such members needs: those of the whole cluster, which are
// read once, or those of the group's outdated nodes.
func (s *session) readPods(ctx context.Context, members []nodegroup.Member, m mode) (*clusterReading, error) {
	read := s.cluster
	var err error
	switch {
	case s.podsOfGroupOnly: // of no use to another group
		read = &clusterReading{view: s.cluster.view}
		read.view.Pods, err = cluster.ListPodsOfNodes(ctx, s.conn.Client, listOutdatedNodes(members))
	case len(read.view.Pods) > 0:
	case m == modeUpgrade: // a plan, which says what rules find
		if read.objects, err = cluster.ReadObjects(ctx, s.conn.Client, inventory.ForChecks); err == nil {
			read.view.Pods, read.use = groupPodsByNode(read.objects.Pods), inventory.ForChecks
		}
	default:
		read.view.Pods, err = cluster.ListPods(ctx, s.conn.Client)
	}
	if err != nil {
		return nil, explainReadError(err)
	}
	if m == modeStatus { // plans sort them when they tell of workloads, and checks do without
		read.view.Workloads = indexWorkloads(read.view.Pods, read.objects).Current()
	}
	return read, nil
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

// groupPodsByNode are the pods by the name of their node, "" for those without.
func groupPodsByNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
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

// reloadCluster reads the cluster once more, which an upgrade has changed. Groups that were loaded before keep what they have.
func (s *session) reloadCluster(ctx context.Context) error {
	view, err := s.conn.readView(ctx)
	s.cluster = &clusterReading{view: view}
	return err
}

// readForecastObjects reads what a forecast knows of controllers and volumes.
func (s *session) readForecastObjects(ctx context.Context) (*inventory.Objects, error) {
	background, err := cluster.ReadObjects(ctx, s.conn.Client, inventory.ForForecasts)
	if err != nil {
		return nil, explainReadError(err)
	}
	return background, nil
}
