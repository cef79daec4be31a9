package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// changePause is how long changes are gathered before they are shown.
	changePause = 500 * time.Millisecond
	// cloudInterval is how often the cloud and the lease are read, because no watch covers them. minCloudInterval is
	// the shortest such interval, after a change.
	cloudInterval    = 15 * time.Second
	minCloudInterval = 5 * time.Second
)

// followedUpgrade is an upgrade that is shown again after each change.
type followedUpgrade struct {
	screen   *statusScreen
	s        *session
	g        reportedGroup
	follower *cluster.Follower
	watcher  *cluster.Watcher
	// stale is true if the cloud and the lease must be read again. observed is when they were last read.
	stale    bool
	observed time.Time
	// lease is the state of the lease when the record's ConfigMap had this version. abandoned is true if no process ran
	// the upgrade when the lease was read.
	lease     cluster.LeaseState
	version   string
	abandoned bool
	forecast  forecaster
	// status is the last status that was shown; nil before the first.
	status *report.UpgradeStatus
}

// followUpgrade shows an upgrade until it ends or the context ends, and returns the last status that it showed.
func followUpgrade(ctx context.Context, s *session, g *groupContext) (*report.UpgradeStatus, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops a running forecast
	f := &followedUpgrade{screen: newStatusScreen(s.line.console), s: s, g: reportedGroup{groupContext: g}, stale: true}
	var err error
	// The record that g.store has read may be deleted by now, so a new store is needed.
	if f.follower, err = s.openStore(g.name).Follow(ctx); err != nil {
		return nil, err
	}
	if f.watcher, err = cluster.WatchCluster(ctx, s.conn.Client, s.conn.Now); err != nil {
		return nil, err
	}
	cloudTick := time.NewTicker(cloudInterval)
	defer cloudTick.Stop()
	for {
		over, err := f.showNow(ctx)
		if over || err != nil {
			return f.status, ignoreInterrupt(ctx, err)
		}
		if !f.waitForChange(ctx, cloudTick.C) {
			return f.status, nil
		}
	}
}

// showNow shows the current state of the upgrade, and reports whether the upgrade is over.
func (f *followedUpgrade) showNow(ctx context.Context) (over bool, err error) {
	record, version, err := f.follower.Record()
	if err != nil {
		return false, err
	}
	observes := f.stale && (time.Since(f.observed) > minCloudInterval || !record.IsRunning() && !f.g.isFollowingOperation())
	if observes {
		if err := f.observeAgain(ctx, &record, version); err != nil {
			return false, err
		}
	}
	f.g.cluster, f.g.now = &clusterReading{view: f.watcher.View()}, f.s.conn.Now()
	f.g.joinNodes(&f.g.record)
	state := f.currentState(record, version)
	status := f.g.makeStatus(state, f.g.now)
	f.status = status
	status.Leftovers = state.findAbandonedRun(f.g.group.Name)
	if shown := f.g.shownRecord(&record); shown.IsRunning() {
		if observes { // the record, the group and the cluster were read at the same moment
			f.beginForecast(ctx, *shown)
		}
		status.TimeLeft = f.forecast.restAt(f.g.now, shown.Run)
	}
	return !record.IsRunning() && !f.g.isFollowingOperation(), f.screen.showChange(status, f.g.shownRecord(&record))
}

// beginForecast begins a forecast if a new one is due.
func (f *followedUpgrade) beginForecast(ctx context.Context, record record.Record) {
	s, g := f.s, *f.g.groupContext
	f.forecast.begin(record.Run, forecastPause, func(known *restData) report.TimeLeft {
		return s.forecastRest(ctx, g, record, func(ctx context.Context, p *planning) error { return p.loadRestData(ctx, known) })
	})
}

// currentState returns the stored state of the upgrade. If the record has changed since the lease was read, a process
// may have continued the upgrade, so it does not count as abandoned.
func (f *followedUpgrade) currentState(record record.Record, version string) recordedState {
	return recordedState{record: record, asked: f.follower.CurrentRequest(), lease: f.lease, abandoned: f.abandoned && version == f.version}
}

// waitForChange waits until there is something new to read or to show. It returns false when the context has ended.
func (f *followedUpgrade) waitForChange(ctx context.Context, cloudTick <-chan time.Time) (continues bool) {
	pause := time.NewTimer(changePause)
	defer pause.Stop()
	select {
	case <-pause.C: // several changes are shown together
	case <-ctx.Done():
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-f.watcher.Changed():
	case <-f.screen.redrawTimer():
	case <-f.observeTimer():
	case made := <-f.forecast.made:
		f.forecast.finish(made)
	case <-f.follower.Changed():
		f.stale = true
	case <-f.watcher.NodesChanged():
		f.stale = true
	case <-cloudTick:
		f.stale = true
	}
	return true
}

// ignoreInterrupt returns nil if err comes from the end of the context: the user may end a watch at any time.
func ignoreInterrupt(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// observeTimer returns a channel that receives when the cloud and the lease may be read again. It is nil if there is no
// reason to read them.
func (f *followedUpgrade) observeTimer() <-chan time.Time {
	if !f.stale {
		return nil
	}
	return time.After(time.Until(f.observed.Add(minCloudInterval)) + time.Millisecond)
}

// observeAgain reads the group from the cloud, and the lease for this version of the record.
func (f *followedUpgrade) observeAgain(ctx context.Context, record *record.Record, version string) error {
	group, err := f.g.provider.Observe(ctx, cloud.Ref{Name: f.g.group.Name, To: f.g.to})
	if err != nil {
		return err
	}
	if f.lease, f.abandoned, err = f.s.readLease(ctx, f.g.store, group.Name, record); err != nil {
		return err
	}
	f.g.group, f.version, f.stale, f.observed = group, version, false, time.Now()
	return nil
}

// statusScreen shows a status each time it changes. On a terminal it redraws a view. For a program it prints a document
// for each change. On a pipe it prints the whole status first and last, and a line for each change between them.
type statusScreen struct {
	console
	// block draws live, the view of a running upgrade. It is nil unless stdout is a terminal that can be redrawn.
	block  *block
	live   report.LiveView
	shown  bool
	result record.Result
	last   report.Moment
	// unknown is the last shown reason why the time left is not known. leftovers are the last shown leftovers.
	unknown   string
	leftovers []report.Leftover
}

func newStatusScreen(c console) *statusScreen {
	d := &statusScreen{console: c, live: report.LiveView{Hint: "Ctrl-C ends this view, not the upgrade"}}
	if !c.isForPrograms() && mayRedraw(c.Out) {
		d.block = newBlock(c.Out)
	}
	return d
}

// redrawTimer returns a channel that receives when a terminal must be redrawn because times have changed. It is nil
// without a terminal.
func (d *statusScreen) redrawTimer() <-chan time.Time {
	if d.block == nil {
		return nil
	}
	return time.After(time.Second)
}

// showChange shows a status if it differs from the last one.
func (d *statusScreen) showChange(status *report.UpgradeStatus, rec *record.Record) error {
	now := report.Moment{At: d.now(), Status: status.Status, Blocked: status.Blocked, TimeLeft: status.TimeLeft}
	same := d.shown && status.Result == d.result && status.RemainingUnknown == d.unknown && status.Status.Waiting == d.last.Status.Waiting && len(report.DescribeChanges(d.last, now)) == 0
	if same && d.block == nil {
		return nil
	}
	before, began := *d, !d.shown
	d.shown, d.result, d.last, d.unknown, d.leftovers = true, status.Result, now, status.RemainingUnknown, status.Leftovers
	running := status.Run != "" && status.Result == ""
	switch {
	case d.block != nil && running:
		d.drawLive(status, now, rec)
		return nil
	case d.block != nil:
		d.block.clear()
	case began || d.isForPrograms():
	case running && before.result == "":
		return writeLines(d.Out, before.describeChanges(status, now))
	default:
		fmt.Fprintln(d.Out)
	}
	return d.printStatus(status)
}

// describeChanges returns a line with the time for each difference from the last status.
func (d *statusScreen) describeChanges(status *report.UpgradeStatus, now report.Moment) []string {
	var texts []string
	for _, event := range report.DescribeChanges(d.last, now) {
		texts = append(texts, event.Text)
	}
	if waiting := status.Status.Waiting; waiting != d.last.Status.Waiting && waiting != "" {
		texts = append(texts, "waiting for "+waiting)
	}
	if status.RemainingUnknown != d.unknown {
		texts = append(texts, report.TimeLeftLines(&status.TimeLeft, status.Status.Manager, now.At)...)
	}
	for _, l := range status.Leftovers {
		if !slices.Contains(d.leftovers, l) {
			texts = append(texts, l.What+": "+l.Remedy)
		}
	}
	for i := range texts {
		texts[i] = now.At.Local().Format(time.TimeOnly) + "  " + sanitizeLine(texts[i])
	}
	return texts
}

// drawLive draws the view of a running upgrade, with the status lines that the view of progress does not have.
func (d *statusScreen) drawLive(status *report.UpgradeStatus, now report.Moment, rec *record.Record) {
	d.live.Update(now, rec, status.Impacts)
	width, height := d.block.size()
	options := report.Options{Width: width, Color: d.mayColor(d.Out)}
	d.block.draw(report.FollowLines(&d.live, status, options, height-1))
}
