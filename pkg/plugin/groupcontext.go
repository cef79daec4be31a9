package plugin

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/karpenter"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// groupContext is one group and its upgrade. It is made in three steps: observeGroup reads the group, resolveGroup
// determines the upgrade, and checkUpgrade applies rules to it. planning and reportedGroup add what only plans and
// status need.
type groupContext struct {
	name string
	// store stores the record of the group's upgrade.
	store *cluster.Store
	observation
	resolution
	// movable are the pods that a restart moves without a gap. It is used if no controllers were read.
	movable drain.Movable
	// findings are the findings of the rules that apply to every upgrade.
	findings []preflight.Finding
}

// observation is what was read of a group, its nodes and its record at one moment.
type observation struct {
	provider cloud.Provider
	// to is the target with which the group was observed, as --to takes it.
	to      string
	group   nodegroup.Group
	members []nodegroup.Member
	// unlabelled is the number of members that are outdated only by their labels.
	unlabelled int
	cluster    *clusterReading
	// stored is the record of the group's upgrade. Its Run is "" if there is none.
	stored record.Record
	// now is when the group was observed. idle is how long, up to now, no process had carried out the upgrade.
	now  time.Time
	idle time.Duration
}

// resolution is the upgrade that a command begins or continues.
type resolution struct {
	request record.Request
	record  record.Record
	// rebuilt is true if the record was lost and was rebuilt from marks on nodes.
	rebuilt bool
	// nodesToUnfence are the fenced nodes for which a finished run was reopened. It is nil for a run that is not over.
	nodesToUnfence []string
	// keptSurge is a warning that --max-surge has no effect; "" if there is none.
	keptSurge string
}

// loadGroup observes a group, resolves its upgrade and checks it. It only reads.
func (s *session) loadGroup(ctx context.Context, name string, m mode) (*groupContext, error) {
	g := &groupContext{name: name, store: s.openStore(name)}
	if err := s.observeGroup(ctx, g, m); err != nil {
		return nil, err
	}
	if err := cmp.Or(s.rejectAbsentTarget(g, m), s.rejectTargetOfRecordOnly(g, m)); err != nil {
		return nil, err
	}
	if err := g.rejectUnreadableMarks(m); err != nil {
		return nil, err
	}
	if err := s.rejectForeignRun(ctx, g, m); err != nil {
		return nil, err
	}
	if err := s.resolveGroup(g, m); err != nil {
		return nil, err
	}
	if err := g.loadMovable(ctx, s.conn.Client, m); err != nil {
		return nil, err
	}
	return g, s.checkUpgrade(ctx, g, m)
}

// observeGroup reads the group's record, the group itself and the pods of its nodes.
func (s *session) observeGroup(ctx context.Context, g *groupContext, m mode) error {
	g.provider, g.now = s.of(g.name), s.conn.Now()
	err := s.loadRecord(ctx, g)
	if err != nil {
		return err
	}
	if g.to, err = chooseTarget(m, s.line.settings.To, &g.stored); err != nil {
		return err
	}
	switch known := len(s.line.settings.Current) > 0 || !g.stored.IsResumable(); {
	case known || m == modeRollback:
	case m == modeStatus && g.stored.IsCloudless(): // only a status uses the recorded labels; an upgrade requires --current
		line := *s.line
		line.settings.Current = g.stored.Request.Current
		g.provider = line.newManualProvider()
	default:
		g.provider = cloud.RequireLabels(g.provider, g.stored.Request.Current)
	}
	if g.group, err = g.provider.Observe(ctx, cloud.Ref{Name: g.name, To: g.to}); err != nil {
		return err
	}
	if err = g.observeOperationTarget(ctx, m); err != nil {
		return err
	}
	if s.line.settings.Strategy.Traits().ByAutoscaler || s.line.compare {
		g.group.Autoscaler = cluster.ReadAutoscaler(ctx, s.conn.Client, &g.group, g.now)
	}
	if g.cluster, err = s.readPods(ctx, joinMembers(g.provider, &g.group, s.cluster.view.Nodes), m); err != nil {
		return err
	}
	g.joinNodes(&g.stored)
	return g.rejectGroupOfOtherCluster(s.conn.context)
}

// loadMovable reads the pods that a restart moves, if the upgrade moves pods by restarts and no controllers were read.
// The budgets of such pods do not block the upgrade.
func (g *groupContext) loadMovable(ctx context.Context, client kubernetes.Interface, m mode) (err error) {
	if m == modeUpgrade && g.cluster.objects == nil && g.request.Move == record.MoveBySurge {
		g.movable, err = cluster.ReadMovable(ctx, client)
	}
	return err
}

// loadRecord reads the record. If the upgrade is not over, it also reads how long no process has carried out the
// upgrade.
func (s *session) loadRecord(ctx context.Context, g *groupContext) (err error) {
	if g.stored, err = g.store.LoadRecord(ctx); err != nil || !g.stored.IsResumable() {
		return err
	}
	lease, err := s.conn.ReadLease(ctx, s.line.stateNamespace, g.name)
	if err != nil {
		return err
	}
	g.idle = lease.FreeFor()
	return nil
}

// observeOperationTarget observes the group again if a status finds that the cloud is upgrading the group to another
// revision than the wanted one. The nodes are then compared with the cloud's target.
func (g *groupContext) observeOperationTarget(ctx context.Context, m mode) error {
	op := runningOperation(&g.group)
	if m != modeStatus || g.stored.IsResumable() || op == nil || !op.IsUpgrade() || op.To.ID == g.group.Wanted.ID {
		return nil
	}
	var err error
	g.to = op.To.Target()
	g.group, err = g.provider.Observe(ctx, cloud.Ref{Name: g.name, To: g.to})
	return err
}

// resolveGroup determines the upgrade from the observation. It replaces an earlier resolution.
func (s *session) resolveGroup(g *groupContext, m mode) error {
	if key := preflight.UnknownLabel(s.line.settings.Current, g.members); key != "" {
		return usageError(fmt.Errorf("--current=%s=%s: no node of group %q has a label %q: check the spelling, or give the outdated nodes that label with another value",
			key, s.line.settings.Current[key], g.group.Name, key))
	}
	var wished record.Request
	if !m.keepsSettings() {
		settings := s.line.settings
		settings.To = g.to
		var err error
		group, size, outdated := g.sizesAtStart(&g.stored)
		if wished, err = settings.ResolveRequest(&group, size, outdated); err != nil {
			return usageError(err)
		}
	}
	var err error
	if g.resolution, err = g.adoptRecord(s.line, m, wished); err != nil {
		return err
	}
	return g.rejectUnknownWorkloads(s.line.settings.IgnoreUnready)
}

// checkUpgrade applies the rules that hold for every upgrade. If the rules need more objects than the group's nodes and
// pods, it reads them, and also looks for volumes that keep pods on their nodes.
func (s *session) checkUpgrade(ctx context.Context, g *groupContext, m mode) error {
	world, facts, objects := g.makeWorld(g.now), preflight.Facts{ServerVersion: s.conn.Version, ControlPlane: s.line.controlPlane}, g.cluster.objectsForChecks()
	switch {
	case s.podsOfGroupOnly && m == modeUpgrade && preflight.NeedsAllObjects(&world):
		var err error
		if objects, err = cluster.ReadObjects(ctx, s.conn.Client, inventory.ForChecks); err != nil {
			return explainReadError(err)
		}
		facts.Pods, facts.Scales = slices.Values(objects.Pods), preflight.ScalesOf(objects)
	case !s.podsOfGroupOnly:
		facts.Pods = eachPod(g.cluster.view.Pods)
		if known := g.cluster.objects; known != nil {
			facts.Scales, facts.ReportedPods = preflight.ScalesOf(known), preflight.ReportedPodCounts(known)
		}
	}
	g.findings = slices.DeleteFunc(preflight.CheckUpgrade(&world, facts), func(f preflight.Finding) bool {
		return slices.Contains(s.line.skipChecks, f.Rule)
	})
	if s.line.isDryRun() {
		return nil // the plan runs all rules later
	}
	continues := m != modeUpgrade || g.record.IsResumable()
	stops := func(f preflight.Finding) bool { return preflight.StopsUpgrade(&f, &g.request, continues) }
	if objects == nil && m == modeUpgrade && slices.ContainsFunc(g.findings, stops) { // an annotation of a workload may skip the finding, so the objects are needed
		var err error
		if objects, err = cluster.ReadObjects(ctx, s.conn.Client, inventory.ForChecks); err != nil {
			return explainReadError(err)
		}
	}
	if objects != nil {
		scene := preflight.NewScene(&world, facts, objects)
		scene.SkipAnnotated(g.findings)
		bound := preflight.Check(scene, preflight.VolumeRules(), s.line.skipChecks)
		g.findings = append(g.findings, slices.DeleteFunc(bound, func(f preflight.Finding) bool { return !stops(f) })...)
	}
	return nil
}

// eachPod yields the pods of all nodes and the pods without a node.
func eachPod(pods map[string][]*corev1.Pod) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, onNode := range pods {
			for _, pod := range onNode {
				if !yield(pod) {
					return
				}
			}
		}
	}
}

// joinNodes joins the group's instances with the cluster's nodes and their pods. The record says which of them were
// found outdated by their labels.
func (o *observation) joinNodes(record *record.Record) {
	o.members = joinMembers(o.provider, &o.group, o.cluster.view.Nodes)
	setOwnerKind(&o.group, o.members)
	o.unlabelled = upgrade.MarkOutdatedByLabels(&o.group, o.members, record)
	for i := range o.members {
		if node := o.members[i].Node; node != nil {
			o.members[i].Pods = o.cluster.view.Pods[node.Name]
		}
	}
}

// rejectGroupOfOtherCluster returns an error if none of the group's instances is a node of the cluster. Karpenter's instances are read
// from the cluster itself; a new NodePool has no node until its first machine has joined.
func (o *observation) rejectGroupOfOtherCluster(contextName string) error {
	if joined := slices.ContainsFunc(o.members, func(m nodegroup.Member) bool { return m.Node != nil }); !joined && len(o.members) > 0 && !karpenter.IsGroup(o.group.Name) {
		return usageError(fmt.Errorf("group %q has %d instances, but none of them is a node of the cluster of context %q: check --context",
			o.group.Name, len(o.members), contextName))
	}
	return nil
}

// rejectLargeRecord returns an error if a new upgrade's record could become too large for its ConfigMap.
func (g *groupContext) rejectLargeRecord() error {
	if g.record.IsResumable() {
		return nil
	}
	if err := g.request.CheckRecordSize(&g.group, g.members); err != nil {
		return usageError(err)
	}
	return nil
}

// rejectUnknownWorkloads returns an error if a workload to ignore has no pod and is not in the record either.
func (g *groupContext) rejectUnknownWorkloads(ignored []string) error {
	for _, name := range ignored {
		if name != record.AllWorkloads && !g.hasWorkload(name) {
			return usageError(fmt.Errorf("--ignore-unready=%s: group %q has no pod of such a workload: check the spelling, for example shop/Deployment/web", name, g.group.Name))
		}
	}
	return nil
}

func (g *groupContext) hasWorkload(name string) bool {
	for known := range g.record.Workloads {
		if strings.EqualFold(known, name) {
			return true
		}
	}
	for _, pods := range g.cluster.view.Pods {
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return strings.EqualFold(upgrade.WatchedWorkload(pod).String(), name) }) {
			return true
		}
	}
	return false
}

// countNodes returns the group's size, of which percentages are calculated.
func (o *observation) countNodes() int {
	if o.group.Can.Resize {
		return o.group.Desired
	}
	return len(o.members)
}

// sizesAtStart returns the group, its size and its number of outdated nodes as they were before the recorded upgrade.
// So added nodes do not make percentages larger or use up room below the group's maximum.
func (o *observation) sizesAtStart(record *record.Record) (group nodegroup.Group, size, outdated int) {
	group, size, outdated = o.group, o.countNodes(), countOutdated(o.members)
	if before := record.Sizes; record.IsResumable() && before.Desired > 0 {
		group.Desired, group.Max = before.Desired, before.Max
		size, outdated = before.Desired, max(outdated, record.Total)
	}
	return group, size, outdated
}

// isCurrent reports whether there is nothing to upgrade and no upgrade to continue.
func (g *groupContext) isCurrent() bool { return countOutdated(g.members) == 0 && g.record.Run == "" }

// makeUpToDateRecord returns the record for a group that needs no upgrade.
func (g *groupContext) makeUpToDateRecord() record.Record {
	if standby := upgrade.DescribeStandby(g.members); standby != "" {
		return record.Record{Result: record.Succeeded, Message: "no other node is outdated; " + standby}
	}
	return record.Record{Result: record.Succeeded, Message: report.AllNodesAre(len(g.members)) + " current"}
}

// countOutdatedIfKnown returns the number of outdated members, nil if it is not known which are outdated.
func countOutdatedIfKnown(g *nodegroup.Group, members []nodegroup.Member) *int {
	if !g.IsTargetKnown() {
		return nil
	}
	return new(countOutdated(members))
}

func countOutdated(members []nodegroup.Member) int {
	n := 0
	for i := range members {
		if members[i].Outdated {
			n++
		}
	}
	return n
}

// makeWorld returns the World in which a plan or a status decides.
func (g *groupContext) makeWorld(now time.Time) upgrade.World {
	world := upgrade.NewWorld(now, g.group, g.members, &g.cluster.view, g.record)
	world.Request, world.Movable = g.request, g.findMovable()
	return world
}
