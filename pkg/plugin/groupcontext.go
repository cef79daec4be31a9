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

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// groupContext is one group as an upgrade would find it.
type groupContext struct {
	name     string
	provider cloud.Provider
	// store is where the group's upgrade is recorded.
	store   *cluster.Store
	group   nodegroup.Group
	members []nodegroup.Member
	// unlabelled is how many members are outdated for their labels alone.
	unlabelled int
	view       upgrade.View
	request    upgrade.Request
	record     upgrade.Record
	// rebuilt tells that no record is stored, and that this one was made from marks on nodes.
	rebuilt bool
	// releases are the nodes that the run was opened once more to release; nil for a run that is not
	// over.
	releases []string
	// watched is how an operation of the group's own cloud is followed that no upgrade is recorded
	// of, with the notes of the last look; nil where there is none.
	watched *upgrade.Record
	notes   upgrade.Notes
	// movable tells which pods a restart moves without a gap, where no controllers were read.
	movable drain.Movable
	// controllers are those of workloads that have fewer pods than before an upgrade.
	controllers map[drain.Workload]drain.Controller
	// to is what the group was observed with.
	to string
	// actions, unless nil, takes down what is done.
	actions  *actionLog
	findings []preflight.Finding
	// refusals says why the API server refuses new pods of workloads, by what findings call those.
	refusals map[string]preflight.Refusal
	// missingRights are what the user lacks that carrying the upgrade out takes, where asked.
	missingRights []string
	// shortfalls says what the upgrade leaves out because the user lacks a right, where asked.
	shortfalls []string
	// cloudRights are what the cloud says of the user's rights, where it was asked.
	cloudRights cloud.Rights
	// balancers are the load balancers to follow, where they were looked for.
	balancers balancers
	// missingReads are what the user lacks that plans and checks read with.
	missingReads []string
	// now is the one moment that a plan is made at, and idle for how long no one had carried the
	// upgrade out by then.
	now  time.Time
	idle time.Duration
	// survey is what the cloud tells a plan of the group, and surveyErr why that is not all; nil
	// when it is.
	survey    cloud.Survey
	surveyErr error
	// background is what a plan knows of controllers and volumes.
	clusterWorkloads *inventory.Objects
}

// loadGroup observes a group and resolves the request against it. It changes nothing.
func (s *session) loadGroup(ctx context.Context, name string, m mode) (*groupContext, error) {
	g := &groupContext{
		name: name, provider: s.provider, store: s.openStore(name),
		clusterWorkloads: s.clusterWorkloads, now: s.conn.Now(),
	}
	err := g.loadRecord(ctx, s)
	if err != nil {
		return nil, err
	}
	if g.to, err = chooseTarget(m, s.line.settings.To, &g.record); err != nil {
		return nil, err
	}
	switch known := len(s.line.settings.Current) > 0 || !g.record.IsResumable(); {
	case known || m == modeRollback:
	case m == modeStatus && g.record.IsCloudless(): // an upgrade asks which nodes are current
		line := *s.line
		line.settings.Current = g.record.Request.Current
		g.provider = line.manualProvider(s.view.Nodes)
	default:
		g.provider = cloud.RequireLabels(g.provider, g.record.Request.Current)
	}
	if g.group, err = g.provider.Observe(ctx, cloud.Ref{Name: name, To: g.to}); err != nil {
		return nil, err
	}
	if err = g.observeOperation(ctx, m); err != nil {
		return nil, err
	}
	if s.line.settings.Strategy.Traits().ByAutoscaler || s.line.compare {
		g.group.Autoscaler = cluster.FindAutoscaler(ctx, s.conn.Client, &g.group, g.now)
	}
	if err = s.readPods(ctx, joinMembers(s.provider, &g.group, s.view.Nodes), m); err != nil {
		return nil, err
	}
	g.view, g.clusterWorkloads = s.view, s.clusterWorkloads
	if err := g.joinCluster(s.conn.context); err != nil {
		return nil, err
	}
	return g, s.settleRequest(ctx, g, m)
}

// settleRequest refuses what cannot be upgraded by what was read of the group, resolves the request and checks the upgrade.
func (s *session) settleRequest(ctx context.Context, g *groupContext, m mode) error {
	if err := cmp.Or(s.rejectAbsentTarget(g, m), s.rejectUnseenTarget(g, m)); err != nil {
		return err
	}
	if err := g.rejectUnreadable(m); err != nil {
		return err
	}
	if err := s.rejectForeignRun(ctx, g, m); err != nil {
		return err
	}
	if err := s.resolveRequest(g, m); err != nil {
		return err
	}
	if err := g.loadMovable(ctx, s, m); err != nil {
		return err
	}
	return s.checkUpgrade(ctx, g, m)
}

// loadMovable reads which pods a restart moves, where an upgrade asks for that and no controllers
// were read for a plan. The budgets of these pods are in no one's way.
func (g *groupContext) loadMovable(ctx context.Context, s *session, m mode) (err error) {
	if m == modeUpgrade && g.clusterWorkloads == nil && g.request.Move == upgrade.MoveBySurge {
		g.movable, err = cluster.ReadMovable(ctx, s.conn.Client)
	}
	return err
}

// loadRecord reads the record and, while the upgrade is not over, since when no one carries it out.
func (g *groupContext) loadRecord(ctx context.Context, s *session) (err error) {
	if g.record, err = g.store.LoadRecord(ctx); err != nil || !g.record.IsResumable() {
		return err
	}
	lease, err := s.conn.ReadLease(ctx, s.line.stateNamespace, g.name)
	if err != nil {
		return err
	}
	g.idle = lease.Unattended()
	return nil
}

// observeOperation has a status judge the nodes against what the group's own cloud is moving them
// to, which may be another revision than the one that is wanted by now.
func (g *groupContext) observeOperation(ctx context.Context, m mode) error {
	op := runningOperation(&g.group)
	if m != modeStatus || g.record.IsResumable() || op == nil || !op.IsUpgrade() || op.To.ID == g.group.Wanted.ID {
		return nil
	}
	var err error
	g.to = op.To.Target()
	g.group, err = g.provider.Observe(ctx, cloud.Ref{Name: g.name, To: g.to})
	return err
}

// loadForecastData reads what a forecast rests on and an upgrade does without: what stands behind
// the pods, and what the cloud tells a plan of the group. A plan goes without what the cloud does
// not tell, and says so.
func (g *groupContext) loadForecastData(ctx context.Context, s *session) error {
	if s.clusterWorkloads == nil { // it is read once for all groups of a session
		var err error
		if s.clusterWorkloads, err = readForecastBackground(ctx, s); err != nil {
			return err
		}
	}
	g.clusterWorkloads = s.clusterWorkloads
	return g.loadSurvey(ctx)
}

// readForecastBackground reads what a forecast knows of controllers and volumes.
func readForecastBackground(ctx context.Context, s *session) (*inventory.Objects, error) {
	background, err := cluster.ReadObjects(ctx, s.conn.Client, inventory.ForForecasts)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	return background, nil
}

// loadSurvey reads what the cloud tells a plan of the group.
func (g *groupContext) loadSurvey(ctx context.Context) error {
	surveyor, ok := cloud.As[cloud.Surveyor](g.provider)
	if !ok {
		return nil
	}
	g.survey, g.surveyErr = surveyor.Survey(ctx, &g.group)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reading what the cloud tells of group %q: %w", g.group.Name, err)
	}
	return nil
}

// resolveRequest settles the request against the group and the cluster.
func (s *session) resolveRequest(g *groupContext, m mode) error {
	if key := preflight.UnknownLabel(s.line.settings.Current, g.members); key != "" {
		return usageError(fmt.Errorf("--current=%s=%s: no node of group %q has a label %q: check the spelling, or give the outdated nodes one too, of another value",
			key, s.line.settings.Current[key], g.group.Name, key))
	}
	if !m.keepsSettings() {
		settings := s.line.settings
		settings.To = g.to
		var err error
		group, size, outdated := g.sizesAtStart()
		if g.request, err = settings.ResolveRequest(&group, size, outdated); err != nil {
			return usageError(err)
		}
	}
	if err := g.adoptRecord(s.line, m); err != nil {
		return err
	}
	return g.rejectUnknownWorkloads(s.line.settings.IgnoreUnready)
}

// checkUpgrade applies the rules that hold for every upgrade. Where they depend on other objects than the
// group's nodes and their pods, it reads those, too, and looks for volumes that keep pods on their nodes.
func (s *session) checkUpgrade(ctx context.Context, g *groupContext, m mode) error {
	world, facts, objects := g.makeWorld(g.now), preflight.Facts{ServerVersion: s.conn.Version}, s.objects
	switch {
	case s.podsOfGroupOnly && m == modeUpgrade && preflight.NeedsAllObjects(&world):
		var err error
		if objects, err = cluster.ReadObjects(ctx, s.conn.Client, inventory.ForChecks); err != nil {
			return explainReadError(err)
		}
		facts.Pods, facts.Scales = slices.Values(objects.Pods), preflight.ScalesOf(objects)
	case !s.podsOfGroupOnly:
		facts.Pods = eachPod(g.view.Pods)
		if s.clusterWorkloads != nil {
			facts.Scales, facts.Counted = preflight.ScalesOf(s.clusterWorkloads), preflight.CountedIn(s.clusterWorkloads)
		}
	}
	g.findings = slices.DeleteFunc(preflight.CheckUpgrade(&world, facts), func(f preflight.Finding) bool {
		return slices.Contains(s.line.skipChecks, f.Rule)
	})
	if objects != nil && !s.line.isDryRun() { // the plan of a dry run has what all rules find
		bound := preflight.Check(preflight.NewScene(&world, facts, objects), preflight.VolumeRules(), s.line.skipChecks)
		g.findings = append(g.findings, slices.DeleteFunc(bound, func(f preflight.Finding) bool { return f.Severity != preflight.Block || f.Skipped != "" })...)
	}
	return nil
}

// eachPod visits the pods of all nodes, and those that no node has.
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

// joinCluster pairs the group with the cluster's nodes. It returns an error where it has none there.
func (g *groupContext) joinCluster(contextName string) error {
	g.joinNodes()
	return g.rejectForeign(contextName)
}

// joinNodes pairs the group's instances with the cluster's nodes and their pods.
func (g *groupContext) joinNodes() {
	g.members = joinMembers(g.provider, &g.group, g.view.Nodes)
	nameOwner(&g.group, g.members)
	g.unlabelled = upgrade.JudgeLabels(&g.group, g.members, &g.record)
	for i := range g.members {
		if node := g.members[i].Node; node != nil {
			g.members[i].Pods = g.view.Pods[node.Name]
		}
	}
}

// rejectForeign refuses a group none of whose instances is a node of the cluster.
func (g *groupContext) rejectForeign(contextName string) error {
	if joined := slices.ContainsFunc(g.members, func(m nodegroup.Member) bool { return m.Node != nil }); !joined && len(g.members) > 0 {
		return usageError(fmt.Errorf("group %q has %d instances, but none of them is a node of the cluster of context %q: check --context",
			g.group.Name, len(g.members), contextName))
	}
	return nil
}

// rejectLargeRecord refuses to begin an upgrade whose record could outgrow its ConfigMap.
func (g *groupContext) rejectLargeRecord() error {
	if g.record.IsResumable() {
		return nil
	}
	if err := g.request.CheckRecordSize(&g.group, g.members); err != nil {
		return usageError(err)
	}
	return nil
}

// rejectUnknownWorkloads refuses to ignore workloads that have no pod and had none when the upgrade
// took one away.
func (g *groupContext) rejectUnknownWorkloads(ignored []string) error {
	for _, name := range ignored {
		if name != upgrade.AllWorkloads && !g.knowsWorkload(name) {
			return usageError(fmt.Errorf("--ignore-unready=%s: no pod of such a workload was found for group %q: check the spelling, as in shop/Deployment/web", name, g.group.Name))
		}
	}
	return nil
}

func (g *groupContext) knowsWorkload(name string) bool {
	for known := range g.record.Workloads {
		if strings.EqualFold(known, name) {
			return true
		}
	}
	for _, pods := range g.view.Pods {
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return strings.EqualFold(upgrade.WatchedWorkload(pod).String(), name) }) {
			return true
		}
	}
	return false
}

// countNodes is the group's size in nodes, as percentages are taken of it.
func (g *groupContext) countNodes() int {
	if g.group.Can.Resize {
		return g.group.Desired
	}
	return len(g.members)
}

// sizesAtStart is the group as its upgrade under way found it, with its size and its outdated
// nodes: what that added makes percentages no larger and uses up no room.
func (g *groupContext) sizesAtStart() (group nodegroup.Group, size, outdated int) {
	group, size, outdated = g.group, g.countNodes(), g.countOutdated()
	if before := g.record.Sizes; g.record.IsResumable() && before.Desired > 0 {
		group.Desired, group.Max = before.Desired, before.Max
		size, outdated = before.Desired, max(outdated, g.record.Total)
	}
	return group, size, outdated
}

// isCurrent reports whether there is nothing to upgrade and no upgrade to continue.
func (g *groupContext) isCurrent() bool { return g.countOutdated() == 0 && g.record.Run == "" }

// makeCurrentRecord is how the upgrade of a group ends that is current.
func (g *groupContext) makeCurrentRecord() upgrade.Record {
	if standby := upgrade.DescribeStandby(g.members); standby != "" {
		return upgrade.Record{Result: upgrade.Succeeded, Message: "no other node is outdated; " + standby}
	}
	return upgrade.Record{Result: upgrade.Succeeded, Message: fmt.Sprintf("all %d nodes are current", len(g.members))}
}

func (g *groupContext) countOutdated() int { return countOutdated(g.members) }

// knownOutdated counts the outdated members; it is nil where no one can say which are.
func knownOutdated(g *nodegroup.Group, members []nodegroup.Member) *int {
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

// makeWorld is the world that a plan or a status decides over.
func (g *groupContext) makeWorld(now time.Time) upgrade.World {
	world := upgrade.NewWorld(now, g.group, g.members, &g.view, g.record)
	world.Request, world.Movable = g.request, g.listMovable()
	return world
}
