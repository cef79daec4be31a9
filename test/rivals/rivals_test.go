package main

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestSampledUpgradesSurviveConcurrentResizes runs four upgrades with rivals that begin early, and one upgrade whose record is lost.
// "make rivals" runs twenty of each.
func TestSampledUpgradesSurviveConcurrentResizes(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	s, err := fixture.NewShared(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Run("of both", func(t *testing.T) {
		for name, o := range map[string]options{"rivals": {n: 4, atOnce: 2, seed: 14}, "a lost record": {n: 1, atOnce: 1, seed: 2, lost: true}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				outcomes, err := o.runAll(t.Context(), s, t.Output())
				if err != nil {
					t.Fatal(err)
				}
				if err := summarize(t.Output(), outcomes, 0); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestSameSeedGivesSameResizes(t *testing.T) {
	respecting, grown := 0, 0
	for seed := range uint64(100) {
		resizes := drawResizes(seed)
		if !reflect.DeepEqual(resizes, drawResizes(seed)) {
			t.Fatalf("seed %d gives two different lists of resizes", seed)
		}
		if len(resizes) < 3 || !slices.IsSortedFunc(resizes, func(a, b resize) int { return int(a.at - b.at) }) {
			t.Errorf("seed %d draws %v", seed, resizes)
		}
		for _, d := range resizes {
			if d.change == 0 || max(d.change, -d.change) > 2 {
				t.Errorf("seed %d draws %v", seed, d)
			}
			if d.respectsAnnotation {
				respecting++
			}
			if d.change > 0 {
				grown++
			}
		}
	}
	if respecting < 100 || grown < 100 {
		t.Errorf("only %d resizes respect the annotation, and only %d grow the group", respecting, grown)
	}
}

func TestResizeIsDescribedWithAppliedChangeAndActor(t *testing.T) {
	cases := map[string]struct {
		deed resize
		want string
	}{
		"grown":         {resize{at: 1500 * time.Millisecond, change: 2, applied: 2}, "+2 at 1.5s"},
		"no room":       {resize{at: time.Second, change: 2, applied: 1, note: "its max is 7"}, "+2 at 1s (+1 landed: its max is 7)"},
		"by autoscaler": {resize{at: time.Second, change: -1, respectsAnnotation: true, applied: -1}, "-1 at 1s"},
		"by a person":   {resize{at: time.Second, change: -1, applied: -1}, "-1 at 1s by hand"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.deed.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// groupInService returns a group with n instances in service.
func groupInService(n int) awscloud.GroupStatus {
	return awscloud.GroupStatus{
		Min: 2, Max: 6, Desired: n,
		Instances: slices.Repeat([]awscloud.InstanceStatus{{State: at.LifecycleStateInService}}, n),
	}
}

func TestFaultsOfFinalStateAreFound(t *testing.T) {
	good := func() (finalState, outcome) {
		return finalState{record: record.Record{Result: record.Succeeded}, group: groupInService(6)}, outcome{before: groupInService(6)}
	}
	owing := ledger.FromBooks(ledger.Books{Zones: map[string]ledger.Zone{"a": {Launched: 1}}})
	cases := map[string]struct {
		change func(*finalState, *outcome)
		want   string // a part of the only fault, "" for none
	}{
		"as before": {func(*finalState, *outcome) {}, ""},
		"it failed": {func(_ *finalState, o *outcome) { o.code = 1 }, "ended with 1"},
		"one was taken": {func(e *finalState, o *outcome) {
			e.group = groupInService(5)
			o.resizes = []resize{{change: -1, applied: -1}}
		}, ""},
		"one too many": {func(e *finalState, _ *outcome) { e.group = groupInService(7) }, "desired size 7, want 6 +0 by the rival +0 kept"},
		"kept, and said": {func(e *finalState, _ *outcome) {
			e.group, e.record.Ledger, e.record.Message = groupInService(7), owing, "the group keeps 1 more nodes"
		}, ""},
		"kept, and not said": {func(e *finalState, _ *outcome) { e.group, e.record.Ledger = groupInService(7), owing }, "not spoken of"},
		"max, and said":      {func(e *finalState, _ *outcome) { e.group.Max, e.group.Min = 6, 2; e.record.Message = "max stays at 6" }, ""},
		"max, and not said":  {func(e *finalState, _ *outcome) { e.group.Max = 8 }, "max 8, want 6"},
		"min":                {func(e *finalState, _ *outcome) { e.group.Min = 0 }, "min 0, want 2"},
		"suspended":          {func(e *finalState, _ *outcome) { e.group.Suspended = []string{"AZRebalance"} }, "AZRebalance is suspended"},
		"suspended, and said": {func(e *finalState, _ *outcome) {
			e.group.Suspended = []string{"AZRebalance"}
			e.record.Message = "AZRebalance stays suspended"
		}, ""},
		"an outdated node":     {func(e *finalState, _ *outcome) { e.outdated = []string{"a"} }, "outdated: a"},
		"a mark":               {func(e *finalState, _ *outcome) { e.marked = []string{"a a cordon"} }, "left on nodes"},
		"a loaded node":        {func(e *finalState, _ *outcome) { e.podsOnTerminated = []string{"web-1"} }, "web-1"},
		"a lease":              {func(e *finalState, _ *outcome) { e.holder = "x" }, "x holds the lease"},
		"a pod that is not up": {func(e *finalState, _ *outcome) { e.unsettled = "web-1" }, "web-1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e, o := good()
			c.change(&e, &o)
			faults := e.faults(&o)
			if got := strings.Join(faults, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) || len(faults) > 1 {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSummaryFailsIfOneUpgradeHasFaults(t *testing.T) {
	well := outcome{resizes: []resize{{change: 1, applied: 1}}}
	cases := map[string]struct {
		outcomes []outcome
		fails    bool
	}{
		"all":               {[]outcome{well, {}}, false},
		"one of two":        {[]outcome{well, {faults: []string{"x"}}}, true},
		"nothing was tried": {[]outcome{{}, {}}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := summarize(&out, c.outcomes, time.Second); (err != nil) != c.fails {
				t.Errorf("got %v with %q", err, out.String())
			}
		})
	}
}
