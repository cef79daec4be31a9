package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// closedBudgets returns a budget over the pods of a site that allows no eviction at the moment.
func closedBudgets() []*policyv1.PodDisruptionBudget {
	return []*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(3, 2, 2))}
}

// runToSuccess runs an upgrade that must succeed.
func runToSuccess(t *testing.T, r *Runner) record.Record {
	t.Helper()
	rec, err := r.Run(t.Context())
	if err != nil || rec.Result != record.Succeeded {
		t.Fatalf("ended %q (%s) with error %v, want %q", rec.Result, rec.Message, err, record.Succeeded)
	}
	return rec
}

// TestRunReplacesEveryNode runs a whole upgrade. The site checks that the runner stores the record before each action that
// depends on it.
func TestRunReplacesEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3)
		s.addPods("old-1", 2)
		s.addPods("old-3", 1)
		rec := runToSuccess(t, s.runner(surge(2)))
		if rec.Replaced != 3 || rec.Total != 3 || s.desired != 3 {
			t.Errorf("%d of %d replaced, desired size %d, want 3 of 3 and 3", rec.Replaced, rec.Total, s.desired)
		}
		for name := range s.nodes {
			if strings.HasPrefix(name, "old-") {
				t.Errorf("node %s is still there", name)
			}
		}
		want := map[string]int{"add": 3, "fence": 3, "start draining": 3, "evict": 3, "terminate": 3, "observe workers to 7": len(s.polled)}
		for what, n := range want {
			if got := len(s.times(what)); got != n {
				t.Errorf("%d times %q, want %d", got, what, n)
			}
		}
		if s.saved.Result != record.Succeeded || !s.last().Finished {
			t.Errorf("the record says %q", s.saved.Result)
		}
	})
}

func TestRunWithNothingToDoSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 0)
		runToSuccess(t, s.runner())
		if len(s.notes) > 0 {
			t.Errorf("asked for %v, want nothing", s.notes)
		}
	})
}

// TestActionInFlightIsNotBegunAgain makes many events happen while answers are missing. The site reports actions that begin
// twice.
func TestActionInFlightIsNotBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.addPods("old-1", 3)
		s.onDo = func(ctx context.Context, a nodegroup.Action) error {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) != requestLimit {
				t.Errorf("%s may take %s, want %s", a, time.Until(deadline), requestLimit)
			}
			for range 20 {
				signal(s.changed)
				time.Sleep(time.Second)
			}
			return ctx.Err()
		}
		runToSuccess(t, s.runner(surge(1)))
		if len(s.steps) < 100 {
			t.Errorf("%d steps, want one for each of the changes", len(s.steps))
		}
	})
}

func TestRequestsInFlightAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, maxClusterRequests+1)
		s.onDo = func(context.Context, nodegroup.Action) error { time.Sleep(time.Second); return nil }
		runToSuccess(t, s.runner(surge(1)))
		if s.most != maxClusterRequests { // fences
			t.Errorf("%d requests were in flight at once, want %d", s.most, maxClusterRequests)
		}
	})
}

// TestRequestsWaitForFreeSlots checks that requests above the limit are sent as soon as others end. If many nodes are empty, the last
// one is terminated right after the first, and not only when a timeout is noticed.
func TestRequestsWaitForFreeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = maxCloudRequests + 1
		s := newSite(t, nodes)
		s.onDo = func(_ context.Context, a nodegroup.Action) error {
			if _, ok := a.(nodegroup.Terminate); ok {
				time.Sleep(time.Second)
			}
			return nil
		}
		runToSuccess(t, s.runner(surge(1), func(r *record.Request) { r.Window, r.MaxUnavailable = nodes, nodes }))
		at := s.times("terminate")
		if len(at) != nodes || at[maxCloudRequests-1] != at[0] || at[maxCloudRequests] != at[0]+time.Second {
			t.Errorf("terminated at %s, want %d together and the last a second later", at, maxCloudRequests)
		}
	})
}

func TestFailedSaveIsRetriedBeforeActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		left := 4
		s.onSave = func(context.Context, record.Record) error {
			if left == 0 {
				return nil
			}
			left--
			return apierrors.NewServiceUnavailable("etcd has no leader")
		}
		runToSuccess(t, s.runner(surge(1)))
		want := []time.Duration{0, 250 * time.Millisecond, 750 * time.Millisecond, 1750 * time.Millisecond, 3750 * time.Millisecond}
		if got := s.times("save")[:5]; !slices.Equal(got, want) {
			t.Errorf("saved at %v, want at %v", got, want)
		}
		if first := s.times("add")[0]; first < want[4] {
			t.Errorf("a node was added after %s, before the record was stored", first)
		}
	})
}

// TestDecisionsAreMadeAgainIfSaveIsSlow checks that a decision whose record was stored late is made again. The cluster may have
// changed in between, or the user may have interrupted the upgrade.
func TestDecisionsAreMadeAgainIfSaveIsSlow(t *testing.T) {
	for name, interrupted := range map[string]bool{"and went on": false, "and was interrupted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 1)
				s.addPods("old-1", 1)
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				s.onSave = func(_ context.Context, record record.Record) error {
					if record.Begun > 0 && len(s.times("start draining")) == 0 && len(s.budgets) == 0 {
						s.budgets = closedBudgets() // no pod may be evicted any more
						if interrupted {
							interrupt()
						}
						time.Sleep(staleDecision + time.Second)
					}
					return nil
				}
				_, err := s.runner(surge(0), func(r *record.Request) { r.DrainTimeout = record.Duration{Duration: time.Minute} }).Run(ctx)
				if n := len(s.times("evict")); n > 0 {
					t.Errorf("%d pods were evicted by a decision of before, and it ended with %v", n, err)
				}
				if n := len(s.times("start draining")); interrupted && n > 0 {
					t.Errorf("%d nodes were started after the interruption", n)
				}
			})
		})
	}
}

// TestFailedSaveStopsRunWithoutActions has the answers after which the record is not written again and no action is sent.
func TestFailedSaveStopsRunWithoutActions(t *testing.T) {
	forbidden := apierrors.NewForbidden(nodes, "x", errors.New("no"))
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	cases := map[string]struct {
		save  func(context.Context) error
		want  error
		after time.Duration
		tries int
	}{
		"somebody else wrote it":          {func(context.Context) error { return record.ErrChanged }, ErrLost, 0, 1},
		"it may not be written":           {func(context.Context) error { return forbidden }, forbidden, 0, 1},
		"no answer ever":                  {hang, context.DeadlineExceeded, saveLimit, 21},
		"never written":                   {func(context.Context) error { return http.ErrHandlerTimeout }, http.ErrHandlerTimeout, saveLimit, 184},
		"somebody else wrote it, wrapped": {func(context.Context) error { return fmt.Errorf("x: %w", record.ErrChanged) }, record.ErrChanged, 0, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 1)
				s.onSave = func(ctx context.Context, _ record.Record) error { return c.save(ctx) }
				record, err := s.runner().Run(t.Context())
				if !errors.Is(err, c.want) || record.Run != "" {
					t.Errorf("got run %q and error %v, want none and %v", record.Run, err, c.want)
				}
				if took := time.Since(s.began); took != c.after {
					t.Errorf("gave up after %s, want %s", took, c.after)
				}
				if saves := len(s.times("save")); saves != c.tries || len(s.notes) != saves {
					t.Errorf("%d writes, want %d, and nothing else: %v", saves, c.tries, s.notes)
				}
			})
		})
	}
}

func TestRunEndsImmediatelyWhenLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.addPods("old-1", 2*maxClusterRequests)
		s.onDo = func(ctx context.Context, a nodegroup.Action) error {
			if strings.HasPrefix(a.Key(), "evict/") {
				<-ctx.Done() // a server that does not answer
			}
			return ctx.Err()
		}
		const when = 30 * time.Second
		time.AfterFunc(when, func() { close(s.lost) })
		_, err := s.runner().Run(t.Context())
		if !errors.Is(err, ErrLost) || time.Since(s.began) != when {
			t.Errorf("got error %v after %s, want %v after %s", err, time.Since(s.began), ErrLost, when)
		}
		synctest.Wait()
		if asked := len(s.times("evict")); asked != maxClusterRequests {
			t.Errorf("%d evictions were sent, want the %d before the lease was lost", asked, maxClusterRequests)
		}
		if saves := s.times("save"); saves[len(saves)-1] >= when {
			t.Error("the record was written after the lease was lost")
		}
	})
}

// TestUnrenewedLeaseDelaysRequests stops the renewals of the lease for a while, as when a laptop sleeps. Another process may
// then have taken the lease, so nothing may be sent until it is renewed.
func TestUnrenewedLeaseDelaysRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 2)
		s.addPods("old-1", 2)
		s.addPods("old-2", 2)
		r := s.runner()
		const gap, again = 2 * time.Second, 90 * time.Second
		r.Expires = func() time.Time {
			if since := time.Since(s.began); since >= gap && since < again {
				return s.began.Add(gap + leaseSlack - time.Second)
			}
			return time.Now().Add(time.Minute)
		}
		runToSuccess(t, r)
		resumed := false
		for _, n := range s.notes {
			read := strings.HasPrefix(n.what, "observe")
			if !read && n.at >= gap && n.at < again {
				t.Errorf("%s is sent after %s, with the lease not renewed from %s to %s", n.what, n.at, gap, again)
			}
			resumed = resumed || (!read && n.at >= again)
		}
		if !resumed {
			t.Error("nothing was left to be done once the lease was renewed")
		}
	})
}

// TestRequestsTimeOutBeforeLeaseExpires checks that a request gets at most the time that is left of the lease.
func TestRequestsTimeOutBeforeLeaseExpires(t *testing.T) {
	s := &run{Runner: &Runner{RenewalError: func() error { return nil }, Expires: func() time.Time { return time.Now().Add(time.Hour) }}}
	if got := s.timeoutOfNextRequest(); got != requestLimit {
		t.Errorf("%s with an hour left, want %s", got, requestLimit)
	}
	for left, want := range map[time.Duration]error{time.Hour: nil, leaseSlack + time.Second: nil, leaseSlack - time.Second: errLeaseNotRenewed, -time.Hour: errLeaseNotRenewed} {
		s.Expires = func() time.Time { return time.Now().Add(left) }
		if got := s.checkLease(); !errors.Is(got, want) || s.timeoutOfNextRequest() > min(left, requestLimit) {
			t.Errorf("with %s left: %v, and %s for a request", left, got, s.timeoutOfNextRequest())
		}
	}
}

func TestLostLeaseCancelsSaveOfRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.onSave = func(ctx context.Context, _ record.Record) error { <-ctx.Done(); return ctx.Err() }
		time.AfterFunc(time.Second, func() { close(s.lost) })
		if _, err := s.runner().Run(t.Context()); !errors.Is(err, ErrLost) || time.Since(s.began) != time.Second {
			t.Errorf("got error %v after %s, want %v after 1s", err, time.Since(s.began), ErrLost)
		}
	})
}

// runInterrupted runs an upgrade and interrupts it after a while. It returns how long it took to stop.
func (s *site) runInterrupted(t *testing.T, r *Runner, after time.Duration) (record.Record, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(after, cancel)
	record, err := r.Run(ctx)
	return record, time.Since(s.began) - after, err
}

func TestInterruptedRunWaitsForActionsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3)
		s.addPods("old-1", 1)
		s.onDo = func(ctx context.Context, a nodegroup.Action) error {
			if strings.HasPrefix(a.Key(), "evict/") {
				time.Sleep(8 * time.Second) // in flight when the user interrupts; the runner waits for its answer
			}
			return ctx.Err()
		}
		const when = 5 * time.Second
		rec, took, err := s.runInterrupted(t, s.runner(), when)
		if err != nil || rec.Result != record.Interrupted || s.saved.Result != record.Interrupted {
			t.Errorf("ended %q, stored %q, error %v, want %q", rec.Result, s.saved.Result, err, record.Interrupted)
		}
		if took <= 0 || took > stopLimit {
			t.Errorf("it took %s, want some time and at most %s", took, stopLimit)
		}
		for _, n := range s.notes {
			if n.at >= when && n.what != "save" && !strings.HasPrefix(n.what, "unfence") {
				t.Errorf("%s after the stop: %s", n.at-when, n.what)
			}
		}
		if got := len(s.times("unfence")); got != 2 {
			t.Errorf("%d nodes were unfenced, want the 2 that were not started", got)
		}
		if n := rec.Nodes["old-1"]; n.State != record.NodeDraining {
			t.Errorf("the node that was started is %q in the record", n.State)
		}
	})
}

func TestInterruptedRunEndsAtLimitWithUnfinishedActions(t *testing.T) {
	refuse := func(context.Context) error { return apierrors.NewServiceUnavailable("down") }
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	cases := map[string]struct {
		unfence, save func(context.Context) error
	}{
		"a node cannot be unfenced":            {unfence: refuse},
		"no answer to an unfence":              {unfence: hang},
		"the record cannot be written":         {save: refuse},
		"no answer to the write of the record": {save: hang},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const when = 5 * time.Second
				s := newSite(t, 2)
				s.budgets = closedBudgets()
				s.addPods("old-1", 1)
				s.onDo = func(ctx context.Context, a nodegroup.Action) error {
					if _, ok := a.(nodemark.Unfence); ok && c.unfence != nil {
						return c.unfence(ctx)
					}
					return nil
				}
				s.onSave = func(ctx context.Context, _ record.Record) error {
					if time.Since(s.began) >= when && c.save != nil {
						return c.save(ctx)
					}
					return nil
				}
				record, took, err := s.runInterrupted(t, s.runner(), when)
				if !errors.Is(err, ErrNotStoppedInTime) || took != stopLimit {
					t.Errorf("got error %v after %s, want %v after %s", err, took, ErrNotStoppedInTime, stopLimit)
				}
				if record.Run != "r1" || record.Result != "" {
					t.Errorf("the record is of run %q and ended %q, want one to go on with", record.Run, record.Result)
				}
			})
		})
	}
}

// TestFatalAnswerEndsTheUpgrade waits for missing answers, and decides no step in that time.
func TestFatalAnswerEndsTheUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.addPods("old-1", 2)
		s.onDo = func(ctx context.Context, a nodegroup.Action) error {
			switch a.Key() {
			case "evict/old-1-web-0":
				return apierrors.NewForbidden(pods, "old-1-web-0", errors.New("no permission"))
			case "evict/old-1-web-1":
				time.Sleep(30 * time.Second)
			}
			return ctx.Err()
		}
		rec, err := s.runner().Run(t.Context())
		if err != nil || rec.Result != record.Failed || !strings.Contains(rec.Message, "no permission") {
			t.Errorf("ended %q (%s) with error %v", rec.Result, rec.Message, err)
		}
		if took := time.Since(s.began); took < 30*time.Second {
			t.Errorf("ended after %s, without the answer that was still out", took)
		}
		if len(s.steps) > 50 {
			t.Errorf("%d steps, most of them with nothing new to see", len(s.steps))
		}
	})
}

func TestBurstOfEventsIsOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.budgets = closedBudgets()
		s.addPods("old-1", 1)
		s.observe(t, s.runner(), func() {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			before := len(s.steps)
			const bursts, each = 5, 100
			for range bursts {
				for range each {
					signal(s.changed)
					time.Sleep(coalesceFactor / each)
				}
				time.Sleep(time.Second)
			}
			synctest.Wait()
			// All changes between two steps lead to one more step, never to one for each change.
			if steps := len(s.steps) - before; steps < bursts || steps > 3*bursts {
				t.Errorf("%d steps for %d bursts of %d changes", steps, bursts, each)
			}
		})
	})
}

func TestRefusedEvictionIsNotRetriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.addPods("old-1", 1)
		var asked atomic.Int32
		s.onDo = func(_ context.Context, a nodegroup.Action) error {
			if strings.HasPrefix(a.Key(), "evict/") && asked.Add(1) < 4 {
				return overBudget("a budget that the watch does not show", 0)
			}
			return nil
		}
		runToSuccess(t, s.runner(surge(1)))
		at := s.times("evict")
		if len(at) != 4 {
			t.Fatalf("%d evictions at %v, want 4", len(at), at)
		}
		for i := 1; i < len(at); i++ {
			if pause := at[i] - at[i-1]; pause < refusalDelay || pause > 2*refusalDelay+time.Second {
				t.Errorf("asked again after %s, want %s to %s", pause, refusalDelay, 2*refusalDelay)
			}
		}
	})
}

// TestActionWithLostAnswerIsNotRepeated loses the answer of a successful eviction.
func TestActionWithLostAnswerIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 2)
		s.addPods("old-1", 1)
		s.onDo = func(_ context.Context, a nodegroup.Action) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if _, ok := a.(schedule.Eviction); !ok {
				return nil
			}
			s.effect(a)
			return connectionError(errors.New("connection reset"))
		}
		runToSuccess(t, s.runner(surge(1)))
		if n := len(s.times("evict")); n != 1 {
			t.Errorf("%d evictions, want 1: the pod is seen to be gone", n)
		}
	})
}
