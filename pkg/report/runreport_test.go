package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

func originOf(about Subject) Origin {
	return Origin{About: about, Made: now.Add(20 * time.Minute), Context: "prod", Account: "account 123456789012", User: "ann@laptop", Version: "v1.2.3", Command: "kubectl nodeupgrade workers --yes"}
}

// film plays an upgrade of the nodes of surgePlan, moment by moment. Its minutes count from now.
type film struct {
	seen   History
	rec    record.Record
	status record.Status
}

func newFilm() *film {
	f := &film{rec: record.Record{
		Run: "x7k2m9qa", Started: now, Request: surgePlan().Request, Target: nodegroup.Revision{Name: "workers:7"},
		Sizes: nodegroup.Sizes{Desired: 4, Min: 1, Max: 5}, Total: 3, Nodes: map[string]record.NodeRecord{},
	}}
	f.rec.Request.Group = "workers"
	f.status = record.Status{Group: "workers", Phase: record.PhaseScaleUp, Since: now, Total: 3, GroupCounts: &record.GroupCounts{Desired: 7, Max: 7, New: 3}, Owed: 3}
	return f
}

// put sets the state of a node.
func (f *film) put(name string, state record.NodeState, at time.Time) {
	n := f.rec.Nodes[name]
	n.State, n.Batch = state, 1
	switch state {
	case record.NodeDraining:
		n.Began = at
	case record.NodeEmpty:
		n.EmptyAt = at
	case record.NodeRemoving:
		n.Terminated = at
	}
	f.rec.Nodes[name] = n
	f.status.Nodes = slices.DeleteFunc(f.status.Nodes, func(s record.NodeStatus) bool { return s.Name == name })
	f.status.Nodes = append(f.status.Nodes, record.NodeStatus{Name: name, Zone: "us-east-1a", State: state, Batch: 1, Pods: 2})
	slices.SortFunc(f.status.Nodes, func(a, b record.NodeStatus) int { return strings.Compare(a.Name, b.Name) })
}

// remove removes a node that is gone.
func (f *film) remove(name string, at time.Time) {
	f.rec.NoteGone(name, at)
	delete(f.rec.Nodes, name)
	f.rec.Replaced++
	f.status.Replaced = f.rec.Replaced
	f.status.Nodes = slices.DeleteFunc(slices.Clone(f.status.Nodes), func(s record.NodeStatus) bool { return s.Name == name })
}

// show adds a moment with the blocked pods to the history.
func (f *film) show(at time.Time, blocked ...drain.Blocked) {
	status := f.status
	counts := *status.GroupCounts
	status.Nodes, status.GroupCounts = slices.Clone(status.Nodes), &counts
	f.seen.Observe(Moment{At: at, Status: status, Blocked: blocked}, &f.rec)
}

func cartBlocked(node string, since time.Time) drain.Blocked {
	return drain.Blocked{
		Node: node, Pod: types.NamespacedName{Namespace: "shop", Name: "cart-0"}, Since: since,
		Obstacle: drain.Obstacle{Kind: drain.BudgetSpent, Budget: types.NamespacedName{Namespace: "shop", Name: "cart"}, Need: 3, Have: 3},
	}
}

// run plays the film from the given minute. The first node waits two minutes for a budget.
func (f *film) run(from time.Duration) {
	at := func(minutes float64) time.Time { return now.Add(time.Duration(minutes * float64(time.Minute))) }
	steps := []struct {
		minute float64
		do     func()
	}{
		{0, func() {}},
		{2, func() {
			f.status.Phase, f.status.Since, f.status.NewReady = record.PhaseUpgrade, at(2), 3
			f.put("ip-10-0-1-7", record.NodeDraining, at(2))
		}},
		{4, func() { f.put("ip-10-0-1-7", record.NodeEmpty, at(4)) }},
		{5, func() {
			f.put("ip-10-0-1-7", record.NodeRemoving, at(5))
			f.put("ip-10-0-2-9", record.NodeDraining, at(5))
		}},
		{6, func() { f.remove("ip-10-0-1-7", at(6)); f.put("ip-10-0-2-9", record.NodeEmpty, at(6)) }},
		{8, func() {
			f.put("ip-10-0-2-9", record.NodeRemoving, at(8))
			f.put("i-0abc", record.NodeDraining, at(8))
			f.status.Desired, f.status.Owed = 5, 1
		}},
		{10, func() { f.remove("ip-10-0-2-9", at(10)); f.put("i-0abc", record.NodeRemoving, at(10)) }},
		{12, func() {
			f.remove("i-0abc", at(12))
			f.status.Phase, f.status.Since, f.status.Desired, f.status.Owed = record.PhaseScaleDown, at(12), 4, 0
		}},
	}
	for _, step := range steps {
		step.do()
		if at(step.minute).Before(now.Add(from)) {
			continue
		}
		var blocked []drain.Blocked
		if step.minute == 4 || step.minute == 5 {
			lacks := int(5 - step.minute)
			f.rec.Workloads = map[string]record.WorkloadRecord{"shop/Deployment/cart": {Ready: 3, Impact: record.Impact{Lacks: lacks}}, "shop/Deployment/seed": {Ready: 1, Impact: record.Impact{Lacks: lacks, Out: lacks > 0}}}
		}
		if step.minute == 2 {
			blocked = []drain.Blocked{cartBlocked("ip-10-0-1-7", at(2))}
		}
		f.show(at(step.minute), blocked...)
	}
	f.rec.Workloads = map[string]record.WorkloadRecord{
		"shop/Deployment/cart": {Ready: 3, Impact: record.Impact{Evictions: 4, Below: length(150 * time.Second)}},
		"shop/Deployment/seed": {Ready: 1, Impact: record.Impact{Evictions: 1, Below: length(40 * time.Second), None: length(40 * time.Second)}},
	}
}

// comparedWays returns a comparison with the requested way, a better way, a refused way and a way without a
// forecast.
func comparedWays() *Comparison {
	asked := WayForecast{Result: record.Succeeded, Duration: span(12*time.Minute, 18*time.Minute), Peak: new(7), ExtraInstanceHours: new(0.5), Evictions: 5, Outage: length(40 * time.Second)}
	faster := asked
	faster.Duration, faster.Outage = span(6*time.Minute, 9*time.Minute), length(0)
	return NewComparison("workers", record.Surge, "its pods move quickly", []Way{
		{Flags: "as asked", Request: record.Request{Strategy: record.Surge, OnTimeout: record.Fail}, WayForecast: &asked},
		{Flags: "--max-unavailable=10%", Request: record.Request{Strategy: record.Surge, OnTimeout: record.Fail}, WayForecast: &faster},
		{Flags: "--strategy=blue-green", Request: record.Request{Strategy: record.BlueGreen, OnTimeout: record.Fail}, Unforecast: "its forecast takes too long"},
		{Flags: "--like=gke", Refused: "--like=gke: no zone has room"},
	})
}

func exampleReportOfPlan() *RunReport {
	origin := originOf(AboutPlan)
	origin.Made = now
	r := NewRunReport(origin, surgePlan(), "", &History{}, &record.Record{Request: surgePlan().Request})
	r.AddComparison(comparedWays(), "")
	return r
}

func endedReport() *RunReport {
	f := newFilm()
	f.run(0)
	f.rec.Result, f.rec.Phase, f.rec.Ended = record.Succeeded, record.PhaseDone, now.Add(12*time.Minute)
	plan := surgePlan()
	plan.Findings = blockedPlan().Findings[4:]
	r := NewRunReport(originOf(AboutUpgrade), plan, "", &f.seen, &f.rec)
	r.AddComparison(comparedWays(), "")
	return r
}

// stoppedReport returns the report of an upgrade that could not drain its second node.
func stoppedReport() *RunReport {
	f := newFilm()
	f.show(now)
	f.put("ip-10-0-1-7", record.NodeDraining, now)
	f.show(now, cartBlocked("ip-10-0-1-7", now))
	f.show(now.Add(15*time.Minute), cartBlocked("ip-10-0-1-7", now))
	f.rec.Result, f.rec.Message, f.rec.Ended = record.PodEvictionFailure, `draining node "ip-10-0-1-7": it still has pods after 15m0s`, now.Add(15*time.Minute)
	r := NewRunReport(originOf(AboutUpgrade), surgePlan(), "", &f.seen, &f.rec)
	r.AddComparison(nil, "the upgrade was interrupted")
	return r
}

// takenOverReport returns the report of an upgrade that another process ran for the first six minutes.
func takenOverReport() *RunReport {
	f := newFilm()
	f.run(6 * time.Minute)
	f.rec.Result, f.rec.Ended = record.Succeeded, now.Add(12*time.Minute)
	r := NewRunReport(originOf(AboutUpgrade), nil, "you may not list pods", &f.seen, &f.rec)
	r.AddComparison(nil, "you may not list pods")
	return r
}

// statusReport returns the report of a running upgrade that was not observed.
func statusReport() *RunReport {
	f := newFilm()
	f.put("ip-10-0-1-7", record.NodeDraining, now.Add(2*time.Minute))
	f.rec.Replaced, f.status.Replaced = 1, 1
	f.show(now.Add(20*time.Minute), cartBlocked("ip-10-0-1-7", now.Add(16*time.Minute)))
	r := NewRunReport(originOf(AboutStatus), nil, "", &f.seen, &f.rec)
	r.AddComparison(nil, "only reports of plans and upgrades compare ways")
	return r
}

func TestReportsEqualGoldenFiles(t *testing.T) {
	reports := map[string]*RunReport{"plan": exampleReportOfPlan(), "ended": endedReport(), "stopped": stoppedReport(), "taken-over": takenOverReport(), "status": statusReport()}
	formats := map[string]func(io.Writer, *RunReport) error{"html": WriteReportHTML, "md": WriteReportMarkdown, "json": WriteReportJSON}
	for name, r := range reports {
		for format, write := range formats {
			t.Run(name+"."+format, func(t *testing.T) {
				var got bytes.Buffer
				if err := write(&got, r); err != nil {
					t.Fatal(err)
				}
				compare(t, filepath.Join("testdata", "reports", name+"."+format), got.Bytes())
				if format == "json" {
					if err := contract.Validate(got.String()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// After a takeover, only the times in the record show what happened before. Unknown numbers are nil, not zero.
func TestReportOfTakenOverUpgradeNamesWhatIsUnknown(t *testing.T) {
	r := takenOverReport()
	if len(r.NotKnown) != 3 || r.NotKnown[0] != "before 2026-01-08 12:06:00 UTC: what nodes waited for, how large the group was" {
		t.Errorf("not known: %q", r.NotKnown)
	}
	if n := r.Nodes[0]; n.Name != "ip-10-0-1-7" || n.State != record.NodeGone || len(n.States) != 3 || !n.States[0].From.Equal(now.Add(2*time.Minute)) || !n.States[2].To.Equal(now.Add(6*time.Minute)) {
		t.Errorf("the node that the other process replaced: %+v", n)
	}
	if r.ExtraInstanceHours != nil {
		t.Errorf("instance-hours are %v, want unknown", *r.ExtraInstanceHours)
	}
	if i := slices.IndexFunc(r.Nodes, func(n NodeHistory) bool { return n.Name == "ip-10-0-2-9" }); i < 0 || !r.Nodes[i].States[0].From.Equal(now.Add(5*time.Minute)) {
		t.Errorf("the drain in the record is missing: %+v", r.Nodes)
	}
}

// The record of an older version, or of an upgrade with many nodes, does not have the times of all replaced
// nodes.
func TestReportCountsReplacedNodesWithUnknownTimes(t *testing.T) {
	f := newFilm()
	f.rec.Replaced = 3
	f.rec.NoteGone("ip-10-0-1-7", now)
	f.show(now.Add(6 * time.Minute))
	r := NewRunReport(originOf(AboutUpgrade), nil, "", &f.seen, &f.rec)
	if !strings.HasSuffix(r.NotKnown[0], ", when 2 nodes came and went") {
		t.Errorf("not known: %q", r.NotKnown)
	}
}

// The verdict of a report depends on all findings of the plan, and on workloads that have fewer ready pods
// than before.
func TestReportVerdictDependsOnFindingsAndUnhealthyWorkloads(t *testing.T) {
	refused := NewRunReport(originOf(AboutPlan), blockedPlan(), "", &History{}, &record.Record{})
	if tone, text := refused.verdict(); tone != bad || !strings.HasPrefix(text, "Plan: Refused: ") {
		t.Errorf("a refused plan: tone %d, %q", tone, text)
	}
	warned := surgePlan()
	for range maxFindingsReported {
		warned.Findings = append(warned.Findings, preflight.Finding{Rule: "X001", Severity: preflight.Note})
	}
	warned.Findings = append(warned.Findings, preflight.Finding{Rule: "X002", Severity: preflight.Error})
	many := NewRunReport(originOf(AboutSimulation), warned, "", &History{}, &record.Record{})
	if tone, text := many.verdict(); tone != bad || !strings.HasPrefix(text, "Simulation: 3 nodes to replace, none blocked") || many.Findings[0].Rule != "X002" {
		t.Errorf("an error after many infos: tone %d, %q, first %s", tone, text, many.Findings[0].Rule)
	}
	current := NewRunReport(originOf(AboutUpgrade), nil, "", &History{}, &record.Record{Result: record.Succeeded, Message: "all 3 nodes are current"})
	if tone, text := current.verdict(); tone != good || text != "Upgrade: nothing to do: all 3 nodes are current" {
		t.Errorf("a group that is current: tone %d, %q", tone, text)
	}
	rec := &record.Record{Run: "r", Result: record.Succeeded, Workloads: map[string]record.WorkloadRecord{"a/Deployment/b": {Impact: record.Impact{Evictions: 1, Lacks: 1}}}}
	lacking := NewRunReport(originOf(AboutUpgrade), nil, "", &History{}, rec)
	var seen History
	seen.Observe(Moment{At: now, Status: record.Status{Group: "g", Unhealthy: []record.Unhealthy{{Name: "kube-system/DaemonSet/cni"}}}}, &record.Record{})
	unhealthy := NewRunReport(originOf(AboutUpgrade), nil, "", &seen, &record.Record{Run: "r", Result: record.Succeeded})
	if tone, text := unhealthy.verdict(); tone != warning || !strings.Contains(text, "1 workload with fewer ready pods than before") {
		t.Errorf("done with a DaemonSet that does not recover: tone %d, %q", tone, text)
	}
	if tone, text := lacking.verdict(); tone != warning || !strings.Contains(text, "1 workload with fewer ready pods than before") {
		t.Errorf("done with a workload that lacks pods: tone %d, %q", tone, text)
	}
}

// An upgrade that another process continues soon after its start is also taken over: the observations of the
// first process are missing.
func TestTakeoverSoonAfterStartLeavesWaitsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		nodes map[string]record.NodeRecord
		want  bool
	}{"from the start": {nil, false}, "a node was started": {map[string]record.NodeRecord{"n1": {State: record.NodeEmpty, Batch: 1}}, true}} {
		var seen History
		rec := &record.Record{Run: "r", Started: now, Nodes: c.nodes}
		seen.Observe(Moment{At: now.Add(5 * time.Second), Status: record.Status{Group: "g"}}, rec)
		r := NewRunReport(originOf(AboutUpgrade), surgePlan(), "", &seen, rec)
		if got := len(r.NotKnown) > 0; got != c.want || strings.Contains(r.describeNoWaits(), "unknown") != c.want {
			t.Errorf("%s: not known %q, and %q", name, r.NotKnown, r.describeNoWaits())
		}
	}
}

// The entries that a long history drops are counted once, and they do not change its numbers.
func TestDroppedHistoryEntriesDoNotChangeReportNumbers(t *testing.T) {
	var seen History
	rec := &record.Record{Run: "r", Started: now, Sizes: nodegroup.Sizes{Desired: 4}}
	var nodes []record.NodeStatus
	for i := range maxNodesKept + 2 {
		nodes = append(nodes, record.NodeStatus{Name: fmt.Sprintf("n%05d", i), State: record.NodeDraining, Batch: 1})
	}
	const samples = 3*maxSizesKept + 1
	for i := range samples { // the sizes alternate between six and five
		if i == 2 {
			nodes = nil
		}
		seen.Observe(Moment{At: now.Add(time.Duration(i) * time.Second), Status: record.Status{Group: "g", GroupCounts: &record.GroupCounts{Desired: 6 - i%2}, Nodes: nodes}}, rec)
	}
	plan := surgePlan()
	plan.CheckedBy = "kubectl nodeupgrade check -f dump.json"
	for range maxFindingsReported + 1 {
		plan.Findings = append(plan.Findings, preflight.Finding{Rule: "X001", Severity: preflight.Note})
	}
	r := NewRunReport(originOf(AboutUpgrade), plan, "", &seen, rec)
	want := math.Round(float64(samples/2)*(2+1)/36) / 100
	if r.ExtraInstanceHours == nil || *r.ExtraInstanceHours != want || len(r.Sizes) > maxSizesKept {
		t.Errorf("%v extra instance-hours of %d samples, want %v", *r.ExtraInstanceHours, len(r.Sizes), want)
	}
	for _, line := range []string{"1 more finding: kubectl nodeupgrade check -f dump.json lists all", "2 more nodes: a report shows at most 5000 nodes"} {
		if !slices.Contains(r.NotKnown, line) {
			t.Errorf("not known are %q, want %q", r.NotKnown, line)
		}
	}
}

// The report of a plan shows the upgrade in virtual time, but no results.
func TestReportOfPlanHasNoResults(t *testing.T) {
	f := newFilm()
	f.run(0)
	f.rec.Result, f.rec.Replaced, f.rec.Ended = record.Succeeded, 3, now.Add(12*time.Minute)
	r := NewRunReport(originOf(AboutPlan), surgePlan(), "", &f.seen, &f.rec)
	if r.Result != "" || r.Replaced != 0 || !r.Started.IsZero() || r.Run != "" {
		t.Errorf("the plan claims the result %q, %d replaced, run %q", r.Result, r.Replaced, r.Run)
	}
	if got := r.describeNodes(); got != "3 nodes to replace" || len(r.Nodes) != 3 {
		t.Errorf("it says %q of %d nodes", got, len(r.Nodes))
	}
}

// The report has the cause and duration of each wait, and the cost of the surge.
func TestReportAddsUpWaitsAndCosts(t *testing.T) {
	r := endedReport()
	if want := []WaitCause{{What: "PDB shop/cart", For: length(2 * time.Minute), Nodes: 1}}; !slices.Equal(r.WaitCauses, want) {
		t.Errorf("held by %+v, want %+v", r.WaitCauses, want)
	}
	// The group has three extra nodes for eight minutes and then one for four minutes: 28 minutes of one node.
	if r.Peak == nil || *r.Peak != 7 || r.ExtraInstanceHours == nil || *r.ExtraInstanceHours != 0.47 {
		t.Errorf("peak %v, extra hours %v; want 7 and 0.47", r.Peak, r.ExtraInstanceHours)
	}
	if r.Evictions == nil || *r.Evictions != 5 || r.WithoutReady == nil || r.WithoutReady.Duration != 40*time.Second {
		t.Errorf("evictions %v, without a ready pod %v; want 5 and 40s", r.Evictions, r.WithoutReady)
	}
	first := r.Nodes[0]
	want := []Period{{"Draining", now.Add(2 * time.Minute), now.Add(4 * time.Minute)}, {"Empty", now.Add(4 * time.Minute), now.Add(5 * time.Minute)}, {"Removing", now.Add(5 * time.Minute), now.Add(6 * time.Minute)}}
	if !slices.Equal(first.States, want) || first.State != record.NodeGone || len(first.Waits) != 1 || !first.Waits[0].To.Equal(now.Add(4*time.Minute)) {
		t.Errorf("the first node: %+v, want the states %v", first, want)
	}
	if stopped := stoppedReport(); stopped.Evictions != nil || stopped.WithoutReady != nil {
		t.Errorf("no workload was measured, but evictions are %v and the time without a ready pod %v", stopped.Evictions, stopped.WithoutReady)
	}
}

// hostileName tries to escape from the text, from an attribute and from the JSON data of a page.
const hostileName = `"><script>alert(1)</script><img src=x onerror='a'>` + "\x00\x1b[2J\u202e工作节点</script><!--`"

// hostileReport has hostileName in every field that a cluster or a user can fill.
func hostileReport() *RunReport {
	f := newFilm()
	f.rec.Request.Group, f.rec.Target.Name, f.rec.Run = hostileName, hostileName, hostileName
	f.rec.Request.Current = map[string]string{hostileName: hostileName}
	f.status.Note = hostileName
	f.put(hostileName, record.NodeDraining, now)
	blocked := drain.Blocked{Node: hostileName, Pod: types.NamespacedName{Namespace: hostileName, Name: hostileName}, Since: now, Obstacle: drain.Obstacle{Kind: drain.Denied, Detail: hostileName}}
	f.show(now, blocked)
	f.put(hostileName, record.NodeQuarantined, now)
	n := f.rec.Nodes[hostileName]
	n.Reason = hostileName
	f.rec.Nodes[hostileName] = n
	f.show(now.Add(time.Minute), blocked)
	f.rec.Workloads = map[string]record.WorkloadRecord{hostileName: {Impact: record.Impact{Evictions: 1}}}
	f.rec.Result, f.rec.Message, f.rec.Ended = record.Failed, hostileName, now.Add(time.Minute)
	plan := surgePlan()
	plan.Name, plan.Kind, plan.Assumptions = hostileName, hostileName, []string{hostileName}
	plan.Nodes[0].Name, plan.Nodes[1].Name = hostileName, "b"+hostileName
	plan.Findings = []preflight.Finding{{Rule: hostileName, Severity: preflight.Warn, Object: hostileName, Message: hostileName, Skipped: hostileName}}
	origin := originOf(AboutUpgrade)
	origin.Context, origin.User, origin.Command, origin.Version, origin.Account = hostileName, hostileName, hostileName, hostileName, hostileName
	r := NewRunReport(origin, plan, "", &f.seen, &f.rec)
	ways := comparedWays()
	ways.FitsBecause, ways.Ways[0].Flags, ways.Ways[2].Unforecast, ways.Ways[3].Refused = hostileName, hostileName, hostileName, hostileName
	r.AddComparison(ways, "")
	return r
}

func writeHTML(t *testing.T, r *RunReport) []byte {
	t.Helper()
	var page bytes.Buffer
	if err := WriteReportHTML(&page, r); err != nil {
		t.Fatal(err)
	}
	return page.Bytes()
}

// Whatever names a report has, the page contains only its own elements and attributes, loads and runs nothing,
// and has the original data.
func TestReportEscapesHostileNames(t *testing.T) {
	reports := map[string]*RunReport{"plan": exampleReportOfPlan(), "ended": endedReport(), "stopped": stoppedReport(), "hostile": hostileReport()}
	for name, r := range reports {
		t.Run(name, func(t *testing.T) {
			page := writeHTML(t, r)
			root, err := html.Parse(bytes.NewReader(page))
			if err != nil {
				t.Fatal(err)
			}
			data := checkElements(t, root)
			if err := contract.Validate(data); err != nil {
				t.Error(err)
			}
			var got RunReport
			if err := json.Unmarshal([]byte(data), &got); err != nil {
				t.Fatalf("the data is no JSON: %v", err)
			}
			if want, _ := json.Marshal(convertReport(*r)); !bytes.Equal([]byte(data), want) || got.Name != r.Name || got.Kind != "Report" || got.APIVersion != APIVersion {
				t.Errorf("the data is %s, want %s", data, want)
			}
			if i := bytes.IndexFunc(page, func(r rune) bool { return r < ' ' && r != '\n' || r == '\u202e' }); i >= 0 && !strings.Contains(data, string(page[i:i+1])) {
				t.Errorf("the page has a control character: %q", page[i:i+10])
			}
		})
	}
}

// checkElements fails the test for elements and attributes that a report does not need. It returns the text of
// the only script.
func checkElements(t *testing.T, root *html.Node) string {
	t.Helper()
	elements := strings.Fields("html head meta title style body main section h1 h2 h3 p dl div dt dd code ul li span i svg g rect line text table thead tbody tr th td details summary pre script")
	attributes := strings.Fields("lang charset name content class role aria-label width height x y x1 x2 y1 y2 text-anchor transform type id")
	var scripts []string
	for n := range root.Descendants() {
		switch n.Type {
		case html.CommentNode:
			t.Errorf("a comment: %q", n.Data)
		case html.ElementNode:
			if !slices.Contains(elements, n.Data) {
				t.Errorf("element %q", n.Data)
			}
			for _, a := range n.Attr {
				if !slices.Contains(attributes, a.Key) {
					t.Errorf("attribute %q of %s", a.Key, n.Data)
				}
			}
			if n.Data == "script" {
				scripts = append(scripts, n.FirstChild.Data)
				if len(n.Attr) == 0 || n.Attr[0].Val != "application/json" {
					t.Errorf("a script that runs: %v", n.Attr)
				}
			}
			if n.Data == "style" && strings.Contains(n.FirstChild.Data, "url(") {
				t.Error("the style loads something")
			}
		}
	}
	if len(scripts) != 1 {
		t.Fatalf("%d scripts, want only the data", len(scripts))
	}
	return scripts[0]
}

// A name that looks like HTML is shown literally.
func TestReportShowsNamesThatLookLikeHTML(t *testing.T) {
	root, err := html.Parse(bytes.NewReader(writeHTML(t, hostileReport())))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "script" && strings.Contains(n.Data, `<script>alert(1)</script>`) && strings.Contains(n.Data, "工作节点") {
			shown++
		}
	}
	const least = 15
	if shown < least {
		t.Errorf("the name is shown %d times, want at least %d", shown, least)
	}
}

func longWorkload(i int) string {
	return fmt.Sprintf("namespace-%d/Deployment/workload-with-a-name-%d", i%40, i)
}

// The ready pods are known from before the first eviction until the end. A long list keeps the lowest number.
func TestReportShowsReadyPodsDuringUpgrade(t *testing.T) {
	f := newFilm()
	workload := func(lacks int, out bool) {
		f.rec.Workloads = map[string]record.WorkloadRecord{
			"shop/Deployment/cart": {Ready: 3, Impact: record.Impact{Evictions: 2, Below: length(time.Minute), Lacks: lacks, Out: out}},
			"shop/Deployment/full": {Ready: 2, Impact: record.Impact{Evictions: 2}},
		}
	}
	f.show(now)
	for minute, lacks := range []int{0, 1, 1, 3, 0} {
		workload(lacks, lacks == 3)
		f.show(now.Add(time.Duration(minute) * time.Minute))
	}
	got := NewRunReport(originOf(AboutUpgrade), nil, "", &f.seen, &f.rec).Ready
	at := func(minute, ready int) ReadySample {
		return ReadySample{now.Add(time.Duration(minute) * time.Minute), ready}
	}
	want := []ReadyPods{{Name: "shop/Deployment/cart", Before: 3, Samples: []ReadySample{at(0, 3), at(1, 2), at(3, 0), at(4, 3)}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("ready pods are %v, want %v", got, want)
	}
	if said, want := got[0].describe(now), "shop/Deployment/cart: 3 of 3 ready, 2 from +1m0s, 0 from +3m0s, 3 from +4m0s"; said != want {
		t.Errorf("%q, want %q", said, want)
	}
	long := ReadyPods{Before: 9}
	for i := range 5 * maxReadySamplesKept {
		ready := 8 + i%2
		if i == 77 {
			ready = 1
		}
		long.addSample(now.Add(time.Duration(i)*time.Second), ready)
	}
	if n := len(long.Samples); n > maxReadySamplesKept || n < maxReadySamplesKept/3 || long.fewestReady() != 1 {
		t.Errorf("%d samples with at least %d ready are kept, want at most %d and the lowest, 1", n, long.fewestReady(), maxReadySamplesKept)
	}
}

func TestReportOfThousandNodesIsSmallerThanTwoMegabytes(t *testing.T) {
	const nodes, most = 1000, 2_000_000
	f, plan := newFilm(), surgePlan()
	plan.Nodes, f.rec.Workloads = nil, map[string]record.WorkloadRecord{}
	for i := range nodes {
		at := now.Add(time.Duration(i) * 90 * time.Second)
		name := fmt.Sprintf("ip-10-%03d-%03d-%03d.eu-central-1.compute.internal", i/250, i%250, i%199)
		budget := cartBlocked(name, at.Add(5*time.Second))
		budget.Budget.Name = fmt.Sprintf("budget-of-a-workload-%d", i%400)
		f.put(name, record.NodeDraining, at)
		for _, workload := range []int{0, 1, 2, i/9 + 3} { // the first three workloads have the worst impact
			f.rec.Workloads[longWorkload(workload)] = record.WorkloadRecord{Ready: 9, Impact: record.Impact{Below: length(time.Hour), Lacks: i % 9}}
		}
		f.show(at)
		f.show(at.Add(5*time.Second), budget)
		f.put(name, record.NodeEmpty, at.Add(40*time.Second))
		f.status.Desired, f.status.New = 1000+i%7, i
		f.show(at.Add(40 * time.Second))
		f.put(name, record.NodeRemoving, at.Add(70*time.Second))
		f.show(at.Add(70 * time.Second))
		f.remove(name, at.Add(85*time.Second))
		f.show(at.Add(85 * time.Second))
		start := span(time.Duration(i)*80*time.Second, time.Duration(i)*120*time.Second)
		plan.Nodes = append(plan.Nodes, PlanNode{
			Batch: i + 1, Name: name, Zone: "eu-central-1a", From: "workers:6", To: "workers:7", Pods: 30, Staying: 6, Start: &start,
			End: span(time.Duration(i+1)*80*time.Second, time.Duration(i+1)*120*time.Second), WaitsFor: "PDB shop/cart", Waits: length(time.Minute), Why: "template version 6, wanted 7",
		})
		plan.Findings = append(plan.Findings, preflight.Finding{Rule: "PDB001", Severity: preflight.Warn, Node: name, Object: "pod shop/cart-" + name, Message: fmt.Sprintf("message %d of some length about what is in the way", i), Remedy: "raise its replicas"})
	}
	for i := range 500 {
		f.rec.Workloads[longWorkload(i)] = record.WorkloadRecord{Impact: record.Impact{Evictions: 60, Below: length(time.Hour), Lacks: 1}}
	}
	for i := range maxWorkloadsCharted {
		f.rec.Workloads[longWorkload(i)] = record.WorkloadRecord{Impact: record.Impact{Evictions: 60, Below: length(time.Hour), None: length(time.Hour), Lacks: 1}}
	}
	f.rec.Ended, f.rec.Result = f.seen.Last, record.Succeeded
	plan.Duration = span(80*1000*time.Second, 120*1000*time.Second)
	r := NewRunReport(originOf(AboutUpgrade), plan, "", &f.seen, &f.rec)
	r.AddComparison(comparedWays(), "")
	page := writeHTML(t, r)
	t.Logf("%d bytes", len(page))
	if rows := bytes.Count(page, []byte("<g transform=")); len(page) > most || len(r.Nodes) != nodes || rows < nodes {
		t.Errorf("%d bytes, %d nodes, %d rows; want at most %d bytes and %d nodes", len(page), len(r.Nodes), rows, most, nodes)
	}
	if len(r.Log) > firstLogKept+lastLogKept || len(r.Sizes) > maxSizesKept || len(r.WaitCauses) > maxWaitCausesKept+1 {
		t.Errorf("%d lines, %d sizes, %d holders are kept", len(r.Log), len(r.Sizes), len(r.WaitCauses))
	}
	if len(r.Ready) != maxWorkloadsCharted || len(r.Ready[0].Samples) < maxReadySamplesKept/2 {
		t.Errorf("the ready pods of %d workloads are charted", len(r.Ready))
	}
	if r.Peak == nil || *r.Peak != 1006 {
		t.Errorf("the peak is %v, want 1006", r.Peak)
	}
}

// Consecutive waits for the same thing are merged, and waits that end immediately are dropped.
func TestHistoryJoinsWaitsAcrossShortGaps(t *testing.T) {
	f := newFilm()
	f.put("a", record.NodeDraining, now)
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	f.show(at(0), cartBlocked("a", at(0)))
	f.show(at(300))
	f.show(at(5000), cartBlocked("a", at(5000)))
	f.show(at(8000))
	f.show(at(8500), cartBlocked("a", at(8500)))
	f.show(at(9000))
	if got, want := f.seen.listNodes()[0].Waits, []Period{{"PDB shop/cart", at(5000), at(9000)}}; !slices.Equal(got, want) {
		t.Errorf("waits %v, want %v", got, want)
	}
}
