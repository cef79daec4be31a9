package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// execution is the upgrade of one group while this process holds the group's lease.
type execution struct {
	s *session
	// g is the group as it was last read; see readGroupAgain.
	g       *groupContext
	mode    mode
	hold    *cluster.Hold
	display Display
	// creditedUntil is the time until which the record counts the time without an active process.
	creditedUntil time.Time
	// balancers are the load balancers to watch.
	balancers balancers
	// actions are the actions of the run, for printFinalResult.
	actions actionLog
	// plan and seen are for a report. plan is nil if whyNoPlan has a reason. seen collects the events of the upgrade.
	plan      *report.Plan
	whyNoPlan string
	seen      *recordingDisplay
	// planning is the planning that made the plan; nil without a plan.
	planning *planning
	// forecast calculates the time left. beginForecast begins the next forecast if one is due; it is nil if there are
	// no forecasts.
	forecast      forecaster
	beginForecast func(rec record.Record)
}

// carryOut acquires the lease, reads the record again and runs the upgrade to its end.
func (e *execution) carryOut(ctx context.Context) (record.Record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group := e.g.group.Name
	e.display = e.s.line.openDisplay(group, cancel)
	if e.s.line.reportFile != "" {
		e.seen = &recordingDisplay{Display: e.display, now: e.s.line.now}
		e.display = e.seen
	}
	defer e.display.Close()
	if err := e.s.rejectParallelUpgrade(ctx, group, e.mode); err != nil {
		return record.Record{}, err
	}
	var err error
	if e.hold, err = e.s.acquireLease(ctx, group, e.mode, e.display); err != nil {
		return record.Record{}, err
	}
	defer e.hold.Release()
	if err := e.creditIdleTime(ctx); err != nil {
		return record.Record{}, err
	}
	// Another group's upgrade may have started during the wait for this lease, so this check comes after it. If two
	// upgrades start together, each holds its lease when it checks. So at least one of them finds the other.
	if err := e.s.rejectParallelUpgrade(ctx, group, e.mode); err != nil {
		return record.Record{}, err
	}
	if err := e.reloadUnderLease(ctx); err != nil {
		return record.Record{}, err
	}
	if e.g.isCurrent() {
		return e.g.makeUpToDateRecord(), nil
	}
	if e.g.request.Run == "" {
		e.g.request.Run = rand.String(8)
	}
	e.display.SetRun(e.g.request.Run)
	e.announceStart(ctx)
	rec, err := e.driveUpgrade(ctx)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: run %s to continue", err, e.s.line.retryCommand)
	case rec.Result == record.Interrupted && ctx.Err() == nil: // the user did not press Ctrl-C: another process requested the stop
		err = &exitErr{code: exitPaused, err: errors.New(rec.Message)}
	}
	return rec, err
}

// planForReport makes a plan for the report if --report was passed and no plan was shown to the user. If that fails,
// the report has none.
func (e *execution) planForReport(ctx context.Context) {
	if e.s.line.reportFile == "" || e.plan != nil {
		return
	}
	switch {
	case e.mode == modeAbort:
		e.whyNoPlan = "an abort replaces no node"
		return
	case e.g.nodesToUnfence != nil:
		e.whyNoPlan = "nodes are only released"
		return
	}
	if err := e.makePlan(ctx); err != nil {
		e.whyNoPlan = err.Error()
	}
}

// writeReport writes the report of an upgrade that has started and ended, if --report was passed. runErr is the error
// that ended the upgrade, nil if the record has the result. If the report cannot be written, it only warns.
func (e *execution) writeReport(ctx context.Context, rec *record.Record, runErr error) {
	line := e.s.line
	if line.reportFile == "" || (runErr != nil && rec.Run == "") {
		return
	}
	shown := *rec
	shown.Request.Group = e.g.name
	if runErr != nil && shown.Result == "" {
		shown.Result, shown.Message, shown.Ended = record.Failed, runErr.Error(), line.now()
	}
	seen := &report.History{}
	if e.seen != nil {
		e.seen.mu.Lock()
		defer e.seen.mu.Unlock()
		seen = &e.seen.seen
	}
	r := report.NewRunReport(e.s.makeOrigin(report.AboutUpgrade, e.s.account), e.plan, e.whyNoPlan, seen, &shown)
	r.AddComparison(e.compareForReport(ctx))
	if err := line.writeReport(r); err != nil {
		line.warn(fmt.Sprintf("group %q: %s", e.g.name, err))
	}
}

// compareForReport forecasts other ways to upgrade the group from its state at the start.
func (e *execution) compareForReport(ctx context.Context) (*report.Comparison, string) {
	switch {
	case e.mode.undoesUpgrade():
		return nil, "undoing an upgrade keeps its strategy"
	case e.planning == nil:
		return nil, cmp.Or(e.whyNoPlan, "no plan was made")
	case ctx.Err() != nil:
		return nil, "the upgrade was interrupted"
	}
	return e.planning.compareForReport(ctx)
}

// printFinalResult prints how a run ended.
func (e *execution) printFinalResult(rec record.Record) error {
	line, name := e.s.line, e.g.name
	switch {
	case rec.Result == record.Aborted:
		return line.printAborted(name, rec, &e.actions)
	case rec.Result == record.Succeeded && e.g.nodesToUnfence != nil:
		return line.printDone(name, rec, e.actions.formatLines(fmt.Sprintf("%s%s: nodes that became current take pods again", nodegroup.Prefix, name), "done: ")...)
	default:
		return line.reportOutcome(name, rec)
	}
}

// creditIdleTime extends the deadlines of draining nodes by the time in which no process held the lease. It saves the
// record immediately, because taking the lease has ended that time: a later process could not measure it any more.
func (e *execution) creditIdleTime(ctx context.Context) error {
	now := e.s.conn.Now()
	idle := e.s.conn.IdleSince(e.hold.LastHeld())
	rec, err := e.g.store.LoadRecord(ctx)
	if err != nil {
		return err
	}
	e.creditedUntil = now
	if idle == 0 || !rec.IsResumable() || len(rec.DrainDeadlines()) == 0 {
		return nil
	}
	return e.g.store.SaveRepeatedly(ctx, record.CreditIdleTime(&rec, idle, now))
}

// announceStart finds the load balancers to watch, and shows what the upgrade is about to do.
func (e *execution) announceStart(ctx context.Context) {
	if e.g.rebuilt {
		e.display.ShowNote(e.g.describeLostRecord())
	}
	e.display.ShowNote(describeRunStart(e.g))
	if standby := upgrade.DescribeStandby(e.g.members); standby != "" {
		e.display.ShowNote(standby)
	}
	if why, remedy := e.g.store.UnreadableRequest(); why != "" {
		e.display.ShowNote(why + ": run " + remedy)
	}
	if e.mode != modeAbort { // an abort drains no node
		e.balancers = e.g.findBalancers(ctx, e.s.conn.Client, nil)
		for _, line := range e.s.conn.DescribeOmittedParts(ctx, &e.g.request) {
			e.display.ShowNote(line)
		}
	}
	for _, line := range e.balancers.describeWatched() {
		e.display.ShowNote(line)
	}
	e.display.ShowCloudReading(&e.g.group, nil)
}

// maxReadingAge is how old the reading of the cluster and the group may be when the lease is acquired.
const maxReadingAge = 10 * time.Second

// reloadUnderLease reads the record again, because it may have changed during the wait for the lease. If another
// process held the lease after the cluster and the group were read, it reads these again, too. A rollback or abort is
// saved immediately. The record then contains what the stored request asked for, so the request is withdrawn.
func (e *execution) reloadUnderLease(ctx context.Context) error {
	age := e.s.conn.Now().Sub(e.g.now)
	last := e.hold.LastHeld()
	held := e.hold.Waited() || (!last.IsZero() && e.s.conn.IdleSince(last) <= age+time.Second) // the server's times have whole seconds
	if err := e.reloadGroup(ctx, e.mode.undoesUpgrade() || age > maxReadingAge || held); err != nil || !e.mode.keepsSettings() {
		return err
	}
	store := e.g.store
	if e.mode.undoesUpgrade() {
		if err := store.SaveRepeatedly(ctx, e.g.record); err != nil {
			return err
		}
	}
	if asked := store.CurrentRequest(); asked.Verb == e.mode.correspondingVerb() && asked.Run == e.g.record.Run {
		return store.WithdrawRequest(ctx, asked)
	}
	return nil
}

// reloadGroup reads the record, and adopts the recorded upgrade. If readsCluster is true, it also reads the cluster and the
// group.
func (e *execution) reloadGroup(ctx context.Context, readsCluster bool) error {
	agreed := ""
	if e.g.rebuilt {
		agreed = e.g.record.Run
	}
	if err := e.readGroupAgain(ctx, readsCluster); err != nil {
		return err
	}
	if e.g.rebuilt && e.g.record.Run != agreed && !e.s.line.consent.rebuild {
		return fmt.Errorf("the record of run %s was deleted during the wait for the lease: run %s to see the group's state", e.g.record.Run, e.s.line.retryCommand)
	}
	return nil
}

// readGroupAgain reads the record again and resolves the upgrade from it. If readsCluster is true, it reads the cluster and
// the group again and replaces e.g.
func (e *execution) readGroupAgain(ctx context.Context, readsCluster bool) (err error) {
	if !readsCluster {
		if e.g.stored, err = e.g.store.LoadRecord(ctx); err != nil {
			return err
		}
		return e.s.resolveGroup(e.g, e.mode)
	}
	if err := e.s.reloadCluster(ctx); err != nil {
		return err
	}
	again, err := e.s.loadGroup(ctx, e.g.name, e.mode)
	if err != nil {
		return err
	}
	e.g = again
	return e.g.rejectRefusedUpgrade()
}

// describeRunStart describes what a run is about to do.
func describeRunStart(g *groupContext) string {
	switch {
	case g.nodesToUnfence != nil:
		return fmt.Sprintf("run %s: releasing nodes that are current and still fenced: %s", g.request.Run, strings.Join(g.nodesToUnfence, ", "))
	case g.record.Stopping == record.Aborted:
		return fmt.Sprintf("run %s: undoing what it has left", g.request.Run)
	case g.record.Rollback:
		return fmt.Sprintf("run %s: going back to %s", g.request.Run, g.group.Wanted.Name)
	case g.request.Strategy.Traits().ByCloud:
		return fmt.Sprintf("run %s: %s upgrades the group to %s", g.request.Run, nodegroup.InfoOf(g.group.Provider).Manager.Name, g.group.Wanted.Name)
	default:
		return fmt.Sprintf("run %s: upgrading to %s", g.request.Run, g.group.Wanted.Name)
	}
}

// driveUpgrade starts the watches and runs the upgrade.
func (e *execution) driveUpgrade(ctx context.Context) (record.Record, error) {
	g, hold := e.g, e.hold
	watchCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	watched := context.AfterFunc(ctx, cancel) // no action has begun yet, so an interrupt may end the wait for the first view
	watcher, err := cluster.WatchCluster(watchCtx, e.s.conn.Client, e.s.conn.Now)
	if err != nil {
		return record.Record{}, err
	}
	asks, err := g.store.Follow(watchCtx)
	if err == nil && !watched() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return record.Record{}, err
	}
	owner := nodemark.Owner{Namespace: e.s.line.stateNamespace, Group: g.name, Epoch: hold.Epoch()}
	writer := cluster.NewWriter(e.s.conn.Client, watcher, g.request.Run, nodegroup.FenceTaint(g.group.Provider), owner)
	if hold.TookOver() {
		if err := writer.TakeOver(ctx, g.record.InFlightUIDs(), hold.Epoch()); err != nil {
			return record.Record{}, err
		}
	}
	movable, err := e.readMovablePods(ctx)
	if err != nil {
		return record.Record{}, err
	}
	polled := e.prepareForecasts(watchCtx, watcher)
	now := e.s.conn.Now()
	idle := now.Sub(e.creditedUntil)
	for _, line := range describeDrainTimeLeft(record.CreditIdleTime(&g.record, idle, now), now) {
		e.display.ShowNote(line)
	}
	r := &runner.Runner{
		Clock: e.s.conn.Now, Idle: idle, Movable: movable, Controllers: cluster.NewControllerReader(e.s.conn.Client, e.s.conn.Now), WaitForSoak: e.s.line.consent.wait,
		Request: g.request, Cluster: watcher, Cloud: g.provider, Writer: writer,
		Targets: nodegroup.Targets{Groups: e.balancers.Groups}, BalancersRead: e.display.ShowBalancerError,
		Store: g.store, Requests: asks, Group: g.group, Record: g.record, Lost: hold.Lost(), Expires: hold.Expires, RenewalError: hold.RenewalError,
		Watch: e.handleStep, CloudRead: polled, Failures: watcher.Failures(), ReportOutage: e.display.ShowOutage,
	}
	record, err := r.Run(ctx)
	if nodes := watcher.View().Nodes; hasLeftNodesFenced(&record, nodes, err) {
		for _, line := range report.StillFencedLines(nodes, g.request.Run) {
			e.display.ShowNote(line)
		}
	}
	return record, err
}

// handleStep shows a step, adds its actions to the log if printFinalResult needs them, and begins a forecast if one is
// due.
func (e *execution) handleStep(step upgrade.Step) {
	if e.mode.undoesUpgrade() || e.g.nodesToUnfence != nil {
		e.actions.addActions(step)
	}
	e.display.ShowStep(step)
	if e.beginForecast != nil && step.Record.IsRunning() && step.Record.Stopping == "" {
		e.beginForecast(step.Record)
	}
}

// prepareForecasts sets up forecasts of the time left, unless the user does not see them. Each forecast runs in its own
// goroutine and uses the watched state of the cluster. The returned function must be called with each reading of the
// group.
func (e *execution) prepareForecasts(ctx context.Context, watcher *cluster.Watcher) (polled func(*nodegroup.Group, error)) {
	if e.s.line.progress == "quiet" || e.mode == modeAbort || e.g.nodesToUnfence != nil {
		return e.display.ShowCloudReading
	}
	group := e.g.group
	e.beginForecast = func(rec record.Record) {
		select {
		case made := <-e.forecast.made:
			e.forecast.finish(made)
		default:
		}
		g := *e.g
		g.group = group
		e.forecast.begin(rec.Run, upgradePause, func(known *restData) report.TimeLeft {
			g.now, g.cluster, g.idle = e.s.conn.Now(), &clusterReading{view: watcher.View()}, 0
			g.joinNodes(&rec)
			rest := e.s.forecastRest(ctx, g, rec, func(ctx context.Context, p *planning) error { return p.loadRestData(ctx, known) })
			if ctx.Err() == nil {
				e.display.ShowRest(rest)
			}
			return rest
		})
	}
	return func(read *nodegroup.Group, err error) {
		if err == nil {
			group = *read
		}
		e.display.ShowCloudReading(read, err)
	}
}

// hasLeftNodesFenced reports whether a run that ended left nodes fenced that it should have unfenced. Either the run
// failed with err, or it fenced nodes and never started to drain them.
func hasLeftNodesFenced(rec *record.Record, nodes []*corev1.Node, err error) bool {
	switch {
	case err != nil:
		return !errors.Is(err, runner.ErrLost) && !errors.Is(err, runner.ErrNotStoppedInTime)
	case rec.Request.KeepFence:
		return false
	}
	switch rec.Result {
	case record.Failed, record.NodeCreationFailure, record.Interrupted:
		return slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
			_, started := rec.Nodes[n.Name]
			return !started && rec.Run != "" && n.Annotations[nodemark.AnnotationRun] == rec.Run
		})
	default:
		return false
	}
}

// readMovablePods returns the pods that a restart moves without a gap. It returns none unless --move=surge was passed.
func (e *execution) readMovablePods(ctx context.Context) (drain.Movable, error) {
	if e.g.request.Move != record.MoveBySurge {
		return drain.Movable{}, nil
	}
	return cluster.ReadMovable(ctx, e.s.conn.Client)
}

// describeDrainTimeLeft returns a line for each node in drain with the time that is left.
func describeDrainTimeLeft(rec record.Record, now time.Time) []string {
	var lines []string
	limits := rec.DrainDeadlines()
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		left := max(0, limits[name].Sub(now)).Round(time.Second)
		if rec.Nodes[name].State == record.NodeEmpty {
			lines = append(lines, fmt.Sprintf("node %s is already empty", name))
			continue
		}
		lines = append(lines, fmt.Sprintf("node %s continues to drain; %s of its %s are left", name, left, rec.Request.DrainTimeout))
	}
	return lines
}

// acquireLease acquires the group's lease, and shows which holder it waits for.
func (c *command) acquireLease(ctx context.Context, group string, m mode, display Display) (*cluster.Hold, error) {
	return cluster.AcquireLease(ctx, c.conn.Client, cluster.Claim{
		Namespace: c.line.stateNamespace, Group: group, Identity: makeHolderIdentity(), Takeover: c.line.consent.takeover, Patient: m.undoesUpgrade(),
		Waiting: func(holder string) { display.ShowNote(describeLeaseWait(holder, m)) },
	})
}

// describeLeaseWait returns a line about the wait for a holder's lease.
func describeLeaseWait(holder string, m mode) string {
	if m.undoesUpgrade() {
		return fmt.Sprintf("waiting until %s stops or has not renewed its lease for %s", holder, cluster.LeaseDuration)
	}
	return fmt.Sprintf("%s holds the lease: waiting until it renews the lease (it is running) or has not renewed it for %s", holder, cluster.LeaseDuration)
}

// rejectParallelUpgrade returns an error if another group of the cluster is being upgraded. Two groups that are drained
// together can keep each other's budgets closed (containers-roadmap#1865).
func (c *command) rejectParallelUpgrade(ctx context.Context, group string, m mode) error {
	if c.line.consent.parallelGroups || m == modeAbort { // an abort drains no node
		return nil
	}
	other, err := c.conn.FindHeldLease(ctx, c.line.stateNamespace, group)
	if err != nil || other.IsFree() {
		return err
	}
	return &exitErr{code: exitPaused, err: fmt.Errorf("%s is upgrading another group (lease %s): wait until that upgrade ends, or pass --parallel-groups", other.Holder, other.Name)}
}

// makeHolderIdentity returns the name of this process in the lease.
func makeHolderIdentity() string {
	return fmt.Sprintf("%s/%d-%s", currentUser(), os.Getpid(), rand.String(5))
}

// currentUser returns user@host of this process.
func currentUser() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}
