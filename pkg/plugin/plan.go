package plugin

import (
	"context"
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// prospect is one group as an upgrade would find it.
type prospect struct {
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
	// to is what the group was observed with.
	to string
	// deeds, unless nil, takes down what is done.
	deeds    *deeds
	findings []preflight.Finding
	// timeless plans tell no times: the upgrade is not simulated.
	timeless bool
	// now is the one moment that a plan is made at, and idle for how long nobody had carried the
	// upgrade out by then.
	now  time.Time
	idle time.Duration
	// history is what the cloud remembers of the group, and historyErr why that is not all; nil
	// when it is.
	history    cloud.History
	historyErr error
	// background is what a plan knows of controllers and volumes.
	background *cluster.Background
}

// look observes a group and resolves the request against it. It changes nothing.
func (o *options) look(ctx context.Context, s *session, name string, m mode) (*prospect, error) {
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
	if settings.To, err = o.destination(m, &p.record); err != nil {
		return nil, err
	}
	p.to = settings.To
	if p.record.Resumable() && len(settings.Current) == 0 && m != modeRollback {
		p.provider = cloud.RequireLabels(p.provider, p.record.Request.Current)
	}
	if p.group, err = p.provider.Observe(ctx, cloud.Ref{Name: name, To: settings.To}); err != nil {
		return nil, err
	}
	if err = s.readPods(ctx, membersOf(s.provider, &p.group, s.view.Nodes)); err != nil {
		return nil, err
	}
	p.view = s.view
	return p, o.resolve(p, s, m, settings)
}

// study reads what a forecast rests on and an upgrade does without: what stands behind the pods,
// and of a cloud that remembers the group's past. A plan goes without what the cloud does not tell,
// and says so.
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
func (o *options) resolve(p *prospect, s *session, m mode, settings upgrade.Settings) error {
	if err := p.join(s); err != nil {
		return err
	}
	if err := p.knowsLabels(settings.Current); err != nil {
		return err
	}
	if !m.keepsSettings() {
		var err error
		group, size, outdated := p.asBegun()
		if p.request, err = settings.Resolve(&group, size, outdated); err != nil {
			return usage(err)
		}
	}
	if err := o.adopt(p, m); err != nil {
		return err
	}
	world := p.world(p.now)
	p.findings = preflight.Check(&world, preflight.Facts{ServerVersion: s.version})
	return nil
}

// join pairs the group's instances with the cluster's nodes. It errs when none of them is one.
func (p *prospect) join(s *session) error {
	p.members = membersOf(p.provider, &p.group, p.view.Nodes)
	p.unlabelled = upgrade.JudgeLabels(&p.group, p.members, &p.record)
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

// asBegun is the group as its upgrade under way found it, with its size and its outdated nodes:
// what that added makes percentages no larger and uses up no room.
func (p *prospect) asBegun() (group nodegroup.Group, size, outdated int) {
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

// adopt takes up an upgrade that was begun before: its settings stand, unless the user says that
// they are to change.
func (o *options) adopt(p *prospect, m mode) error {
	if p.record.Run == "" && m == modeUpgrade {
		if err := o.rebuild(p); err != nil {
			return err
		}
	}
	if !p.record.Resumable() {
		if m.keepsSettings() {
			return errGone
		}
		p.record = upgrade.Record{}
		return nil
	}
	if err := o.bars(m, p.group.Name, &p.record); err != nil {
		return err
	}
	switch m {
	case modeRollback:
		p.record = p.record.RollingBack(p.group.Wanted, time.Now().Round(0))
		p.record.Request.To = p.to
	case modeAbort:
		p.record = p.record.Aborting()
	default:
		if err := o.goOn(p, m); err != nil {
			return err
		}
	}
	p.record.Request.Run = p.record.Run
	p.request = p.record.Request
	return nil
}

// goOn reopens an upgrade that stopped, or whose process died.
func (o *options) goOn(p *prospect, m mode) error {
	replan := o.replan || m == modeStatus
	if p.record.Target.ID != p.group.Wanted.ID && !replan {
		return &exitErr{code: exitPaused, err: fmt.Errorf(
			"run %s of group %q was begun to reach %s, which is now %s: pass --replan to continue to %s",
			p.record.Run, p.group.Name, p.record.Target.Name, p.group.Wanted.Name, p.group.Wanted.Name)}
	}
	request := p.record.Request.With(p.request, o.given)
	if changed := p.record.Request.Differences(request); len(changed) > 0 && !replan && !m.keepsSettings() {
		return usage(fmt.Errorf("run %s of group %q was begun with other settings (%s): leave them out, or pass --replan", p.record.Run, p.group.Name, changed))
	}
	record := p.record.Reopened()
	if replan {
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
