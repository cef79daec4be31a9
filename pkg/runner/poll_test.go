package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// observe runs an upgrade for a while, calls look, and stops the upgrade.
func (s *site) observe(t *testing.T, r *Runner, look func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if record, err := r.Run(ctx); err != nil && !errors.Is(err, ErrNotStoppedInTime) || record.Run == "" {
			t.Errorf("run %q ended with error %v", record.Run, err)
		}
	}()
	look()
	cancel()
	<-ended
}

// lastTwo returns the last two readings.
func lastTwo(at []time.Duration) []time.Duration { return at[len(at)-2:] }

// pauses returns the times between readings, from the given moment on.
func pauses(at []time.Duration, from time.Duration) []time.Duration {
	var between []time.Duration
	for i := 1; i < len(at); i++ {
		if at[i-1] >= from {
			between = append(between, at[i]-at[i-1])
		}
	}
	return between
}

func TestCloudIsPolledOftenWhileInstanceIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.onDo = func(_ context.Context, a nodegroup.Action) error {
			if _, ok := a.(nodegroup.AddCapacity); ok {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.instances["i-stuck"] = nodegroup.Instance{ID: "i-stuck", Zone: "a", State: nodegroup.InstancePending}
				return connectionError(errors.New("no answer")) // the instance exists and never becomes a node
			}
			return nil
		}
		s.observe(t, s.runner(surge(1)), func() { time.Sleep(5 * time.Minute) })
		between := pauses(s.times("observe"), 2*time.Minute)
		if len(between) < 10 {
			t.Fatalf("asked %d times in three minutes", len(between))
		}
		for _, pause := range between {
			if most := 5 * time.Second; pause > most {
				t.Errorf("%s between two questions, want at most %s", pause, most)
			}
		}
	})
}

// TestCloudIsPolledSeldomWhileDrainWaits has a drain that waits for its budget, while nothing is in
// progress in the cloud.
func TestCloudIsPolledSeldomWhileDrainWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.budgets = closedBudgets()
		s.addPods("old-1", 1)
		s.observe(t, s.runner(), func() {
			time.Sleep(10*time.Minute + 30*time.Second)
			synctest.Wait()
			between := pauses(s.times("observe"), 0)
			if len(between) < 8 {
				t.Fatalf("asked at %v", s.times("observe"))
			}
			for _, pause := range between {
				if pause != cloudIdleInterval {
					t.Errorf("%s between two questions, want %s", pause, cloudIdleInterval)
				}
			}
			before := time.Since(s.began)
			signal(s.nodesChanged)
			time.Sleep(2 * cloudRepeatPause)
			synctest.Wait()
			if at := lastTwo(s.times("observe")); at[0] != before || at[1] != before+cloudRepeatPause {
				t.Errorf("a node changed at %s, the cloud was asked at %s, want at once and %s later", before, at, cloudRepeatPause)
			}
		})
	})
}

// TestCloudIsPolledTwiceAfterLaunch checks that the cloud is read right after a launch was answered, and
// again a second later, because the first reading may not show the launch.
func TestCloudIsPolledTwiceAfterLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		var launched time.Duration
		s.onDo = func(_ context.Context, a nodegroup.Action) error {
			if _, ok := a.(nodegroup.AddCapacity); ok {
				launched = time.Since(s.began)
			}
			return nil
		}
		s.observe(t, s.runner(surge(1)), func() { time.Sleep(30 * time.Second) })
		var after []time.Duration
		for _, at := range s.times("observe") {
			if at >= launched && len(after) < 2 {
				after = append(after, at)
			}
		}
		if len(after) < 2 || after[0] > launched+MinCloudInterval || after[1] != after[0]+cloudRepeatPause {
			t.Errorf("launched at %s, the cloud was asked at %s: want at once, and %s later", launched, after, cloudRepeatPause)
		}
	})
}

// TestConstantNodeChangesDoNotDelayPolls checks that constant changes of nodes do not delay the next reading
// forever.
func TestConstantNodeChangesDoNotDelayPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.budgets = closedBudgets()
		s.addPods("old-1", 1)
		s.observe(t, s.runner(), func() {
			for range 600 {
				time.Sleep(cloudRepeatPause / 2)
				signal(s.nodesChanged)
			}
		})
		if asked := len(s.times("observe")); asked < 4 {
			t.Errorf("asked %d times in five minutes, want once a minute or more", asked)
		}
	})
}

func TestUpgradeContinuesIfCloudIsSilent(t *testing.T) {
	silence := errors.New("no route to host")
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 2)
		s.addPods("old-1", 1)
		from, to := 3*time.Second, 200*time.Second
		s.onObserve = func() error {
			if at := time.Since(s.began); at > from && at < to {
				return silence
			}
			return nil
		}
		r := s.runner(surge(1))
		r.Watch = func(step upgrade.Step) {
			if step.Status.Group != "workers" || step.Status.Desired == 0 {
				t.Errorf("a step was taken on what a failed poll returned: %+v", step.Status)
			}
		}
		runToSuccess(t, r)
		if time.Since(s.began) < to {
			t.Errorf("ended after %s without an answer of the cloud", time.Since(s.began))
		}
		failed := 0
		for _, err := range s.polled {
			if errors.Is(err, silence) {
				failed++
			}
		}
		if failed < 10 || failed == len(s.polled) {
			t.Errorf("%d of %d polls were reported as failed", failed, len(s.polled))
		}
	})
}

func TestPollsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		const long = 17 * time.Second
		asking := false
		s.onObserve = func() error {
			s.mu.Lock()
			if asking {
				t.Error("asked again before the answer")
			}
			asking = true
			s.mu.Unlock()
			time.Sleep(long)
			s.mu.Lock()
			asking = false
			s.mu.Unlock()
			return nil
		}
		runToSuccess(t, s.runner(surge(1)))
		time.Sleep(long) // the last reading may end after the upgrade
	})
}

// TestPollsWithoutPauseAreLimited checks that only a few readings may follow each other without a
// pause.
func TestPollsWithoutPauseAreLimited(t *testing.T) {
	now := time.Now()
	ago := func(ages ...time.Duration) (asks []time.Time) {
		for _, age := range ages {
			asks = append(asks, now.Add(-age*time.Millisecond))
		}
		return asks
	}
	cases := map[string]struct {
		asks []time.Time
		want time.Duration
	}{
		"never asked":             {nil, 0},
		"asked thrice just now":   {ago(2, 1, 0), 0},
		"asked often a while ago": {ago(1300, 1200, 1100, 1000), 0},
		"asked often just now":    {ago(300, 200, 100, 0), cloudBurst*MinCloudInterval - 300*time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &run{recentPolls: c.asks}
			s.requestPollBy(now)
			if got := s.pollAt.Sub(now); got != c.want {
				t.Errorf("asked %s later, want %s", got, c.want)
			}
		})
	}
}
