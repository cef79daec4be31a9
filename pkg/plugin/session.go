package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// command is a command line with a connection to its cluster.
type command struct {
	line *commandLine
	conn *connection
}

// openCommand parses the command line and connects to the cluster.
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

// openStore returns the store of a group's upgrade record.
func (c *command) openStore(group string) *cluster.Store {
	return cluster.NewStore(c.conn.Client, c.line.stateNamespace, group)
}

// loadRecords returns the upgrade records of all groups by group name. unreadable has the errors of records that cannot
// be read.
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
	opened, err := c.line.openProviders(ctx, c.conn, view.Nodes)
	if err != nil {
		return nil, err
	}
	return &session{command: c, providers: opened.withClock(c.conn.Now), cluster: &clusterReading{view: view}}, nil
}

// session is the state of a cluster as it was read, with the providers of its nodes.
type session struct {
	*command
	providers
	cluster *clusterReading
	// podsOfGroupOnly is true for a session without forecasts. Only forecasts need the pods of all nodes, so it reads
	// only the pods of the group's nodes.
	podsOfGroupOnly bool
	// checkedBy is the check command for the session's dump; "" for a cluster.
	checkedBy string
	// account names the cloud credentials that are used, for people.
	account string
}

// clusterReading is what was read of a cluster at one moment. The groups of a session share it.
type clusterReading struct {
	// view has nodes at first. It also has pods after a group was loaded.
	view drain.Snapshot
	// objects are the objects for plans and forecasts; nil before the first plan or forecast. use says for which of
	// them they were read: ForChecks or ForForecasts.
	objects *inventory.Objects
	use     inventory.Use
}

// objectsForChecks returns the objects if they were read for the rules. It returns nil if they were not read, or only
// for a forecast, which needs fewer kinds.
func (r *clusterReading) objectsForChecks() *inventory.Objects {
	if r.use != inventory.ForChecks {
		return nil
	}
	return r.objects
}

// readPods returns the cluster's reading with the pods that a group with these members needs. These are all pods of the
// cluster, which are read once, or only the pods of the group's outdated nodes.
func (s *session) readPods(ctx context.Context, members []nodegroup.Member, m mode) (*clusterReading, error) {
	read := s.cluster
	var err error
	switch {
	case s.podsOfGroupOnly: // these pods are of no use to other groups
		read = &clusterReading{view: s.cluster.view}
		read.view.Pods, err = cluster.ListPodsOfNodes(ctx, s.conn.Client, listOutdatedNodes(members))
	case len(read.view.Pods) > 0:
	case m == modeUpgrade: // a plan runs all rules
		if read.objects, err = cluster.ReadObjects(ctx, s.conn.Client, inventory.ForChecks); err == nil {
			read.view.Pods, read.use = groupPodsByNode(read.objects.Pods), inventory.ForChecks
		}
	default:
		read.view.Pods, err = cluster.ListPods(ctx, s.conn.Client)
	}
	if err != nil {
		return nil, explainReadError(err)
	}
	if m == modeStatus { // plans index the pods themselves, and checks need no index
		read.view.Workloads = indexPodsByWorkload(read.view.Pods, read.objects).Current()
	}
	return read, nil
}

// indexPodsByWorkload indexes pods by workload. Without background it does not know which pods are behind Services.
func indexPodsByWorkload(pods map[string][]*corev1.Pod, background *inventory.Objects) *drain.WorkloadIndex {
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

// groupPodsByNode returns the pods by node name, "" for pods without a node.
func groupPodsByNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
	}
	return byNode
}

// listOutdatedNodes returns the names of the outdated nodes.
func listOutdatedNodes(members []nodegroup.Member) []string {
	var names []string
	for i := range members {
		if node := members[i].Node; node != nil && members[i].Outdated {
			names = append(names, node.Name)
		}
	}
	return names
}

// reloadCluster reads the cluster again after an upgrade has changed it. Groups that were loaded before keep the old
// reading.
func (s *session) reloadCluster(ctx context.Context) error {
	view, err := s.conn.readView(ctx)
	s.cluster = &clusterReading{view: view}
	return err
}

// readForecastObjects reads the controllers, volumes and services that a forecast needs.
func (s *session) readForecastObjects(ctx context.Context) (*inventory.Objects, error) {
	background, err := cluster.ReadObjects(ctx, s.conn.Client, inventory.ForForecasts)
	if err != nil {
		return nil, explainReadError(err)
	}
	return background, nil
}
