package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// prospect is one group as an upgrade would find it.
type prospect struct {
	name     string
	provider cloud.Provider
	// store is where the group's upgrade is recorded.
	store   *cluster.Store
	group   upgrade.Group
	members []upgrade.Member
	// unlabelled is how many members are outdated for their labels alone.
	unlabelled int
	view       upgrade.View
	request    upgrade.Request
	record     upgrade.Record
	// to is what the group was observed with.
	to string
	// deeds, unless nil, takes down what is done.
	deeds    *deeds
	findings []preflight.Finding
	// timeless plans tell no times: the upgrade is not simulated.
	timeless bool
	// now is the one moment that a plan is made at, and idle for how long nobody had carried the upgrade out by then.
	now  time.Time
	idle time.Duration
	// history is what the cloud remembers of the group, and historyErr why that is not all; nil when it is.
	history    cloud.History
	historyErr error
	// background is what a plan knows of controllers and volumes.
	background *cluster.Background
}

// look observes a group and resolves the request against it. It changes nothing.
func (o *options) look(ctx context.Context, s *session, name string) (*prospect, error) {
	p := &prospect{
		name: name, provider: s.provider, store: cluster.NewStore(s.client, o.stateSpace, name),
		background: s.background, now: time.Now(), timeless: s.narrow,
	}
	var err error
	if p.record, err = p.store.Load(ctx); err != nil {
		return nil, err
	}
	if p.record.Resumable() {
		lease, err := tenureOf(ctx, s.connection, o.stateSpace, name)
		if err != nil {
			return nil, err
		}
		p.idle = lease.left
	}
	settings := o.settings
	if settings.To, err = o.destination(&p.record); err != nil {
		return nil, err
	}
	p.to = settings.To
	if p.record.Resumable() && len(settings.Current) == 0 && o.way != wayBack {
		p.provider = cloud.RequireLabels(p.provider, p.record.Request.Current)
	}
	if p.group, err = p.provider.Observe(ctx, cloud.Ref{Name: name, To: settings.To}); err != nil {
		return nil, err
	}
	if err = s.readPods(ctx, membersOf(s.provider, &p.group, s.view.Nodes)); err != nil {
		return nil, err
	}
	p.view = s.view
	return p, o.resolve(p, s, settings)
}

// study reads what a forecast rests on and an upgrade does without: what stands behind the pods, and of a cloud that remembers
// the group's past. A plan goes without what the cloud does not tell, and says so.
func (p *prospect) study(ctx context.Context, s *session) error {
	if p.background == nil {
		if err := s.readBackground(ctx); err != nil {
			return err
		}
		p.background = s.background
	}
	historian, ok := p.provider.(cloud.Historian)
	if !ok {
		return nil
	}
	p.history, p.historyErr = historian.History(ctx, &p.group)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reading the past of group %q: %w", p.group.Name, err)
	}
	return nil
}

// resolve joins the group with the cluster and settles the request against both.
func (o *options) resolve(p *prospect, s *session, settings upgrade.Settings) error {
	if err := p.join(s); err != nil {
		return err
	}
	if err := p.knowsLabels(settings.Current); err != nil {
		return err
	}
	if !o.way.stands() {
		var err error
		group, size, outdated := p.asBegun()
		if p.request, err = settings.Resolve(&group, size, outdated); err != nil {
			return usage(err)
		}
	}
	if err := o.adopt(p); err != nil {
		return err
	}
	world := p.world(p.now)
	p.findings = preflight.Check(&world, preflight.Facts{ServerVersion: s.version})
	return nil
}

// join pairs the group's instances with the cluster's nodes. It errs when none of them is one.
func (p *prospect) join(s *session) error {
	p.members = membersOf(p.provider, &p.group, p.view.Nodes)
	p.unlabelled = p.group.JudgeLabels(p.members, &p.record)
	joined := false
	for i := range p.members {
		if node := p.members[i].Node; node != nil {
			joined = true
			p.members[i].Pods = p.view.Pods[node.Name]
		}
	}
	if !joined && len(p.members) > 0 {
		return usage(fmt.Errorf("group %q has %d instances, but none of them is a node of the cluster of context %q: check --context",
			p.group.Name, len(p.members), s.context))
	}
	return nil
}

// size is the group's size in nodes, as percentages are taken of it.
func (p *prospect) size() int {
	if p.group.Sized {
		return p.group.Desired
	}
	return len(p.members)
}

// asBegun is the group as its upgrade under way found it, with its size and its outdated nodes: what that added makes percentages no
// larger and uses up no room.
func (p *prospect) asBegun() (group upgrade.Group, size, outdated int) {
	group, size, outdated = p.group, p.size(), p.outdated()
	if before := p.record.Sizes; p.record.Resumable() && before.Desired > 0 {
		group.Desired, group.Max = before.Desired, before.Max
		size, outdated = before.Desired, max(outdated, p.record.Total)
	}
	return group, size, outdated
}

// isCurrent reports whether there is nothing to upgrade and no upgrade to continue.
func (p *prospect) isCurrent() bool { return p.outdated() == 0 && p.record.Run == "" }

// currentRecord is how the upgrade of a group ends that is current.
func (p *prospect) currentRecord() upgrade.Record {
	return upgrade.Record{Result: upgrade.Succeeded, Message: fmt.Sprintf("all %d nodes are current", len(p.members))}
}

func (p *prospect) outdated() int {
	n := 0
	for i := range p.members {
		if p.members[i].Outdated {
			n++
		}
	}
	return n
}

// adopt takes up an upgrade that was begun before: its settings stand, unless the user says that they are to change.
func (o *options) adopt(p *prospect) error {
	if p.record.Run == "" && o.way == wayOn {
		if err := o.rebuild(p); err != nil {
			return err
		}
	}
	if !p.record.Resumable() {
		if o.way.stands() {
			return errGone
		}
		p.record = upgrade.Record{}
		return nil
	}
	if err := o.bars(p.group.Name, &p.record); err != nil {
		return err
	}
	switch o.way {
	case wayBack:
		p.record = p.record.RollingBack(p.group.Wanted, time.Now().Round(0))
		p.record.Request.To = p.to
	case wayUndo:
		p.record = p.record.Aborting()
	default:
		if err := o.goOn(p); err != nil {
			return err
		}
	}
	p.record.Request.Run = p.record.Run
	p.request = p.record.Request
	return nil
}

// goOn reopens an upgrade that stopped, or whose process died.
func (o *options) goOn(p *prospect) error {
	if p.record.Target.ID != p.group.Wanted.ID && !o.replan {
		return &exitErr{code: exitPaused, err: fmt.Errorf(
			"run %s of group %q was begun to reach %s, which is now %s: pass --replan to continue to %s",
			p.record.Run, p.group.Name, p.record.Target.Name, p.group.Wanted.Name, p.group.Wanted.Name)}
	}
	request := p.record.Request.With(p.request, o.given)
	if changed := p.record.Request.Differences(request); len(changed) > 0 && !o.replan && !o.way.stands() {
		return usage(fmt.Errorf("run %s of group %q was begun with other settings (%s): leave them out, or pass --replan", p.record.Run, p.group.Name, changed))
	}
	record := p.record.Reopened()
	if o.replan {
		record = record.Extended(request.DrainTimeout.Duration - record.Request.DrainTimeout.Duration)
		record = record.Retargeted(p.group.Wanted)
		record.Request = request
	}
	p.record = record
	return nil
}

func (p *prospect) world(now time.Time) upgrade.World {
	return upgrade.World{
		Now: now, Request: p.request, Group: p.group, Members: p.members, Budgets: p.view.Budgets,
		EndingNamespaces: p.view.EndingNamespaces, Record: p.record,
	}
}

// plan runs the upgrade in virtual time and reports what it would do.
func (p *prospect) plan(ctx context.Context, s *session) (*report.Plan, error) {
	forecast, assumed, err := p.foresee(ctx, s)
	if err != nil {
		return nil, err
	}
	plan := &report.Plan{
		Context: s.context, Account: s.account, Provider: p.group.Provider, Kind: p.group.Kind,
		From: p.group.Pointed, To: p.group.Wanted, Request: p.request,
		Sizes: upgrade.Sizes{Desired: p.group.Desired, Min: p.group.Min, Max: p.group.Max},
		Peak:  forecast.Peak, Findings: append(p.findings, unplaced(forecast.Unplaced)...), Resumes: p.record.Run,
		Unlabelled: p.unlabelled,
		Duration:   forecast.Duration, ExtraInstanceHours: math.Round(forecast.ExtraHours*100) / 100, Evictions: forecast.Evictions,
		Room: forecast.Room, Assumptions: assumed, Nodes: []report.PlanNode{}, // an empty list is one in JSON, too
	}
	plan.TypeMeta, plan.ObjectMeta = report.NewMeta("Plan", p.group.Name)
	for _, process := range p.group.Quiesce {
		if !slices.Contains(p.group.Suspended, process) {
			plan.Quiesce = append(plan.Quiesce, process)
		}
	}
	p.fillNodes(plan, forecast)
	return plan, nil
}

// foresee is the forecast of a plan, and what it rests on. Of a timeless one the group's largest size is all that is known.
func (p *prospect) foresee(ctx context.Context, s *session) (simulate.Forecast, []string, error) {
	if p.timeless {
		return simulate.Forecast{Peak: p.group.Desired + p.request.Surge}, nil, nil
	}
	if err := p.study(ctx, s); err != nil {
		return simulate.Forecast{}, nil, err
	}
	return p.forecast(p.request)
}

func (p *prospect) fillNodes(plan *report.Plan, forecast simulate.Forecast) {
	byName := map[string]*upgrade.Member{}
	outdated := map[string]int{}
	for i := range p.members {
		m := &p.members[i]
		if !m.Outdated {
			plan.Current++
			continue
		}
		byName[m.Name()] = m
		if p.group.Zonal {
			outdated[m.Zone()]++
		}
	}
	plan.Surge = upgrade.SpreadSurge(p.request.Surge, outdated)
	for _, n := range forecast.Nodes {
		if m, ok := byName[n.Name]; ok {
			plan.Nodes = append(plan.Nodes, p.planNode(m, n))
			delete(byName, n.Name)
		}
	}
	unknown := simulate.NodeForecast{Stuck: "not reached"}
	if p.timeless {
		unknown = simulate.NodeForecast{}
	}
	for i := range p.members { // what the forecast did not reach, in the members' order
		if m, ok := byName[p.members[i].Name()]; ok {
			plan.Nodes = append(plan.Nodes, p.planNode(m, unknown))
		}
	}
}

func (p *prospect) planNode(m *upgrade.Member, f simulate.NodeForecast) report.PlanNode {
	n := report.PlanNode{
		Batch: f.Batch, Name: m.Name(), Zone: m.Zone(), From: m.Instance.Revision.Name, To: p.group.Wanted.Name, Why: m.Instance.Why,
		Start: f.Start, End: f.End, WaitsFor: f.WaitsFor, Waits: upgrade.Duration{Duration: f.Waits},
	}
	for _, pod := range m.Pods {
		if drain.Judge(pod, p.request.Policy(), false).Fate == drain.Stay {
			n.Staying++
		} else {
			n.Pods++
		}
	}
	for _, finding := range p.findings {
		if finding.Node == m.Name() && finding.Blocker != "" && !slices.Contains(n.BlockedBy, finding.Blocker) {
			n.BlockedBy = append(n.BlockedBy, finding.Blocker)
		}
	}
	if len(n.BlockedBy) == 0 && f.Stuck != "" {
		n.BlockedBy = []string{f.Stuck}
	}
	return n
}

// forecast runs the upgrade as requested in virtual time, and says what its times rest on.
func (p *prospect) forecast(req upgrade.Request) (simulate.Forecast, []string, error) {
	spec := p.spec()
	var assumed []string
	spec.Times, assumed = simulate.Estimate(&spec)
	if p.historyErr != nil {
		assumed = append(assumed, "the cloud tells no more of the group's past: "+p.historyErr.Error())
	}
	forecast, err := simulate.Predict(spec, req)
	return forecast, append(assumed, unread(p.background.Unread)...), err
}

// remaining is how long the rest of an upgrade under way would take; zero when nobody can say.
func (p *prospect) remaining(ctx context.Context, s *session, record upgrade.Record) simulate.Span {
	if err := p.study(ctx, s); err != nil {
		return simulate.Span{}
	}
	rest := *p
	rest.record = record.Reopened()
	forecast, _, err := rest.forecast(record.Request)
	if err != nil {
		return simulate.Span{} // a status is worth having without it
	}
	return forecast.Duration
}

// unplaced is CAP001 as the simulation shows it, one finding for the pods of a controller that no node takes for one
// reason. It only warns: an autoscaler may add the nodes.
func unplaced(pods []simulate.Unplaced) []preflight.Finding {
	type cause struct{ owner, reason string }
	counts := map[cause]int{}
	for _, pod := range pods {
		counts[cause{cmp.Or(pod.Owner, "pod "+pod.Pod.String()), pod.Reason}]++
	}
	found := make([]preflight.Finding, 0, len(counts))
	for c, n := range counts {
		found = append(found, preflight.Finding{
			Rule: "CAP001", Severity: preflight.Warn, Object: c.owner,
			Message: fmt.Sprintf("%d of its pods may find no node: %s", n, c.reason),
			Remedy:  "make room, or see that an autoscaler does",
		})
	}
	slices.SortFunc(found, func(a, b preflight.Finding) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
	return found
}

// judgedGroup is the group with each of its instances as outdated as its node is.
func (p *prospect) judgedGroup() upgrade.Group {
	group := p.group
	group.Instances = slices.Clone(p.group.Instances)
	for i := range p.members {
		for j := range group.Instances {
			if p.unlabelled > 0 && p.members[i].Instance.ID == group.Instances[j].ID {
				group.Instances[j].Outdated = p.members[i].Outdated
			}
		}
	}
	return group
}

func (p *prospect) spec() simulate.Spec {
	spec := simulate.Spec{
		Now: p.now, Group: p.judgedGroup(), Record: p.record.Extended(p.idle), Budgets: p.view.PDBs, EndingNamespaces: p.view.EndingNamespaces,
		Times: simulate.Times{Seen: runner.CloudSoon}, Launched: p.history.Launched, Terminations: p.history.Terminations,
		Facts: p.background.Facts, Workloads: workloadsOf(p.background), Claims: p.background.Claims, Volumes: p.background.Volumes,
		Outdated: func(n *corev1.Node) bool { return p.provider.Outdated(&p.group, n) },
	}
	own := map[string]bool{}
	for i := range p.members {
		if node := p.members[i].Node; node != nil {
			own[node.Name] = true
			spec.Nodes = append(spec.Nodes, node)
		}
	}
	for _, node := range p.view.Nodes {
		if !own[node.Name] {
			spec.Others = append(spec.Others, node)
		}
		spec.Pods = append(spec.Pods, p.view.Pods[node.Name]...)
	}
	spec.Pods = append(spec.Pods, p.view.Pods[""]...)
	return spec
}

// refused is the first finding that forbids the upgrade, as an error.
func (p *prospect) refused() error {
	f := refusal(p.findings)
	switch {
	case f == nil:
		return nil
	case p.group.Provider == "manual" && p.group.Wanted.ID == "": // --current is missing, or --to is there
		return usage(fmt.Errorf("upgrading group %q: %s", p.group.Name, f))
	default:
		return fmt.Errorf("upgrading group %q: %s", p.group.Name, f)
	}
}

// unmanaged refuses pods that nobody would bring back, unless the user said what is to become of such nodes.
func (p *prospect) unmanaged() error {
	if p.request.OnTimeout != upgrade.Fail {
		return nil
	}
	for _, f := range p.findings {
		if f.Rule == "POD001" {
			return usage(errors.New("draining node " + f.Node + ": " + f.String()))
		}
	}
	return nil
}
