package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// moment returns a moment in the middle of the upgrade of three nodes, with the changes applied.
func moment(with ...func(*Moment)) Moment {
	m := Moment{At: now, Status: record.Status{
		Group: "workers", Phase: record.PhaseUpgrade, Total: 3, Replaced: 1, GroupCounts: &record.GroupCounts{Desired: 4, Max: 5, New: 2, NewReady: 2}, Zones: "a:2 b:2",
		Nodes: []record.NodeStatus{
			{Name: "n1", Zone: "a", State: record.NodeDraining, Batch: 1, Pods: 2}, {Name: "n2", Zone: "b", State: record.NodeFenced},
		},
	}}
	for _, change := range with {
		change(&m)
	}
	return m
}

// node adds a node in the state, or changes the node of that name.
func node(name string, state record.NodeState, pods int) func(*Moment) {
	return func(m *Moment) {
		without(name)(m)
		batch := 1
		if state == record.NodeFenced || state == record.NodePending {
			batch = 0
		}
		m.Status.Nodes = append(m.Status.Nodes, record.NodeStatus{Name: name, State: state, Batch: batch, Pods: pods})
	}
}

// silent marks the kubelet of the draining node as not reporting.
func silent(name string) func(*Moment) {
	return func(m *Moment) {
		node(name, record.NodeDraining, 2)(m)
		m.Status.Nodes[len(m.Status.Nodes)-1].Silent = "its kubelet has been silent since noon: restart the kubelet"
	}
}

func without(name string) func(*Moment) {
	return func(m *Moment) {
		m.Status.Nodes = slices.DeleteFunc(slices.Clone(m.Status.Nodes), func(n record.NodeStatus) bool { return n.Name == name })
	}
}

// blocked adds a pod that has been blocked for the duration since.
func blocked(node, pod string, obstacle drain.Obstacle, since time.Duration) func(*Moment) {
	return func(m *Moment) {
		m.Blocked = append(m.Blocked, drain.Blocked{
			Node: node, Pod: types.NamespacedName{Namespace: "shop", Name: pod}, Obstacle: obstacle, Since: ago(since),
		})
	}
}

func spent(have int32) drain.Obstacle {
	return drain.Obstacle{Kind: drain.BudgetSpent, Budget: types.NamespacedName{Namespace: "shop", Name: "cart"}, Need: 3, Have: have}
}

var (
	denied    = drain.Obstacle{Kind: drain.Denied, Detail: "not now"}
	unmanaged = drain.Obstacle{Kind: drain.Unmanaged}
)

// lines returns events as "type node state: text".
func lines(events []Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", e.Type, e.Node, e.State)), " ")+": "+e.Text)
	}
	return all
}

func TestProgressChangesAreDescribedAsEvents(t *testing.T) {
	const cart = "pod shop/cart-0: PDB shop/cart allows no disruption (needs 3 healthy, has 3)"
	const remedy = ": wait until its pods are ready, raise its replicas or pass --on-timeout=force"
	change := func(f func(*record.Status)) func(*Moment) { return func(m *Moment) { f(&m.Status) } }
	cases := map[string]struct {
		before, now Moment
		want        []string
	}{
		"nothing":    {moment(), moment(), nil},
		"time alone": {moment(), moment(func(m *Moment) { m.At = now.Add(time.Hour) }), nil},
		"fewer pods": {moment(), moment(func(m *Moment) { m.Status.Nodes[0].Pods = 1 }), nil},
		"a phase": {moment(), moment(change(func(s *record.Status) { s.Phase = record.PhaseScaleDown })), []string{
			"phase scale down: phase scale down",
		}},
		"the first moment": {Moment{}, moment(), []string{
			"phase upgrade: phase upgrade: 2 outdated nodes, desired 4, max 5 (a:2 b:2)", "capacity: 2 new nodes ready",
			"capacity: 1 node not started yet, all fenced", "node n1 Draining: node n1 draining 2 pods (batch 1, zone a)",
		}},
		"the first moment of a group without a size": {Moment{}, moment(without("n1"), without("n2"), change(func(s *record.Status) {
			s.Max, s.Desired, s.New, s.NewReady, s.Replaced, s.Zones = 0, 0, 0, 0, 2, ""
		})), []string{"phase upgrade: phase upgrade: 1 outdated node"}},
		"the size":               {moment(), moment(change(func(s *record.Status) { s.Desired = 3 })), []string{"capacity: group resized: desired 3, max 5 (a:2 b:2)"}},
		"the max":                {moment(), moment(change(func(s *record.Status) { s.Max = 4 })), []string{"capacity: group resized: desired 4, max 4 (a:2 b:2)"}},
		"a new node is ready":    {moment(change(func(s *record.Status) { s.NewReady = 1 })), moment(), []string{"capacity: 2 new nodes ready"}},
		"one of three new nodes": {moment(change(func(s *record.Status) { s.New, s.NewReady = 3, 0 })), moment(change(func(s *record.Status) { s.New, s.NewReady = 3, 1 })), []string{"capacity: 1 new node ready, 2 starting"}},
		"a new node comes":       {moment(), moment(change(func(s *record.Status) { s.New = 3 })), nil},
		"some are fenced":        {moment(node("n2", record.NodePending, 0), node("n3", record.NodePending, 0)), moment(node("n3", record.NodePending, 0)), nil},
		"all are fenced": {moment(node("n2", record.NodePending, 0)), moment(node("n3", record.NodeFenced, 0)), []string{
			"capacity: 2 nodes not started yet, all fenced",
		}},
		"a node is started": {moment(), moment(node("n2", record.NodeDraining, 1)), []string{"node n2 Draining: node n2 draining 1 pod (batch 1)"}},
		"a node is out of time": {moment(), moment(node("n1", record.NodeForcing, 2)), []string{
			"node n1 Forcing: node n1 out of time: deleting 2 pods",
		}},
		"a node is empty":        {moment(), moment(node("n1", record.NodeEmpty, 0)), []string{"node n1 Empty: node n1 empty"}},
		"a node is terminated":   {moment(), moment(node("n1", record.NodeRemoving, 0)), []string{"node n1 Removing: node n1 terminating"}},
		"a node is given up":     {moment(), moment(node("n1", record.NodeQuarantined, 1)), []string{"node n1 Quarantined: node n1 quarantined with 1 pod"}},
		"a node stays to others": {moment(), moment(node("n1", record.NodeDrained, 0)), []string{"node n1 Drained: node n1 drained; it stays fenced until you replace it"}},
		"pods came back to it":   {moment(), moment(node("n1", record.NodeDrained, 2)), []string{"node n1 Drained: node n1 drained, but 2 pods started on it again; it stays fenced until you replace it"}},
		"a node is gone": {moment(node("n1", record.NodeRemoving, 0)), moment(without("n1"), change(func(s *record.Status) { s.Replaced = 2 })), []string{
			"node n1 Gone: node n1 is gone (2 of 3 replaced)",
		}},
		"a node that was not ours to remove is gone": {moment(), moment(without("n2")), nil},
		"a pod waits":          {moment(), moment(blocked("n1", "cart-0", spent(3), time.Minute)), []string{"blocked n1: node n1 waits: " + cart + remedy}},
		"a pod waits a moment": {moment(), moment(blocked("n1", "cart-0", spent(3), time.Second)), nil},
		"a pod waits for people": {moment(), moment(blocked("n1", "seed", unmanaged, 0)), []string{
			"blocked n1: node n1 waits: pod shop/seed: it has no controller that would create it again: delete it or pass --unmanaged-pods=evict",
		}},
		"a node is gone, with a forecast": {moment(node("n1", record.NodeRemoving, 0)), moment(without("n1"), left(0)), []string{
			"node n1 Gone: node n1 is gone (1 of 3 replaced); 6m-15m left",
		}},
		"a pod waits on":             {moment(blocked("n1", "cart-0", spent(3), time.Minute)), moment(blocked("n1", "cart-0", spent(2), time.Minute)), nil},
		"another pod waits for that": {moment(blocked("n1", "cart-0", spent(3), time.Minute)), moment(blocked("n1", "cart-1", spent(3), time.Minute)), nil},
		"a pod waits for another":    {moment(blocked("n1", "cart-0", spent(3), time.Minute)), moment(blocked("n1", "cart-0", denied, time.Minute)), []string{"blocked n1: node n1 waits: pod shop/cart-0: not now: find out what denies its eviction"}},
		"a pod of another node":      {moment(blocked("n1", "cart-0", spent(3), time.Minute)), moment(blocked("n1", "cart-0", spent(3), time.Minute), blocked("n2", "cart-1", spent(3), time.Minute)), []string{"blocked n2: node n2 waits: " + strings.Replace(cart, "cart-0", "cart-1", 1) + remedy}},
		"a pod waits no more":        {moment(blocked("n1", "cart-0", spent(3), time.Minute)), moment(), nil},
		"several pods, one line": {moment(), moment(blocked("n1", "cart-0", spent(3), time.Second), blocked("n1", "cart-1", spent(3), time.Minute), blocked("n1", "cart-2", spent(3), 0)), []string{
			"blocked n1: node n1 waits: " + cart + " and 2 pods more" + remedy,
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := lines(DescribeChanges(c.before, c.now)); !slices.Equal(got, c.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

// TestWaitIsReportedAfterDelay shows the same wait at two moments. At the first one, the wait is still short.
func TestWaitIsReportedAfterDelay(t *testing.T) {
	begun := moment(blocked("n1", "cart-0", spent(3), 0))
	later := begun
	later.At = now.Add(reportDelay)
	if got := DescribeChanges(moment(), begun); len(got) != 0 {
		t.Errorf("before the delay: %q", lines(got))
	}
	if got := DescribeChanges(begun, later); len(got) != 1 {
		t.Errorf("after %s: %q, want one line", reportDelay, lines(got))
	}
}

// left adds a forecast of the given age. When it was made, the upgrade still took 6 to 15 minutes.
func left(age time.Duration) func(*Moment) {
	return func(m *Moment) {
		m.TimeLeft = TimeLeft{Remaining: span(6*time.Minute, 15*time.Minute), RemainingAsOf: m.At.Add(-age)}.CountedFrom(m.At)
	}
}

func TestHeartbeatNamesPhaseNodesAndWaits(t *testing.T) {
	many := func(m *Moment) {
		for _, name := range []string{"m6", "m5", "m4", "m3"} {
			node(name, record.NodeEmpty, 0)(m)
		}
	}
	cases := map[string]struct {
		moment Moment
		want   string
	}{
		"a node in flight":   {moment(), "phase upgrade, 1 of 3 nodes replaced; n1 draining 2 pods"},
		"a silent node":      {moment(silent("n1")), "phase upgrade, 1 of 3 nodes replaced; n1 draining 2 pods (its kubelet has been silent since noon: restart the kubelet)"},
		"nothing in flight":  {moment(without("n1")), "phase upgrade, 1 of 3 nodes replaced"},
		"a forecast":         {moment(without("n1"), left(time.Minute)), "phase upgrade, 1 of 3 nodes replaced, 5m-14m left"},
		"an old forecast":    {moment(without("n1"), left(3*time.Minute)), "phase upgrade, 1 of 3 nodes replaced, 3m-12m left (forecast 3m ago)"},
		"no forecast":        {moment(without("n1"), func(m *Moment) { m.TimeLeft = TimeLeft{RemainingUnknown: "no right"} }), "phase upgrade, 1 of 3 nodes replaced, time left not known"},
		"the first forecast": {moment(without("n1"), func(m *Moment) { m.TimeLeft = TimeLeft{RemainingUnknown: ForecastPending} }), "phase upgrade, 1 of 3 nodes replaced"},
		"many in flight":     {moment(many), "phase upgrade, 1 of 3 nodes replaced; m3 empty, m4 empty, m5 empty, m6 empty, 1 more"},
		"nodes at rest":      {moment(node("n1", record.NodeQuarantined, 1), node("n3", record.NodeDrained, 0)), "phase upgrade, 1 of 3 nodes replaced"},
		"waiting":            {moment(without("n1"), func(m *Moment) { m.Status.Waiting = "a replacement to be ready" }), "phase upgrade, 1 of 3 nodes replaced; waiting for a replacement to be ready"},
		"one blocked":        {moment(without("n1"), blocked("n1", "cart-0", denied, 0)), "phase upgrade, 1 of 3 nodes replaced; 1 pod blocked, first: pod shop/cart-0: not now: find out what denies its eviction"},
		"two blocked":        {moment(without("n1"), blocked("n1", "cart-0", denied, 0), blocked("n1", "cart-1", spent(3), 0)), "phase upgrade, 1 of 3 nodes replaced; 2 pods blocked, first: pod shop/cart-0: not now: find out what denies its eviction"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := DescribeHeartbeat(c.moment); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestPlanReportsWhetherUserMustAct(t *testing.T) {
	blockedPlan, cautious := blockedPlan(), blockedPlan()
	cautious.Findings = cautious.Findings[len(cautious.Findings)-1:]
	foreseen := surgePlan()
	foreseen.Ends = &PlanEnds{Fast: simulate.Ending{Result: record.Succeeded}, Slow: simulate.Ending{Result: record.PodEvictionFailure, Node: "old-1"}}
	done, left := surgePlan(), surgePlan()
	done.Ends = &PlanEnds{Fast: simulate.Ending{Result: record.Succeeded}, Slow: simulate.Ending{Result: record.Succeeded}}
	left.Ends = &PlanEnds{Fast: simulate.Ending{Result: record.LeftBehind}, Slow: simulate.Ending{Result: record.LeftBehind}}
	blocked := *blockedPlan
	blocked.Findings, blocked.Request.Strategy, blocked.Request.OnTimeout = blocked.Findings[1:], record.Surge, record.Fail
	forced, continued := blocked, blocked
	forced.Request.OnTimeout, continued.Resumes = record.Force, "r1"
	unmanaged := preflight.Finding{Rule: preflight.RuleUnmanaged, Severity: preflight.Block}
	continued.Findings = slices.DeleteFunc(slices.Clone(continued.Findings), func(f preflight.Finding) bool { return f.Rule == unmanaged.Rule })
	bare, evicted := surgePlan(), surgePlan()
	bare.Findings, bare.Resumes, bare.Request.Strategy, bare.Request.OnTimeout = []preflight.Finding{unmanaged}, "r1", record.BlueGreen, record.Fail
	evicted.Findings, evicted.Request.Strategy, evicted.Request.OnTimeout, evicted.Request.EvictUnmanaged = bare.Findings, record.BlueGreen, record.Fail, true
	for i := range cautious.Nodes {
		cautious.Nodes[i].BlockedBy = nil
	}
	cases := map[string]struct {
		plan *Plan
		want bool
	}{
		"no findings":               {surgePlan(), false},
		"a warning alone":           {cautious, false},
		"what is refused":           {blockedPlan, true},
		"what blocks a node":        {&blocked, true},
		"fails in the slow case":    {foreseen, true},
		"leaves nodes behind":       {left, true},
		"reaches its goal":          {done, false},
		"what blocks is forced":     {&forced, false},
		"what blocks one under way": {&continued, false},
		"a pod without controller":  {bare, true},
		"a pod that may be lost":    {evicted, false},
		"nothing to be done":        {nothingPlan(), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.plan.NeedsAction(); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

// full is a disk that has no free space left.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

var errFull = errors.New("no space left on device")

// TestWritersReturnEachWriteError: the first error occurs after each multiple of 50 bytes.
func TestWritersReturnEachWriteError(t *testing.T) {
	writers := map[string]func(*full) error{
		"groups": func(w *full) error { return WriteGroups(w, someGroups(), Options{Now: now}) },
		"plan":   func(w *full) error { return WritePlan(w, blockedPlan(), Options{Now: now}) },
		"status": func(w *full) error { return WriteStatus(w, runningStatus(), Options{Now: now}) },
	}
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			whole := &full{left: 1 << 20}
			if err := write(whole); err != nil {
				t.Fatal(err)
			}
			for left := 0; left < 1<<20-whole.left; left += 50 {
				if err := write(&full{left: left}); !errors.Is(err, errFull) {
					t.Fatalf("with room for %d bytes: got error %v", left, err)
				}
			}
		})
	}
}

// A plan says how and when the upgrade ends. It mentions the slow case only if that differs.
func TestPlanDescribesHowTheUpgradeEnds(t *testing.T) {
	after := func(e simulate.Ending, d time.Duration) simulate.Ending { e.After.Duration = d; return e }
	done := simulate.Ending{Result: record.Succeeded}
	stuck := simulate.Ending{Result: record.PodEvictionFailure, Why: "draining node \"x\"", Node: "x", Blocker: "PDB search/index", NotReached: 5}
	cases := map[string]struct {
		ends PlanEnds
		want string
	}{
		"done":                 {PlanEnds{after(done, 18*time.Minute), after(done, 24*time.Minute)}, "done after 18m-24m"},
		"fails when slow":      {PlanEnds{after(done, 18*time.Minute), after(stuck, 15*time.Minute)}, "done after 18m; in the slow case PodEvictionFailure after 15m at node x (PDB search/index); 5 nodes not reached"},
		"fails at one node":    {PlanEnds{after(stuck, 15*time.Minute), after(stuck, 16*time.Minute)}, "PodEvictionFailure after 15m-16m at node x (PDB search/index); 5 nodes not reached"},
		"fails at no one node": {PlanEnds{after(simulate.Ending{Result: record.WorkloadUnhealthy, Why: "shop/Deployment/web (1 of 2 ready)", NotReached: 1}, 6*time.Minute), after(simulate.Ending{Result: record.WorkloadUnhealthy, Why: "shop/Deployment/web (1 of 2 ready)", NotReached: 1}, 6*time.Minute)}, "WorkloadUnhealthy after 6m: shop/Deployment/web (1 of 2 ready); 1 node not reached"},
		"leaves nodes behind":  {PlanEnds{after(simulate.Ending{Result: record.LeftBehind}, time.Hour), after(simulate.Ending{Result: record.LeftBehind}, time.Hour)}, "done after 60m except for nodes that cannot be drained, which are kept (left-behind)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := describeEnds(&c.ends); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDeletionsAgainstBudgetsAreListedUpToALimit(t *testing.T) {
	var all []simulate.Deletion
	for i := range 8 {
		all = append(all, simulate.Deletion{Workload: fmt.Sprintf("shop/Deployment/w%d", i), Pods: 2, PastBudget: i % 4})
		all[i].After.Duration = 15 * time.Minute
	}
	want := "12 pods against their budgets: 1 of shop/Deployment/w1 after 15m, 2 of shop/Deployment/w2 after 15m, 3 of shop/Deployment/w3 after 15m, " +
		"1 of shop/Deployment/w5 after 15m, 2 of shop/Deployment/w6 after 15m, 1 more workload"
	if got := (&Plan{Deletions: all}).describeDeletions(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// While no drain is observed, each pod of a fenced node may be the one that a cloud waits for. Each such wait
// is reported once, and once more if the cloud drains the node.
func TestWaitsOfFencedNodesAreReportedOnce(t *testing.T) {
	managed := func(changes ...func(*Moment)) Moment {
		m := moment(changes...)
		m.Status.Manager = "EKS"
		return m
	}
	limited := func(m *Moment) {
		for i := range m.Blocked {
			m.Blocked[i].Until = m.At.Add(time.Minute)
		}
	}
	fenced := blocked("n1", "cart-0", spent(3), time.Minute)
	var last Moment
	for i, step := range []struct {
		now  Moment
		want int
	}{
		{managed(), 0}, {managed(fenced), 1}, {managed(), 0}, {managed(fenced), 0}, {managed(fenced, limited), 1}, {managed(), 0}, {managed(fenced), 0},
	} {
		now, told := step.now.WithWaitsReportedBy(last), 0
		for _, e := range DescribeChanges(last, now) {
			if e.Type == "blocked" {
				told++
			}
		}
		if told != step.want {
			t.Errorf("step %d: %d waits are told, want %d", i, told, step.want)
		}
		last = now
	}
}
