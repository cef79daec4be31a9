package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

const (
	// coalesce is how long events are gathered after a step, in times that the step took, so that
	// steps take a ninth of the time as long as that is no longer than coalesceLimit.
	coalesce      = 8
	coalesceLimit = 20 * time.Millisecond
	// requestLimit ends every request before the lease could be somebody else's.
	requestLimit = 40 * time.Second
	// stopLimit is how long an interrupted upgrade may take to come to rest.
	stopLimit = 10 * time.Second
	// probe is how long a refusal that sends no event is believed; up to as much again is added by
	// lot.
	probe = 30 * time.Second
	// outageLimit is how long an action without answer rests at most, half of it drawn: longer
	// rests would outlast the outage.
	outageLimit = 10 * time.Second
	// leaseSlack is how much of the lease must be left for a request to be begun.
	leaseSlack = 10 * time.Second
	// patience is how long the record may fail to be written before the upgrade gives up.
	patience = 15 * time.Minute
	// remembered is how long the end of an action is kept, at least as long as any rests before its
	// next try.
	remembered = 2 * time.Minute
)

// Observer is the cluster as it is known now; *cluster.Watcher implements it.
type Observer interface {
	View() upgrade.View
	Changed() <-chan struct{}
	NodesChanged() <-chan struct{}
}

// Actor carries out one action; *cluster.Writer implements it for the cluster.
type Actor interface {
	Do(ctx context.Context, action nodegroup.Action) error
}

// Saver stores the record; *cluster.Store implements it.
type Saver interface {
	Save(ctx context.Context, record upgrade.Record) error
}

// Runner carries one upgrade out. All fields but Asks, Lost, Expires, Watch, Polled, Failures and
// Unreached are required.
type Runner struct {
	Request upgrade.Request
	Cluster Observer
	Cloud   cloud.Provider
	Writer  Actor
	Store   Saver
	Asks    Asker
	// Group is the group as it was observed before the run, Record what was stored of an earlier
	// one.
	Group  nodegroup.Group
	Record upgrade.Record
	// Lost is closed when somebody else may write; nothing is written from then on.
	Lost <-chan struct{}
	// Idle is for how long nobody carried the upgrade out before this process had the right to
	// write.
	Idle time.Duration
	// Expires is until when nobody else may write, by the wall clock; nil for ever.
	Expires func() time.Time
	// Watch sees every step as it is decided, from the runner's own goroutine.
	Watch func(upgrade.Step)
	// Polled sees the outcome of each question to the cloud, from the runner's own goroutine.
	Polled func(error)
	// Failures tell why the cluster could not be watched.
	Failures <-chan error
	// Unreached sees why the cluster has taken no change for a while, and "" when it does again,
	// from the runner's own goroutine.
	Unreached func(detail string)
}

// ErrLost is the error of Run when the right to write was lost.
var ErrLost = errors.New("the upgrade's lease was lost to another holder")

// errUnrenewed is the answer to a request that is not made, because the lease may be somebody
// else's soon.
var errUnrenewed = errors.New("the lease has not been renewed for too long")

// ErrUnrested is the error of Run when an interrupted upgrade did not come to rest in time. The
// record holds what was begun, and the same command goes on.
var ErrUnrested = fmt.Errorf("stopped before everything came to rest within %s", stopLimit)

// run is the state of one Run.
type run struct {
	*Runner
	open    map[string]nodegroup.Attempt
	notes   upgrade.Notes
	results chan result
	polls   chan poll
	// cluster and cloud are what was begun and has not ended, by where it goes to.
	cluster lane
	cloud   lane
	polling bool
	// asked is when the cloud was asked last, asks are its last questions, not more than may follow
	// each other.
	asked time.Time
	asks  []time.Time
	// soon is when the cloud is to be asked early, zero for never; doubtful that the answer may be
	// older than a change of ours.
	soon     time.Time
	doubtful bool
	// refusals counts the polls that were refused for good since the last that was not; refused is
	// the last poll's error.
	refusals int
	refused  error
	// silent is since when requests to the API server have no answer, zero while they have; unheard
	// is when the last had none.
	silent, unheard time.Time
	// gaveUp is why the upgrade is being brought to rest though nobody asked for it.
	gaveUp error
	// decided is when the last step was decided, by the wall clock.
	decided time.Time
	// quiet is until when events are gathered.
	quiet time.Time
	shown upgrade.Step
	stop  bool
	// roster is empty when it has to be made anew.
	roster roster
}

type result struct {
	action nodegroup.Action
	answer Answer
}

// Run drives the upgrade until it is finished, the context ends or the lease is lost, and returns
// the record as it was stored last. A context that ends is a wish to stop: nothing new is begun,
// and what is begun has stopLimit to come to rest. How the upgrade ended is in Record.Result; an
// error means that the loop itself could not go on; one that is stuck comes to rest as if it had
// been interrupted.
func (r *Runner) Run(ctx context.Context) (upgrade.Record, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work, cancel := r.working(ctx)
	defer cancel(nil)
	s := &run{
		Runner: r, open: map[string]nodegroup.Attempt{}, asked: r.Group.Observed,
		results: make(chan result, toCluster+toCloud), polls: make(chan poll, 1),
		cluster: lane{room: toCluster}, cloud: lane{room: toCloud},
	}
	record, err := s.loop(ctx, work, stop)
	switch {
	case s.gaveUp == nil:
	case errors.Is(err, ErrUnrested):
		err = fmt.Errorf("%w; %s", s.gaveUp, ErrUnrested.Error()) // it counts as no interrupt
	case err == nil && record.Result == upgrade.Interrupted:
		err = s.gaveUp
	}
	return record, err
}

// loop is Run; stop is called when the upgrade is stuck.
func (s *run) loop(ctx, work context.Context, stop func()) (upgrade.Record, error) {
	for {
		s.send(work)
		step := s.step()
		if step.Persist {
			if err := s.save(work, step.Record); err != nil {
				return s.Record, err
			}
		}
		s.book(&step)
		s.show(step)
		if step.Finished && s.cluster.idle() && s.cloud.idle() {
			return s.Record, nil
		}
		if err := s.stuck(&step); err != nil && s.gaveUp == nil {
			s.gaveUp = err
			stop()
		}
		for _, action := range step.Actions {
			s.begin(action)
		}
		s.send(work)
		if err := s.wait(ctx, work, step); err != nil {
			return s.Record, err
		}
	}
}

// book makes the step's record the one that holds.
func (s *run) book(step *upgrade.Step) {
	if step.Persist {
		s.roster = roster{} // it has the nodes that were started, too
	}
	s.Record, s.notes = step.Record, step.Notes
}

// step decides what to do now.
func (s *run) step() upgrade.Step {
	began := time.Now()
	world := s.world()
	world.Idle = s.idle(world.Now)
	s.decided = world.Now
	step := upgrade.Next(world)
	s.quiet = time.Now().Add(min(coalesce*time.Since(began), coalesceLimit))
	return step
}

// idleAfter is how long nothing was decided when this process counts as not at work meanwhile: it
// was asleep, or could not store its record. A process at work decides twice as often at least.
const idleAfter = time.Minute

// idle is for how long, up to now, nobody was at work.
func (s *run) idle(now time.Time) time.Duration {
	if s.decided.IsZero() {
		return s.Idle
	}
	if gap := now.Sub(s.decided); gap > idleAfter {
		return gap
	}
	return 0
}

// working is the context of everything that is begun. It ends with ErrLost when the right to write
// is lost, and with ErrUnrested when an interrupted upgrade has had its time to come to rest.
func (r *Runner) working(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		var rest <-chan time.Time
		for stopped := ctx.Done(); ; {
			select {
			case <-stopped:
				stopped, rest = nil, time.After(stopLimit)
			case <-rest:
				cancel(ErrUnrested)
			case <-r.Lost:
				cancel(ErrLost)
			case <-work.Done():
				return
			}
		}
	}()
	return work, cancel
}

// save stores the record before anything rests on it. It tries again while the API server cannot be
// reached, since nothing may be done meanwhile anyway.
func (s *run) save(work context.Context, record upgrade.Record) error {
	saving, cancel := context.WithTimeoutCause(work, patience, fmt.Errorf("gave up after %s", patience))
	defer cancel()
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := s.trySave(saving, record)
		switch {
		case err == nil:
			s.reached(true, "")
			return nil
		case errors.Is(err, ErrLost):
			return err
		case errors.Is(err, upgrade.ErrRecordChanged):
			return fmt.Errorf("%w: %w", ErrLost, err)
		case Sort(err).Outcome == nodegroup.OutcomeFatal:
			return err
		}
		if s.overdue() && s.shown.Status.Group != "" {
			s.show(s.shown) // no other step is taken until the record is written
		}
		s.reached(false, Sort(err).Detail)
		select {
		case <-time.After(pause):
		case <-saving.Done():
			return fmt.Errorf("%w: %w", context.Cause(saving), err)
		}
	}
}

func (s *run) trySave(ctx context.Context, record upgrade.Record) error {
	if err := s.mayWrite(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit())
	defer cancel()
	return s.Store.Save(ctx, record)
}

// mayWrite errs when somebody else may write by now, or soon: a request that is begun has to end
// before that.
func (s *run) mayWrite() error {
	switch {
	case s.lost():
		return ErrLost
	case s.limit() < leaseSlack:
		return errUnrenewed
	default:
		return nil
	}
}

// limit is how long a request that is begun now may take.
func (r *Runner) limit() time.Duration {
	if r.Expires == nil {
		return requestLimit
	}
	return min(requestLimit, time.Until(r.Expires()))
}

func (s *run) lost() bool {
	select {
	case <-s.Lost:
		return true
	default:
		return false
	}
}

// settle books the end of an action and says when it may be tried again.
func (s *run) settle(r result) {
	s.lane(r.action).flying--
	now := time.Now().Round(0)
	attempt := s.open[r.action.Key()]
	attempt.InFlight, attempt.Ended = false, now
	attempt.Outcome, attempt.Detail = r.answer.Outcome, r.answer.Detail
	attempt.NotBefore = now.Add(backoff(r.answer, attempt.Tries))
	s.open[r.action.Key()] = attempt
	if nodegroup.OfCloud(r.action) {
		s.doubtful = true
		s.askBy(now)
		return
	}
	switch attempt.Outcome {
	case nodegroup.OutcomeUnclear:
		s.reached(false, attempt.Detail)
	case nodegroup.OutcomeDone, nodegroup.OutcomeRefused: // what has moved, or comes later, may not have been asked for at all
		s.reached(true, "")
	}
}

// backoff is how long an action rests after an answer: nothing after success, long after a refusal
// that an event will lift, and from half a second up, doubling, after everything else. An object
// that has moved is no exception: until it is observed anew the same request would get the same
// answer.
func backoff(answer Answer, tries int) time.Duration {
	switch answer.Outcome {
	case nodegroup.OutcomeDone:
		return 0
	case nodegroup.OutcomeRefused, nodegroup.OutcomeExhausted:
		return max(answer.After, probe+rand.N(probe))
	default:
		limit := probe
		if answer.Outcome == nodegroup.OutcomeUnclear {
			limit = outageLimit
		}
		base := min(500*time.Millisecond<<min(tries-1, 6), limit)
		return max(answer.After, base/2+rand.N(base))
	}
}

// wait returns when there is reason to look again.
func (s *run) wait(ctx, work context.Context, step upgrade.Step) error {
	wake, asked := s.reasons(&step)
	ask := time.NewTimer(time.Until(s.nextPoll(step)))
	defer ask.Stop()
	select {
	case r := <-s.results:
		s.settle(r)
		s.settleAll()
	case p := <-s.polls:
		s.take(p)
	case <-ask.C:
		s.pollCloud(work)
	case err := <-s.Failures:
		s.unwatched(err)
	case <-s.Cluster.NodesChanged():
		s.doubtful = true
		s.askBy(s.asked.Add(cloudAgain))
	case <-s.Cluster.Changed():
		s.gather(work)
	case <-wake:
	case <-asked:
	case <-s.stopped(ctx):
		s.stop = true
	case <-work.Done():
		return context.Cause(work)
	}
	return nil
}

// stopped is closed when the upgrade is to come to rest; nil once that is known.
func (s *run) stopped(ctx context.Context) <-chan struct{} {
	if s.stop {
		return nil
	}
	return ctx.Done()
}

// settleAll books the answers that are there.
func (s *run) settleAll() {
	for {
		select {
		case r := <-s.results:
			s.settle(r)
		default:
			return
		}
	}
}

// gather lets a burst of events pass if a step was taken a moment ago, and takes the answers that
// come with it.
func (s *run) gather(work context.Context) {
	pause := time.NewTimer(time.Until(s.quiet))
	defer pause.Stop()
	for {
		select {
		case r := <-s.results:
			s.settle(r)
		case p := <-s.polls:
			s.take(p)
		case <-pause.C:
			return
		case <-work.Done():
			return
		}
	}
}
