package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestSampledUpgradesSurviveInterruption interrupts three small upgrades at two points each: a usual one, one by EKS, and a blue-green one.
// "make crash" tries every point of larger upgrades.
func TestSampledUpgradesSurviveInterruption(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	s, err := fixture.NewShared(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	t.Run("driven", func(t *testing.T) {
		t.Parallel()
		c := setup{counts: []int{2, 1}}
		writes, err := c.runUndisturbed(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		c.runSample(t, s, samplePoints(t, writes))
	})
	t.Run("blue-green", func(t *testing.T) {
		t.Parallel()
		c := setup{counts: []int{1, 1}, strategy: string(record.BlueGreen)}
		writes, err := c.runUndisturbed(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		drained, deleted := indexOfFirstWrite(t, writes, "/eviction"), indexOfFirstWrite(t, writes, "TerminateInstanceInAutoScalingGroup")
		outcomes := c.runSample(t, s, []point{{deleted, loseAnswer}, {drained, rollback}})
		if outcomes[1].carriedOut != record.VerbRollback {
			t.Error("the upgrade was not rolled back during the drain")
		}
	})
	t.Run("managed", func(t *testing.T) {
		t.Parallel()
		c := setup{counts: []int{1, 1}, managed: true}
		for _, o := range c.runSample(t, s, []point{{4, killTool}, {5, loseAnswer}}) {
			if want := []string{"/configmaps", "/update-version"}[o.point.n-4]; !strings.HasSuffix(o.writeAtPoint(), want) {
				t.Errorf("%s is %s, want %s", o.point, o.writeAtPoint(), want)
			}
		}
	})
}

// TestSampledCommandsOfGKEPoolsSurviveInterruption kills the tool after the request that starts an upgrade, and loses the answer to the
// request that ends a soak.
func TestSampledCommandsOfGKEPoolsSurviveInterruption(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	s, err := fixture.NewShared(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for name, c := range map[string]struct {
		point point
		write string
	}{
		"surge":    {point{5, killTool}, "PUT gke-surge-kill-005"},
		"complete": {point{4, loseAnswer}, "POST gke-complete-lose-004:completeUpgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chosen, err := findCourses(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range (setup{counts: []int{1, 1}, course: &chosen[0]}).runSample(t, s, []point{c.point}) {
				if got := o.writeAtPoint(); got != c.write {
					t.Errorf("%s is %s, want %s", o.point, got, c.write)
				}
			}
		})
	}
}

func TestCoursesAreFoundByName(t *testing.T) {
	if all, err := findCourses(allCourses); err != nil || len(all) != len(courses()) {
		t.Errorf("got %d courses (%v)", len(all), err)
	}
	if one, err := findCourses("rollback"); err != nil || len(one) != 1 || one[0].name != "rollback" {
		t.Errorf("got %v (%v)", one, err)
	}
	if _, err := findCourses("roll"); err == nil || !strings.Contains(err.Error(), "rollback-in-soak") {
		t.Errorf("got %v, want an error that lists the courses", err)
	}
}

// runSample runs the cases of the points in parallel. Each point must be reached, and each case must end in the state of an
// undisturbed upgrade.
func (c setup) runSample(t *testing.T, s *fixture.Fixture, points []point) []outcome {
	t.Helper()
	outcomes, err := c.runAll(t.Context(), s, points, len(points), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := summarize(t.Output(), outcomes, 0); err != nil {
		t.Error(err)
	}
	for i := range outcomes {
		if !outcomes[i].isReached() {
			t.Fatalf("%s was not reached, so nothing was tested", outcomes[i].point)
		}
	}
	return outcomes
}

// samplePoints returns one point for the cloud and one for the pods. The tool is not killed in the middle of an eviction. The API
// server might then charge the budget without deleting the pod, and the disruption controller would count that as a disruption for two
// minutes.
func samplePoints(t *testing.T, writes []string) []point {
	t.Helper()
	var points []point
	for fault, kinds := range map[fault][]string{
		killTool:   {"LaunchInstances"},
		loseAnswer: {"/eviction"},
	} {
		for _, kind := range kinds {
			points = append(points, point{indexOfFirstWrite(t, writes, kind), fault})
		}
	}
	return points
}

// indexOfFirstWrite returns the number of the first write of the kind.
func indexOfFirstWrite(t *testing.T, writes []string, kind string) int {
	t.Helper()
	i := slices.IndexFunc(writes, func(write string) bool { return strings.Contains(write, kind) })
	if i < 0 {
		t.Fatalf("no write of the upgrade contains %q: %q", kind, writes)
	}
	return i + 1
}

func TestFlagsChooseWhichWritesAreInterrupted(t *testing.T) {
	cases := map[string]struct {
		flags  options
		writes int
		want   []point
	}{
		"all":                     {options{how: killTool, from: 1, every: 1}, 3, []point{{1, killTool}, {2, killTool}, {3, killTool}}},
		"from the middle":         {options{how: killTool, from: 2, every: 1}, 3, []point{{2, killTool}, {3, killTool}}},
		"to the middle":           {options{how: killTool, from: 1, to: 2, every: 1}, 3, []point{{1, killTool}, {2, killTool}}},
		"to beyond the end":       {options{how: killTool, from: 3, to: 9, every: 1}, 3, []point{{3, killTool}}},
		"every second":            {options{how: killTool, from: 1, every: 2}, 4, []point{{1, killTool}, {3, killTool}}},
		"answers are lost":        {options{how: loseAnswer, from: 2, every: 1}, 2, []point{{2, loseAnswer}}},
		"a few, spread":           {options{how: haltTool, from: 1, every: 1, few: 2}, 7, []point{{1, haltTool}, {4, haltTool}}},
		"more than there are":     {options{how: haltTool, from: 1, every: 1, few: 5}, 2, []point{{1, haltTool}, {2, haltTool}}},
		"none that there is":      {options{how: killTool, from: 4, every: 1}, 3, nil},
		"nothing is ever changed": {options{from: 1, every: 1}, 0, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.flags.points(c.writes); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestProxyFindsTheWriteToInterrupt(t *testing.T) {
	const node, lease = "PATCH /x", "PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
	cases := map[string]struct {
		point  point
		writes []string
		want   []bool
	}{
		"the second":                       {point{2, killTool}, []string{node, node, node}, []bool{false, true, false}},
		"none":                             {point{}, []string{node, node}, []bool{false, false}},
		"the lease":                        {point{1, haltAndClockForward}, []string{lease, node}, []bool{true, false}},
		"the next that is not the lease's": {point{1, secondClockAhead}, []string{lease, lease, node, node}, []bool{false, false, true, false}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			proxy := &proxy{point: c.point}
			for i, write := range c.writes {
				if got := proxy.numberWrite(write); got != c.want[i] {
					t.Errorf("write %d is the point's: %t, want %t", i+1, got, c.want[i])
				}
			}
			if len(proxy.writes) != len(c.writes) {
				t.Errorf("the proxy recorded %d writes, want %d", len(proxy.writes), len(c.writes))
			}
		})
	}
}

func TestDifferencesBetweenStatesAreListed(t *testing.T) {
	cases := map[string]struct {
		found, wanted state
		want          string
	}{
		"none":             {state{"a": "1"}, state{"a": "1"}, ""},
		"another":          {state{"a": "2"}, state{"a": "1"}, `a: "2", want "1"`},
		"not found":        {state{}, state{"a": "1"}, `a: "", want "1"`},
		"nothing expected": {state{"b": "2"}, state{"a": ""}, `b: "2", want ""`},
		"several, by name": {state{"b": "2", "a": "1"}, state{}, `a: "1", want ""; b: "2", want ""`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(differences(c.found, c.wanted), "; "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestActionsNotDoneExactlyOnceAreReported(t *testing.T) {
	cases := map[string]struct {
		times map[string]int
		due   map[string]bool
		want  string
	}{
		"each once":   {map[string]int{"a": 1, "b": 1}, map[string]bool{"a": true, "b": true}, ""},
		"one twice":   {map[string]int{"a": 2}, map[string]bool{"a": true}, "a 2 times"},
		"one never":   {nil, map[string]bool{"a": true}, "a 0 times"},
		"one not due": {map[string]int{"a": 1}, nil, "a, which was not due, 1 times"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := describeWrongCounts(c.times, c.due); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestGroupSizesOutOfBoundsAreReported(t *testing.T) {
	booting, whole := awscloud.Size{Desired: 6, InService: 2}, awscloud.Size{Desired: 6, InService: 6}
	cases := map[string]struct {
		sizes []awscloud.Size
		want  string
	}{
		"as before":                {[]awscloud.Size{whole}, ""},
		"before it was whole":      {[]awscloud.Size{booting, whole}, ""},
		"with all of the surge":    {[]awscloud.Size{whole, {Desired: 10, InService: 6}}, ""},
		"with more than the surge": {[]awscloud.Size{whole, {Desired: 11, InService: 6}}, "desired 11 with 6 in service"},
		"one away":                 {[]awscloud.Size{whole, {Desired: 5, InService: 5}}, ""},
		"two away":                 {[]awscloud.Size{whole, {Desired: 6, InService: 4}}, "desired 6 with 4 in service"},
		"two taken":                {[]awscloud.Size{whole, {Desired: 4, InService: 5}}, "desired 4 with 5 in service"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(sizesOutOfBounds(c.sizes, 6, 4), ", "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestReportListsProblemsOfInterruptedUpgrades(t *testing.T) {
	outcomes := []outcome{
		{point: point{1, killTool}, writes: []string{"POST /a", "PUT /b"}},
		{point: point{2, killTool}, name: "kill-002", writes: []string{"POST /a", "PUT /b"}, problems: []string{"nodes: x", "lease: y"}},
		{point: point{3, killTool}, name: "managed-kill-003", writes: []string{"POST /a", "PUT /b"}},
	}
	var lines []string
	for i := range outcomes {
		lines = append(lines, outcomes[i].reportLines()...)
	}
	want := []string{"kill-002: PUT /b: nodes: x; lease: y", "managed-kill-003: not reached: this upgrade made 2 writes"}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	cases := map[string]struct {
		outcomes []outcome
		says     string
		fails    bool
	}{
		"one of two": {outcomes, "1 of 2 ended as an undisturbed upgrade does, in 9s\n", true},
		"all":        {outcomes[:1], "1 of 1 ended as an undisturbed upgrade does, in 9s\n", false},
		"none tried": {outcomes[2:], "0 of 0 ended as an undisturbed upgrade does, in 9s\n", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := summarize(&out, c.outcomes, 9*time.Second); (err != nil) != c.fails || out.String() != c.says {
				t.Errorf("got %q and %v, want %q", out.String(), err, c.says)
			}
		})
	}
}
