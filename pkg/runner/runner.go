package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// coalesceFactor is how long events are gathered after a step, as a multiple of the step's own time. So steps take a ninth of
	// the time, up to the limit coalesceLimit.
	coalesceFactor = 8
	coalesceLimit  = 20 * time.Millisecond
	// requestLimit is the timeout of every request. It ends before another process could take the lease.
	requestLimit = 40 * time.Second
	// stopLimit is how long an interrupted upgrade may take to finish the actions that it began.
	stopLimit = 10 * time.Second
	// refusalDelay is the pause after a refusal for which no event will arrive. Up to the same time again is added at random.
	refusalDelay = 30 * time.Second
	// outageLimit is the longest pause after an action without an answer; half of it is random. Longer pauses would continue
	// after the end of an outage.
	outageLimit = 10 * time.Second
	// leaseSlack is how much time of the lease must be left to begin a request.
	leaseSlack = 10 * time.Second
	// saveLimit is how long writing the record may fail before the upgrade gives up.
	saveLimit = 15 * time.Minute
	// attemptMemory is how long an ended action is remembered. No action waits longer for its next try.
	attemptMemory = 2 * time.Minute
)

// Observer returns the known state of the cluster; *cluster.Watcher implements it.
type Observer interface {
	View() drain.Snapshot
	Changed() <-chan struct{}
	NodesChanged() <-chan struct{}
}

// Actor carries out one action; *cluster.Writer implements it for the cluster.
type Actor interface {
	Do(ctx context.Context, action nodegroup.Action) error
}

// Saver stores the record; *cluster.Store implements it.
type Saver interface {
	Save(ctx context.Context, record record.Record) error
}

// Runner carries out one upgrade. All fields are required except Clock, Controllers, Targets and Failures.
type Runner struct {
	// Clock is the clock of all decisions and of the record, usually the API server's. The next process may run on a machine
	// whose clock is wrong. The Cloud's observations use it, too. nil means this machine's wall clock.
	Clock    func() time.Time
	Request  record.Request
	Cluster  Observer
	Cloud    cloud.Provider
	Writer   Actor
	Store    Saver
	Requests RequestSource
	// Group is the group as it was observed before the run. Record is the stored record of an earlier run.
	Group  nodegroup.Group
	Record record.Record
	// Controllers reads the controllers of workloads that lack pods. If it is nil, their scale is unknown.
	Controllers ControllerReader
	// Movable contains the pods that a restart of their Deployment moves without a gap; see upgrade.World.
	Movable drain.Movable
	// Targets are the load balancers to watch; empty if the cloud is not a cloud.Balancer. BalancersRead is called on the
	// runner's goroutine with the result of each reading of them.
	Targets       nodegroup.Targets
	BalancersRead func(error)
	// WaitForSoak keeps the process running through a long soak instead of exiting; see upgrade.World.
	WaitForSoak bool
	// Lost is closed when another process may write. After that, this process writes nothing.
	Lost <-chan struct{}
	// Idle is how long no process carried out the upgrade before this one got the right to write.
	Idle time.Duration
	// Expires returns the time until which no other process may write, by the wall clock.
	Expires func() time.Time
	// RenewalError returns why the last try to renew the lease failed, nil if it succeeded.
	RenewalError func() error
	// Watch is called on the runner's goroutine with every step.
	Watch func(upgrade.Step)
	// CloudRead is called on the runner's goroutine with each reading of the group from the cloud. If the reading
	// failed, it gets the error and what was read before the failure.
	CloudRead func(*nodegroup.Group, error)
	// Failures receives the errors of watches of the cluster.
	Failures <-chan error
	// ReportOutage is called on the runner's goroutine. It gets the reason why the cluster has accepted no change for a
	// while, and "" when the cluster accepts changes again.
	ReportOutage func(detail string)
}

// ErrLost means that Run lost the right to write: the lease was lost or, with record.ErrChanged, another process changed the
// record.
var ErrLost = errors.New("another process may have taken over the upgrade")

// errLeaseNotRenewed means that a request was not sent, because another process may soon hold the lease.
var errLeaseNotRenewed = errors.New("the lease has not been renewed for too long")

// ErrNotStoppedInTime means that an interrupted upgrade did not finish its actions in time. The record contains them, and the same
// command continues.
var ErrNotStoppedInTime = fmt.Errorf("stopped before all work was finished within %s", stopLimit)

// run is the state of one Run.
type run struct {
	*Runner
	attempts map[string]nodegroup.Attempt
	notes    upgrade.Notes
	// answers receives functions that record the results of requests; the loop calls them. Its buffer has room for all requests
	// in flight.
	answers chan func()
	// clusterQueue and cloudQueue are the actions that have begun and not ended, by their server.
	clusterQueue requestQueue
	cloudQueue   requestQueue
	pollInFlight bool
	targetPolls  targetPolls
	controllers  controllerReads
	// lastPoll is when the cloud was last read. recentPolls are its last readings, at most cloudBurst of them.
	lastPoll    time.Time
	recentPolls []time.Time
	// pollAt is when to read the cloud early, zero for never. cloudStale is true if the next answer may be older than a change of
	// ours.
	pollAt     time.Time
	cloudStale bool
	// refusedPolls counts the refused readings of the cloud in a row while the upgrade waits for the cloud. lastPollError is the
	// error of the last reading.
	refusedPolls  int
	lastPollError error
	// unreadSince is when readings of the cloud began to fail while the upgrade waits for it; zero if the last one succeeded.
	unreadSince time.Time
	// refusedTargets counts the refused readings of load balancers in a row. lastTargetsError is the error of the last one.
	refusedTargets   int
	lastTargetsError error
	// outageSince is when requests to the API server began to get no answer, zero if they get answers. lastFailure is when the
	// last request got none.
	outageSince, lastFailure time.Time
	// refusedWatch is the state of refused watches, failedWatch that of watches that failed for other reasons.
	refusedWatch, failedWatch failingWatch
	// leaseOverdue is when the lease should have been renewed, zero if it is not overdue.
	leaseOverdue time.Time
	// stopCause is why the upgrade stops without a request of the user.
	stopCause error
	// lastDecided is when the last step was decided, by Clock.
	lastDecided time.Time
	// quietUntil is until when events are gathered before the next step.
	quietUntil time.Time
	lastShown  upgrade.Step
	stopping   bool
	// memberCache is empty if the members must be joined again.
	memberCache memberCache
	// memo keeps state between steps.
	memo upgrade.Memo
}

// Run drives the upgrade until it is finished, the context ends or the lease is lost. It returns the last stored record. When the
// context ends, Run begins nothing new, and the actions in flight have stopLimit to end. Record.Result says how the upgrade
// ended. An error means that the loop itself could not continue. A stuck upgrade stops as if it had been interrupted.
func (r *Runner) Run(ctx context.Context) (record.Record, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work, cancel := r.newWorkContext(ctx)
	defer cancel(nil)
	s := &run{
		Runner: r, attempts: map[string]nodegroup.Attempt{}, lastPoll: time.Now().Add(-r.now().Sub(r.Group.Observed)),
		answers:      make(chan func(), maxClusterRequests+maxCloudRequests+controllersAtOnce+2), // 2 for one reading each of the cloud and of load balancers
		controllers:  controllerReads{since: map[drain.Workload]time.Time{}, known: map[drain.Workload]drain.Controller{}, inFlight: map[drain.Workload]bool{}},
		clusterQueue: requestQueue{limit: maxClusterRequests}, cloudQueue: requestQueue{limit: maxCloudRequests},
	}
	rec, err := s.runLoop(ctx, work, stop)
	switch {
	case s.stopCause == nil:
	case errors.Is(err, ErrNotStoppedInTime):
		err = fmt.Errorf("%w; %s", s.stopCause, err.Error()) // the user did not interrupt it
	case err == nil && rec.Result == record.Interrupted:
		err = s.stopCause
	}
	return rec, s.addFencedNodes(err)
}

// addFencedNodes adds the nodes that remain fenced to an error.
func (s *run) addFencedNodes(err error) error {
	if err == nil || errors.Is(err, ErrLost) {
		return err
	}
	if fenced := upgrade.DescribeFenced(s.joinMembers(s.Cluster.View().Nodes), s.Record.Run); fenced != "" {
		return fmt.Errorf("%w; %s", err, fenced)
	}
	return err
}

// runLoop is the loop of Run. It calls stop if the upgrade is stuck.
func (s *run) runLoop(ctx, work context.Context, stop func()) (record.Record, error) {
	for {
		s.sendWaiting(work)
		step, began := s.decideStep(), time.Now()
		if step.Persist {
			if err := s.saveRecord(work, step.Record); err != nil {
				return s.Record, err
			}
		}
		s.adoptStep(&step)
		if s.recordInterruption(ctx) || time.Since(began) > staleDecision {
			continue // the step's actions are dropped, because the next decision uses the current state
		}
		s.showStep(step)
		if step.Finished && s.clusterQueue.isEmpty() && s.cloudQueue.isEmpty() {
			return s.Record, nil
		}
		if err := cmp.Or(s.fatalCloudError(&step), s.fatalLeaseError(), s.refusedWatch.err, s.failedWatch.err); err != nil && s.stopCause == nil {
			s.stopCause = err
			stop()
		}
		for _, action := range step.Actions {
			s.enqueueAction(action)
		}
		s.sendWaiting(work)
		if err := s.waitForEvent(ctx, work, step); err != nil {
			return s.Record, err
		}
	}
}

// staleDecision limits how long storing a decision may take. If it takes longer, the cluster may have changed, and the decision
// is made again.
const staleDecision = 5 * time.Second

// recordInterruption records and reports whether the user has interrupted the upgrade since the last call.
func (s *run) recordInterruption(ctx context.Context) (interrupted bool) {
	select {
	case <-s.stopRequested(ctx):
		s.stopping = true
		return true
	default:
		return false
	}
}

// now returns the time for decisions. It has no monotonic reading, because the monotonic clock stops while the machine sleeps.
func (r *Runner) now() time.Time {
	if r.Clock == nil {
		return time.Now().Round(0)
	}
	return r.Clock().Round(0)
}

// localTime converts a time of Clock to this machine's time.
func (r *Runner) localTime(at time.Time) time.Time { return time.Now().Add(at.Sub(r.now())) }

// adoptStep makes the step's record the current one.
func (s *run) adoptStep(step *upgrade.Step) {
	if step.Persist {
		s.memberCache = memberCache{} // the members also depend on the record's nodes
	}
	s.Record, s.notes = step.Record, step.Notes
	s.controllers.keepOnlyUnscaled(step)
}

// decideStep decides what to do now.
func (s *run) decideStep() upgrade.Step {
	began := time.Now()
	world := s.observeWorld()
	world.Idle = s.idleTime(world.Now)
	s.lastDecided = world.Now
	step := upgrade.Next(world)
	s.quietUntil = time.Now().Add(min(coalesceFactor*time.Since(began), coalesceLimit))
	return step
}

// maxActiveGap is the longest time between two steps of an active process. After a longer gap this process counts as
// inactive in between: the machine slept, or the record could not be stored. An active process decides at least twice
// as often.
const maxActiveGap = time.Minute

// idleTime returns how long no process has been active, up to now.
func (s *run) idleTime(now time.Time) time.Duration {
	if s.lastDecided.IsZero() {
		return s.Idle
	}
	if gap := now.Sub(s.lastDecided); gap > maxActiveGap {
		return gap
	}
	return 0
}

// newWorkContext returns the context of all requests. It ends with ErrLost when the right to write is lost, and with ErrNotStoppedInTime
// when an interrupted upgrade has used up stopLimit.
func (r *Runner) newWorkContext(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		select {
		case <-time.After(stopLimit):
			cancel(ErrNotStoppedInTime)
		case <-work.Done():
		}
	})
	go func() {
		select {
		case <-r.Lost:
			cancel(ErrLost)
		case <-work.Done():
		}
	}()
	return work, cancel
}

// saveRecord stores the record before any action depends on it. It retries while the API server cannot be reached, since no
// action is possible in that time.
func (s *run) saveRecord(work context.Context, rec record.Record) error {
	saving, cancel := context.WithTimeoutCause(work, saveLimit, fmt.Errorf("gave up after %s", saveLimit))
	defer cancel()
	var last error // the last error from an answer, not from the end of the wait
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		began := time.Now()
		err := s.saveOnce(saving, rec)
		switch {
		case errors.Is(err, context.Canceled):
			err = cmp.Or(last, errSaveUnanswered)
		case errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("%w: %w", errSaveUnanswered, err)
		}
		last = err
		switch {
		case err == nil:
			s.recordReachability(began, true, "")
			return nil
		case errors.Is(err, ErrLost):
			return err
		case errors.Is(err, record.ErrChanged):
			return fmt.Errorf("%w: %w", ErrLost, err)
		case ClassifyAnswer(err).Outcome == nodegroup.OutcomeFatal:
			return err
		}
		if s.isLeaseOverdue() && s.lastShown.Status.Group != "" {
			s.showStep(s.lastShown) // no other step is decided until the record is written
		}
		s.recordReachability(began, false, ClassifyAnswer(err).Detail)
		select {
		case <-time.After(pause):
		case <-saving.Done():
			return fmt.Errorf("%w: %w", context.Cause(saving), err)
		}
	}
}

// saveOnce stores the record once. It reports a request that gets no answer for a while, for example because an admission
// webhook holds it.
func (s *run) saveOnce(ctx context.Context, record record.Record) error {
	saved := make(chan error, 1)
	go func() { saved <- s.sendRecord(ctx, record) }()
	silence := time.NewTimer(outageGap)
	defer silence.Stop()
	select {
	case err := <-saved:
		return err
	case <-silence.C:
		s.ReportOutage(errSaveUnanswered.Error())
		return <-saved
	}
}

// errSaveUnanswered means that writing the record got no answer.
var errSaveUnanswered = errors.New("writing the upgrade's record got no answer: check whether an admission webhook delays it")

func (s *run) sendRecord(ctx context.Context, record record.Record) error {
	if err := s.checkLease(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeoutOfNextRequest())
	defer cancel()
	return s.Store.Save(ctx, record)
}

// checkLease returns an error if another process may write now or soon. A request must end before
// another process may write.
func (s *run) checkLease() error {
	switch {
	case s.isLeaseLost():
		return ErrLost
	case s.timeoutOfNextRequest() < leaseSlack:
		return fmt.Errorf("%w%s", errLeaseNotRenewed, s.describeRenewalError())
	default:
		return nil
	}
}

// timeoutOfNextRequest returns how long a request that begins now may take.
func (r *Runner) timeoutOfNextRequest() time.Duration {
	return min(requestLimit, time.Until(r.Expires()))
}

func (s *run) isLeaseLost() bool {
	select {
	case <-s.Lost:
		return true
	default:
		return false
	}
}

// recordAnswer records the end of an action and when it may be tried again.
func (s *run) recordAnswer(action nodegroup.Action, answer Answer) {
	s.queueFor(action).inFlight--
	now := s.now()
	attempt := s.attempts[action.Key()]
	attempt.InFlight, attempt.Ended = false, now
	attempt.Outcome, attempt.Detail = answer.Outcome, answer.Detail
	attempt.NotBefore = now.Add(retryDelay(answer, attempt.Tries))
	s.attempts[action.Key()] = attempt
	if nodegroup.IsCloudAction(action) {
		s.cloudStale = true
		s.requestPollBy(time.Now())
		return
	}
	began := s.localTime(attempt.Begun)
	switch attempt.Outcome {
	case nodegroup.OutcomeUnclear:
		s.recordReachability(began, false, attempt.Detail)
	case nodegroup.OutcomeDone, nodegroup.OutcomeRefused: // other outcomes may come without any request
		s.recordReachability(began, true, "")
	}
}

// retryDelay returns the pause before an action may be tried again. It is zero after success, and long after a refusal that an
// event will lift. After everything else it starts at half a second and doubles. That includes objects that have changed: until
// they are observed again, the same request would get the same answer.
func retryDelay(answer Answer, tries int) time.Duration {
	switch answer.Outcome {
	case nodegroup.OutcomeDone:
		return 0
	case nodegroup.OutcomeRefused, nodegroup.OutcomeExhausted:
		return max(answer.After, refusalDelay+rand.N(refusalDelay))
	default:
		limit := refusalDelay
		if answer.Outcome == nodegroup.OutcomeUnclear {
			limit = outageLimit
		}
		base := min(500*time.Millisecond<<min(tries-1, 6), limit)
		return max(answer.After, base/2+rand.N(base))
	}
}

// waitForEvent waits until the next step is due.
func (s *run) waitForEvent(ctx, work context.Context, step upgrade.Step) error {
	wake, asked := s.stepChannels(&step)
	ask := time.NewTimer(time.Until(s.nextReadTime(&step)))
	defer ask.Stop()
	select {
	case record := <-s.answers:
		record()
		s.recordWaitingAnswers()
	case <-ask.C:
		s.readDueSources(work, &step)
	case err := <-s.Failures:
		s.recordWatchFailure(err)
	case <-s.Cluster.NodesChanged():
		s.cloudStale = true
		s.requestPollBy(s.lastPoll.Add(cloudRepeatPause))
	case <-s.Cluster.Changed():
		s.gatherEvents(work)
	case <-wake:
	case <-asked:
	case <-s.stopRequested(ctx):
		s.stopping = true
	case <-work.Done():
		return s.describeUnfinishedWork(context.Cause(work))
	}
	return nil
}

// describeUnfinishedWork adds the action that an interrupted upgrade was waiting for to the error.
func (s *run) describeUnfinishedWork(cause error) error {
	if !errors.Is(cause, ErrNotStoppedInTime) {
		return cause
	}
	if retried := s.lastShown.Status.Retried; retried.Action != "" {
		return fmt.Errorf("%w: %s", cause, retried)
	}
	for _, key := range slices.Sorted(maps.Keys(s.attempts)) {
		switch attempt := s.attempts[key]; {
		case attempt.InFlight:
			return fmt.Errorf("%w: to %s has no answer yet", cause, attempt.Action)
		case attempt.Outcome == nodegroup.OutcomeLater || attempt.Outcome == nodegroup.OutcomeUnclear:
			return fmt.Errorf("%w: to %s: %s", cause, attempt.Action, attempt.Detail)
		}
	}
	return cause
}

// stopRequested returns a channel that is closed when the upgrade should stop. It returns nil if the upgrade is stopping already.
func (s *run) stopRequested(ctx context.Context) <-chan struct{} {
	if s.stopping {
		return nil
	}
	return ctx.Done()
}

// recordWaitingAnswers records the answers that have arrived.
func (s *run) recordWaitingAnswers() {
	for {
		select {
		case record := <-s.answers:
			record()
		default:
			return
		}
	}
}

// gatherEvents waits for the end of a burst of events if the last step was a moment ago. It records the answers that arrive with
// them.
func (s *run) gatherEvents(work context.Context) {
	pause := time.NewTimer(time.Until(s.quietUntil))
	defer pause.Stop()
	for {
		select {
		case record := <-s.answers:
			record()
		case <-pause.C:
			return
		case <-work.Done():
			return
		}
	}
}
