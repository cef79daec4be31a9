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
	// coalesceFactor is how long events are gathered after a step, in times that the step took, so
	// that steps take a ninth of the time as long as that is no longer than coalesceLimit.
	coalesceFactor = 8
	coalesceLimit  = 20 * time.Millisecond
	// requestLimit ends every request before the lease could be another actor's.
	requestLimit = 40 * time.Second
	// stopLimit is how long an interrupted upgrade may take to come to rest.
	stopLimit = 10 * time.Second
	// refusalDelay is how long a refusal that sends no event is believed; up to as much again is
	// added by lot.
	refusalDelay = 30 * time.Second
	// outageLimit is how long an action without answer rests at most, half of it drawn: longer
	// rests would outlast the outage.
	outageLimit = 10 * time.Second
	// leaseSlack is how much of the lease must be left for a request to be begun.
	leaseSlack = 10 * time.Second
	// saveLimit is how long the record may fail to be written before the upgrade gives up.
	saveLimit = 15 * time.Minute
	// attemptMemory is how long the end of an action is kept, at least as long as any rests before
	// its next try.
	attemptMemory = 2 * time.Minute
)

// Observer is the cluster as it is known now; *cluster.Watcher implements it.
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

// Runner carries one upgrade out. All fields but Clock, Controllers, Targets and Failures are required.
type Runner struct {
	// Clock tells the time that all decisions and the record go by, as the API server's: the next
	// process may run on a machine whose clock is wrong. What the Cloud observes goes by it, too.
	// nil is this machine's wall clock.
	Clock   func() time.Time
	Request record.Request
	Cluster Observer
	Cloud   cloud.Provider
	Writer  Actor
	Store   Saver
	Asks    Asker
	// Group is the group as it was observed before the run, Record what was stored of an earlier
	// one.
	Group  nodegroup.Group
	Record record.Record
	// Controllers reads the controllers of workloads that lack pods; nil leaves their scale unknown.
	Controllers ControllerReader
	// Movable tells which pods a restart of their Deployment moves without a gap; see
	// upgrade.World.
	Movable drain.Movable
	// Targets are the load balancers to follow, and BalancersRead sees how each reading of them
	// ended, from the runner's own goroutine; none where the cloud is no cloud.Balancer.
	Targets       nodegroup.Targets
	BalancersRead func(error)
	// Stay has the process wait through a long soak instead of leaving; see upgrade.World.
	Stay bool
	// Lost is closed when another actor may write; nothing is written from then on.
	Lost <-chan struct{}
	// Idle is for how long no one carried the upgrade out before this process had the right to
	// write.
	Idle time.Duration
	// Expires is until when no other actor may write, by the wall clock.
	Expires func() time.Time
	// Unrenewed is why the right to write was not renewed when that was tried last, nil when it
	// was.
	Unrenewed func() error
	// Watch sees every step as it is decided, from the runner's own goroutine.
	Watch func(upgrade.Step)
	// Polled is called, in the runner's goroutine, with each reading of the group from the cloud. If the
	// reading fails, it gets the error and what was read before the failure.
	Polled func(*nodegroup.Group, error)
	// Failures tell why the cluster could not be watched.
	Failures <-chan error
	// Unreached sees why the cluster has taken no change for a while, and "" when it does again,
	// from the runner's own goroutine.
	Unreached func(detail string)
}

// ErrLost is the error of Run when the right to write was lost: with the lease or, with
// record.ErrChanged, by another actor's change of the record.
var ErrLost = errors.New("another process may have taken over the upgrade")

// errUnrenewed is the answer to a request that is not made, because the lease may be another actor
// else's soon.
var errUnrenewed = errors.New("the lease has not been renewed for too long")

// ErrUnrested is the error of Run when an interrupted upgrade did not come to rest in time. The
// record holds what was begun, and the same command continues.
var ErrUnrested = fmt.Errorf("stopped before everything came to rest within %s", stopLimit)

// run is the state of one Run.
type run struct {
	*Runner
	attempts map[string]nodegroup.Attempt
	notes    upgrade.Notes
	// answers are what came of requests, to be booked by the loop. It has room for all that are in
	// flight.
	answers chan func()
	// clusterQueue and cloudQueue are what was begun and has not ended, by where it goes to.
	clusterQueue requestQueue
	cloudQueue   requestQueue
	pollInFlight bool
	targetPolls  targetPolls
	controllers  controllerReads
	// lastPoll is when the cloud was asked last, recentPolls its last questions, not more than may
	// follow each other.
	lastPoll    time.Time
	recentPolls []time.Time
	// pollAt is when the cloud is to be asked early, zero for never; cloudStale that the answer may
	// be older than a change of ours.
	pollAt     time.Time
	cloudStale bool
	// refusedPolls counts the polls that were refused for good while the upgrade waits for the
	// cloud, since the last that was not; lastPollError is the last poll's error.
	refusedPolls  int
	lastPollError error
	// unreadSince is since when each poll has failed while the upgrade waits for the cloud, zero while
	// the last did not.
	unreadSince time.Time
	// refusedTargets and lastTargetsError are the same for readings of load balancers.
	refusedTargets   int
	lastTargetsError error
	// outageSince is since when requests to the API server have no answer, zero while they have;
	// lastFailure is when the last had none.
	outageSince, lastFailure time.Time
	// refusedWatch and failedWatch are the watches that were refused for good, and those that failed
	// otherwise.
	refusedWatch, failedWatch failingWatch
	// leaseOverdue is since when the lease should have been renewed, zero while it is.
	leaseOverdue time.Time
	// gaveUp is why the upgrade is being brought to rest though no one asked for it.
	gaveUp error
	// lastDecided is when the last step was decided, by the Clock.
	lastDecided time.Time
	// quietUntil is until when events are gathered.
	quietUntil time.Time
	lastShown  upgrade.Step
	stopping   bool
	// memberCache is empty when it has to be made again.
	memberCache memberCache
	// memo is what the steps keep between them.
	memo upgrade.Memo
}

// Run drives the upgrade until it is finished, the context ends or the lease is lost, and returns
// the record as it was stored last. A context that ends is a wish to stop: nothing new is begun,
// and what is begun has stopLimit to come to rest. How the upgrade ended is in Record.Result; an
// error means that the loop itself could not continue; one that is stuck comes to rest as if it had
// been interrupted.
func (r *Runner) Run(ctx context.Context) (record.Record, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work, cancel := r.contextForWork(ctx)
	defer cancel(nil)
	s := &run{
		Runner: r, attempts: map[string]nodegroup.Attempt{}, lastPoll: time.Now().Add(-r.now().Sub(r.Group.Observed)),
		answers:      make(chan func(), toCluster+toCloud+controllersAtOnce+2), // and a poll of each kind
		controllers:  controllerReads{since: map[drain.Workload]time.Time{}, known: map[drain.Workload]drain.Controller{}, inFlight: map[drain.Workload]bool{}},
		clusterQueue: requestQueue{limit: toCluster}, cloudQueue: requestQueue{limit: toCloud},
	}
	rec, err := s.runLoop(ctx, work, stop)
	switch {
	case s.gaveUp == nil:
	case errors.Is(err, ErrUnrested):
		err = fmt.Errorf("%w; %s", s.gaveUp, err.Error()) // it counts as no interrupt
	case err == nil && rec.Result == record.Interrupted:
		err = s.gaveUp
	}
	return rec, s.nameFenced(err)
}

// nameFenced adds to the error of an upgrade that could not come to rest which nodes it leaves fenced.
func (s *run) nameFenced(err error) error {
	if err == nil || errors.Is(err, ErrLost) {
		return err
	}
	if fenced := upgrade.DescribeFenced(s.joinMembers(s.Cluster.View().Nodes), s.Record.Run); fenced != "" {
		return fmt.Errorf("%w; %s", err, fenced)
	}
	return err
}

// runLoop is Run; stop is called when the upgrade is stuck.
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
		if s.noteInterruption(ctx) || time.Since(began) > staleDecision {
			continue // its actions are dropped: the next decision uses the current state
		}
		s.showStep(step)
		if step.Finished && s.clusterQueue.isEmpty() && s.cloudQueue.isEmpty() {
			return s.Record, nil
		}
		if err := cmp.Or(s.fatalCloudError(&step), s.fatalLeaseError(), s.refusedWatch.err, s.failedWatch.err); err != nil && s.gaveUp == nil {
			s.gaveUp = err
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

// staleDecision limits how long storing a decision may take. After that the cluster may have changed, and the decision is made
// again.
const staleDecision = 5 * time.Second

// noteInterruption notes whether the user has interrupted the upgrade since the last call, and returns that.
func (s *run) noteInterruption(ctx context.Context) (interrupted bool) {
	select {
	case <-s.stopRequested(ctx):
		s.stopping = true
		return true
	default:
		return false
	}
}

// now returns the time that decisions go by. Without a monotonic reading: a machine that sleeps stops
// the monotonic clock.
func (r *Runner) now() time.Time {
	if r.Clock == nil {
		return time.Now().Round(0)
	}
	return r.Clock().Round(0)
}

// localTime returns this machine's time at a time that decisions go by.
func (r *Runner) localTime(at time.Time) time.Time { return time.Now().Add(at.Sub(r.now())) }

// adoptStep makes the step's record the one that holds.
func (s *run) adoptStep(step *upgrade.Step) {
	if step.Persist {
		s.memberCache = memberCache{} // it has the nodes that were started, too
	}
	s.Record, s.notes = step.Record, step.Notes
	s.controllers.forgetOthers(step)
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

// idleAfter is how long nothing was decided when this process counts as not at work meanwhile: it
// was asleep, or could not store its record. A process at work decides twice as often at least.
const idleAfter = time.Minute

// idleTime is for how long, up to now, no one was at work.
func (s *run) idleTime(now time.Time) time.Duration {
	if s.lastDecided.IsZero() {
		return s.Idle
	}
	if gap := now.Sub(s.lastDecided); gap > idleAfter {
		return gap
	}
	return 0
}

// contextForWork is the context of everything that is begun. It ends with ErrLost when the right to
// write is lost, and with ErrUnrested when an interrupted upgrade has had its time to come to rest.
func (r *Runner) contextForWork(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		select {
		case <-time.After(stopLimit):
			cancel(ErrUnrested)
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

// saveRecord stores the record before anything rests on it. It tries again while the API server
// cannot be reached, since nothing may be done meanwhile anyway.
func (s *run) saveRecord(work context.Context, rec record.Record) error {
	saving, cancel := context.WithTimeoutCause(work, saveLimit, fmt.Errorf("gave up after %s", saveLimit))
	defer cancel()
	var last error // that an answer gave, rather than the end of the wait for one
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		began := time.Now()
		err := s.awaitSave(saving, rec)
		switch {
		case errors.Is(err, context.Canceled):
			err = cmp.Or(last, errUnsaved)
		case errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("%w: %w", errUnsaved, err)
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
			s.showStep(s.lastShown) // no other step is taken until the record is written
		}
		s.recordReachability(began, false, ClassifyAnswer(err).Detail)
		select {
		case <-time.After(pause):
		case <-saving.Done():
			return fmt.Errorf("%w: %w", context.Cause(saving), err)
		}
	}
}

// awaitSave stores the record once. It tells of a request that has no answer for a while, as one
// that an admission webhook holds.
func (s *run) awaitSave(ctx context.Context, record record.Record) error {
	saved := make(chan error, 1)
	go func() { saved <- s.trySaveRecord(ctx, record) }()
	silence := time.NewTimer(outageGap)
	defer silence.Stop()
	select {
	case err := <-saved:
		return err
	case <-silence.C:
		s.Unreached(errUnsaved.Error())
		return <-saved
	}
}

// errUnsaved is the error of a record whose writing has no answer.
var errUnsaved = errors.New("writing the upgrade's record has had no answer: see whether an admission webhook holds it")

func (s *run) trySaveRecord(ctx context.Context, record record.Record) error {
	if err := s.checkLease(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.requestTimeout())
	defer cancel()
	return s.Store.Save(ctx, record)
}

// checkLease returns an error when another actor may write by now, or soon: a request that is begun
// has to end before that.
func (s *run) checkLease() error {
	switch {
	case s.isLeaseLost():
		return ErrLost
	case s.requestTimeout() < leaseSlack:
		return fmt.Errorf("%w%s", errUnrenewed, s.whyUnrenewed())
	default:
		return nil
	}
}

// requestTimeout is how long a request that is begun now may take.
func (r *Runner) requestTimeout() time.Duration {
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

// recordAnswer books the end of an action and says when it may be tried again.
func (s *run) recordAnswer(action nodegroup.Action, answer Answer) {
	s.queueFor(action).inFlight--
	now := s.now()
	attempt := s.attempts[action.Key()]
	attempt.InFlight, attempt.Ended = false, now
	attempt.Outcome, attempt.Detail = answer.Outcome, answer.Detail
	attempt.NotBefore = now.Add(retryDelay(answer, attempt.Tries))
	s.attempts[action.Key()] = attempt
	if nodegroup.OfCloud(action) {
		s.cloudStale = true
		s.requestPollBy(time.Now())
		return
	}
	began := s.localTime(attempt.Begun)
	switch attempt.Outcome {
	case nodegroup.OutcomeUnclear:
		s.recordReachability(began, false, attempt.Detail)
	case nodegroup.OutcomeDone, nodegroup.OutcomeRefused: // what has moved, or comes later, may not have been asked for at all
		s.recordReachability(began, true, "")
	}
}

// retryDelay is how long an action rests after an answer: nothing after success, long after a
// refusal that an event will lift, and from half a second up, doubling, after everything else. An
// object that has moved is no exception: until it is observed again the same request would get the
// same answer.
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

// waitForEvent returns when there is reason to look again.
func (s *run) waitForEvent(ctx, work context.Context, step upgrade.Step) error {
	wake, asked := s.wakeChannels(&step)
	ask := time.NewTimer(time.Until(s.nextQuestionTime(&step)))
	defer ask.Stop()
	select {
	case record := <-s.answers:
		record()
		s.recordWaitingAnswers()
	case <-ask.C:
		s.ask(work, &step)
	case err := <-s.Failures:
		s.recordWatchFailure(err)
	case <-s.Cluster.NodesChanged():
		s.cloudStale = true
		s.requestPollBy(s.lastPoll.Add(cloudAgain))
	case <-s.Cluster.Changed():
		s.gatherEvents(work)
	case <-wake:
	case <-asked:
	case <-s.stopRequested(ctx):
		s.stopping = true
	case <-work.Done():
		return s.describeUnrested(context.Cause(work))
	}
	return nil
}

// describeUnrested adds to the error what an interrupted upgrade was still waiting for.
func (s *run) describeUnrested(cause error) error {
	if !errors.Is(cause, ErrUnrested) {
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

// stopRequested is closed when the upgrade is to come to rest; nil once that is known.
func (s *run) stopRequested(ctx context.Context) <-chan struct{} {
	if s.stopping {
		return nil
	}
	return ctx.Done()
}

// recordWaitingAnswers books the answers that are there.
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

// gatherEvents lets a burst of events pass if a step was taken a moment ago, and takes the answers
// that come with it.
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
