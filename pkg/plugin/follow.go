package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

const (
	// followPause is how long changes are gathered.
	followPause = 500 * time.Millisecond
	// followCloud is how often the cloud and the lease are asked, which nobody watches here; when
	// something has changed, soon, but no more often than followLeast.
	followCloud = 15 * time.Second
	followLeast = 5 * time.Second
	// followPlan is how many times as long as a plan takes it is not made again.
	followPlan = 20
)

// followed is an upgrade that is shown anew whenever it has changed.
type followed struct {
	*screen
	s        *session
	p        *prospect
	follower *cluster.Follower
	watcher  *cluster.Watcher
	held     tenure
	// stale says that the cloud and the lease are to be asked, which was done last at observed.
	stale    bool
	observed time.Time
	// remaining is what the last plan promised. It was begun at planned, and took so long.
	remaining simulate.Span
	planned   time.Time
	took      time.Duration
}

// follow shows an upgrade until it ends or nobody wants to see it any more.
func (o *options) follow(ctx context.Context, s *session, p *prospect, store *cluster.Store) error {
	f := &followed{screen: newScreen(o), s: s, p: p, stale: true}
	var err error
	if f.follower, err = store.Follow(ctx); err != nil {
		return err
	}
	if f.watcher, err = cluster.Watch(ctx, s.client); err != nil {
		return err
	}
	ask := time.NewTicker(followCloud)
	defer ask.Stop()
	for {
		over, err := f.look(ctx)
		if over || err != nil {
			return unlessEnded(ctx, err)
		}
		if !f.wait(ctx, ask.C) {
			return nil
		}
	}
}

// look shows the upgrade as it is now, and reports whether it is over.
func (f *followed) look(ctx context.Context) (over bool, err error) {
	record, err := f.follower.Record()
	if err != nil {
		return false, err
	}
	if f.stale && (time.Since(f.observed) > followLeast || !record.Running()) {
		if f.held, err = f.o.observe(ctx, f.s, f.p); err != nil {
			return false, err
		}
		f.stale, f.observed = false, time.Now()
	}
	f.p.see(f.watcher.View(), time.Now())
	status := f.p.status(stored{record: record, asked: f.follower.Asked(), tenure: f.held}, time.Now())
	status.Leftovers = abandoned(f.p.group.Name, &record, f.held)
	if record.Running() {
		status.Remaining = f.plan(ctx, record)
	}
	return !record.Running(), f.show(status)
}

// plan tells how long the rest will take, by a plan that is made anew now and then: that of a large
// group takes seconds, and each asks for the group's past.
func (f *followed) plan(ctx context.Context, record upgrade.Record) simulate.Span {
	if began := time.Now(); began.Sub(f.planned) > max(followCloud, followPlan*f.took) {
		f.remaining = f.p.remaining(ctx, f.s, record)
		f.planned, f.took = began, time.Since(began)
	}
	return f.remaining
}

// wait returns when there is something to show, and reports whether anybody still looks.
func (f *followed) wait(ctx context.Context, ask <-chan time.Time) bool {
	pause := time.NewTimer(followPause)
	defer pause.Stop()
	select {
	case <-pause.C: // a burst of changes is one
	case <-ctx.Done():
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-f.watcher.Changed():
	case <-f.tick():
	case <-f.follower.Changed():
		f.stale = true
	case <-f.watcher.NodesChanged():
		f.stale = true
	case <-ask:
		f.stale = true
	}
	return true
}

// unlessEnded is the error of a command that may be ended at any time.
func unlessEnded(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// see takes a later state of the cluster.
func (p *prospect) see(view upgrade.View, now time.Time) {
	p.now = now
	p.view, p.members = view, membersOf(p.provider, &p.group, view.Nodes)
	p.unlabelled = upgrade.JudgeLabels(&p.group, p.members, &p.record)
	for i := range p.members {
		if node := p.members[i].Node; node != nil {
			p.members[i].Pods = view.Pods[node.Name]
		}
	}
}

// observe asks the cloud and the lease anew.
func (o *options) observe(ctx context.Context, s *session, p *prospect) (tenure, error) {
	group, err := p.provider.Observe(ctx, cloud.Ref{Name: p.group.Name, To: p.to})
	if err != nil {
		return tenure{}, err
	}
	p.group = group
	return tenureOf(ctx, s.connection, o.stateSpace, group.Name)
}

// screen shows one status after the other: on a terminal in the place of the one before, elsewhere
// beneath it.
type screen struct {
	o        *options
	terminal bool
	shown    bool
	result   upgrade.Result
	last     report.Moment
}

func newScreen(o *options) *screen {
	return &screen{o: o, terminal: !o.output.machine() && printers.IsTerminal(o.Out)}
}

// tick is when a terminal is to be drawn anew though nothing has changed but the time.
func (d *screen) tick() <-chan time.Time {
	if !d.terminal {
		return nil
	}
	return time.After(time.Second)
}

// show writes a status if it is not the one that was shown last.
func (d *screen) show(status *report.UpgradeStatus) error {
	now := report.Moment{At: time.Now(), Status: status.Status, Blocked: status.Blocked}
	same := d.shown && status.Result == d.result && status.Status.Waiting == d.last.Status.Waiting && len(report.Changes(d.last, now)) == 0
	if same && !d.terminal {
		return nil
	}
	switch {
	case d.terminal:
		fmt.Fprint(d.o.Out, "\x1b[H\x1b[2J")
	case d.shown && !d.o.output.machine():
		fmt.Fprintln(d.o.Out)
	}
	d.shown, d.result, d.last = true, status.Result, now
	return d.o.printStatus(status)
}
