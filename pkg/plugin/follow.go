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
	// followCloud is how often the cloud and the lease are asked, which no one watches here; when
	// something has changed, soon, but no more often than followLeast.
	followCloud = 15 * time.Second
	followLeast = 5 * time.Second
	// followPlan is how many times as long as a plan takes it is not made again.
	followPlan = 20
)

// followed is an upgrade that is shown again whenever it has changed.
type followed struct {
	*screen
	s        *session
	g        *groupContext
	follower *cluster.Follower
	watcher  *cluster.Watcher
	lease    cluster.LeaseState
	// stale says that the cloud and the lease are to be asked, which was done last at observed.
	stale    bool
	observed time.Time
	// remaining is what the last plan promised. It was begun at planned, and took so long.
	remaining simulate.Span
	planned   time.Time
	took      time.Duration
}

// followUpgrade shows an upgrade until it ends or no one wants to see it any more.
func followUpgrade(ctx context.Context, s *session, g *groupContext, store *cluster.Store) error {
	f := &followed{screen: newScreen(s.console), s: s, g: g, stale: true}
	var err error
	if f.follower, err = store.Follow(ctx); err != nil {
		return err
	}
	if f.watcher, err = cluster.WatchCluster(ctx, s.Client, s.Now); err != nil {
		return err
	}
	ask := time.NewTicker(followCloud)
	defer ask.Stop()
	for {
		over, err := f.showNow(ctx)
		if over || err != nil {
			return ignoreInterrupt(ctx, err)
		}
		if !f.waitForChange(ctx, ask.C) {
			return nil
		}
	}
}

// showNow shows the upgrade as it is now, and reports whether it is over.
func (f *followed) showNow(ctx context.Context) (over bool, err error) {
	record, err := f.follower.Record()
	if err != nil {
		return false, err
	}
	if f.stale && (time.Since(f.observed) > followLeast || !record.IsRunning() && !f.g.isWatching()) {
		if f.lease, err = f.observeAgain(ctx); err != nil {
			return false, err
		}
		f.stale, f.observed = false, time.Now()
	}
	f.g.view, f.g.now = f.watcher.View(), f.s.Now()
	f.g.joinNodes()
	status := f.g.makeStatus(recordedState{record: record, asked: f.follower.Asked(), lease: f.lease}, f.g.now)
	status.Leftovers = findAbandoned(f.g.group.Name, &record, f.lease)
	if record.IsRunning() {
		status.Remaining = f.estimateRemaining(ctx, record)
	}
	return !record.IsRunning() && !f.g.isWatching(), f.showChange(status)
}

// estimateRemaining tells how long the rest will take, by a plan that is made again now and then:
// that of a large group takes seconds, and each asks for the group's past.
func (f *followed) estimateRemaining(ctx context.Context, record upgrade.Record) simulate.Span {
	if began := time.Now(); began.Sub(f.planned) > max(followCloud, followPlan*f.took) {
		f.remaining = f.g.predictRemaining(ctx, f.s, record)
		f.planned, f.took = began, time.Since(began)
	}
	return f.remaining
}

// waitForChange returns when there is something to show, and reports whether anybody still looks.
func (f *followed) waitForChange(ctx context.Context, ask <-chan time.Time) bool {
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
	case <-f.redrawTimer():
	case <-f.follower.Changed():
		f.stale = true
	case <-f.watcher.NodesChanged():
		f.stale = true
	case <-ask:
		f.stale = true
	}
	return true
}

// ignoreInterrupt is the error of a command that may be ended at any time.
func ignoreInterrupt(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// observeAgain asks the cloud and the lease.
func (f *followed) observeAgain(ctx context.Context) (cluster.LeaseState, error) {
	group, err := f.g.provider.Observe(ctx, cloud.Ref{Name: f.g.group.Name, To: f.g.to})
	if err != nil {
		return cluster.LeaseState{}, err
	}
	f.g.group = group
	return f.s.ReadLease(ctx, f.s.stateNamespace, group.Name)
}

// screen shows one status after the other: on a terminal in the place of the one before, elsewhere
// beneath it.
type screen struct {
	console
	terminal bool
	shown    bool
	result   upgrade.Result
	last     report.Moment
}

func newScreen(c console) *screen {
	return &screen{console: c, terminal: !c.isForPrograms() && printers.IsTerminal(c.Out)}
}

// redrawTimer is when a terminal is to be drawn again though nothing has changed but the time.
func (d *screen) redrawTimer() <-chan time.Time {
	if !d.terminal {
		return nil
	}
	return time.After(time.Second)
}

// showChange writes a status if it is not the one that was shown last.
func (d *screen) showChange(status *report.UpgradeStatus) error {
	now := report.Moment{At: d.now(), Status: status.Status, Blocked: status.Blocked}
	same := d.shown && status.Result == d.result && status.Status.Waiting == d.last.Status.Waiting && len(report.DescribeChanges(d.last, now)) == 0
	if same && !d.terminal {
		return nil
	}
	switch {
	case d.terminal:
		fmt.Fprint(d.Out, "\x1b[H\x1b[2J")
	case d.shown && !d.isForPrograms():
		fmt.Fprintln(d.Out)
	}
	d.shown, d.result, d.last = true, status.Result, now
	return d.printStatus(status)
}
