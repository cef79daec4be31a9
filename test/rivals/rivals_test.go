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

// TestSample upgrades four groups beside rivals that begin early, and a fifth whose record is lost; "make rivals" upgrades twenty of
// each.
func TestSample(t *testing.T) {
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

func TestDraw(t *testing.T) {
	heeded, grown := 0, 0
	for seed := range uint64(100) {
		deeds := draw(seed)
		if !reflect.DeepEqual(deeds, draw(seed)) {
			t.Fatalf("seed %d draws other deeds the second time", seed)
		}
		if len(deeds) < 3 || !slices.IsSortedFunc(deeds, func(a, b deed) int { return int(a.at - b.at) }) {
			t.Errorf("seed %d draws %v", seed, deeds)
		}
		for _, d := range deeds {
			if d.change == 0 || max(d.change, -d.change) > 2 {
				t.Errorf("seed %d draws %v", seed, d)
			}
			if d.heeds {
				heeded++
			}
			if d.change > 0 {
				grown++
			}
		}
	}
	if heeded < 100 || grown < 100 {
		t.Errorf("%d deeds of an autoscaler, %d that grow the group: too few to try anything", heeded, grown)
	}
}

func TestDeedString(t *testing.T) {
	cases := map[string]struct {
		deed deed
		want string
	}{
		"grown":         {deed{at: 1500 * time.Millisecond, change: 2, landed: 2}, "+2 at 1.5s"},
		"no room":       {deed{at: time.Second, change: 2, landed: 1, note: "its max is 7"}, "+2 at 1s (+1 landed: its max is 7)"},
		"by autoscaler": {deed{at: time.Second, change: -1, heeds: true, landed: -1}, "-1 at 1s"},
		"by a person":   {deed{at: time.Second, change: -1, landed: -1}, "-1 at 1s by hand"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.deed.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// whole returns a group with n instances in service.
func whole(n int) awscloud.GroupStatus {
	return awscloud.GroupStatus{
		Min: 2, Max: 6, Desired: n,
		Instances: slices.Repeat([]awscloud.InstanceStatus{{State: at.LifecycleStateInService}}, n),
	}
}

func TestFaults(t *testing.T) {
	good := func() (end, outcome) {
		return end{record: record.Record{Result: record.Succeeded}, group: whole(6)}, outcome{before: whole(6)}
	}
	owing := ledger.FromBooks(ledger.Books{Zones: map[string]ledger.Zone{"a": {Launched: 1}}})
	cases := map[string]struct {
		change func(*end, *outcome)
		want   string // a part of the only fault, "" for none
	}{
		"as before":     {func(*end, *outcome) {}, ""},
		"it failed":     {func(_ *end, o *outcome) { o.code = 1 }, "ended with 1"},
		"one was taken": {func(e *end, o *outcome) { e.group = whole(5); o.deeds = []deed{{change: -1, landed: -1}} }, ""},
		"one too many":  {func(e *end, _ *outcome) { e.group = whole(7) }, "desired size 7, want 6 +0 by the rival +0 kept"},
		"kept, and said": {func(e *end, _ *outcome) {
			e.group, e.record.Ledger, e.record.Message = whole(7), owing, "the group keeps 1 more nodes"
		}, ""},
		"kept, and not said": {func(e *end, _ *outcome) { e.group, e.record.Ledger = whole(7), owing }, "not spoken of"},
		"max, and said":      {func(e *end, _ *outcome) { e.group.Max, e.group.Min = 6, 2; e.record.Message = "max stays at 6" }, ""},
		"max, and not said":  {func(e *end, _ *outcome) { e.group.Max = 8 }, "max 8, want 6"},
		"min":                {func(e *end, _ *outcome) { e.group.Min = 0 }, "min 0, want 2"},
		"suspended":          {func(e *end, _ *outcome) { e.group.Suspended = []string{"AZRebalance"} }, "AZRebalance is suspended"},
		"suspended, and said": {func(e *end, _ *outcome) {
			e.group.Suspended = []string{"AZRebalance"}
			e.record.Message = "AZRebalance stays suspended"
		}, ""},
		"an outdated node":     {func(e *end, _ *outcome) { e.outdated = []string{"a"} }, "outdated: a"},
		"a mark":               {func(e *end, _ *outcome) { e.marked = []string{"a a cordon"} }, "left on nodes"},
		"a loaded node":        {func(e *end, _ *outcome) { e.taken = []string{"web-1"} }, "web-1"},
		"a lease":              {func(e *end, _ *outcome) { e.holder = "x" }, "x holds the lease"},
		"a pod that is not up": {func(e *end, _ *outcome) { e.unsettled = "web-1" }, "web-1"},
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

func TestSummarize(t *testing.T) {
	well := outcome{deeds: []deed{{change: 1, landed: 1}}}
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
