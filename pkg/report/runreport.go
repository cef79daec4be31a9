package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Subject says what a report is about.
type Subject string

// The subjects of reports.
const (
	// AboutPlan is a planned upgrade that has not begun.
	AboutPlan Subject = "plan"
	// AboutSimulation is an upgrade in virtual time.
	AboutSimulation Subject = "simulation"
	// AboutUpgrade is an upgrade as seen by the process that ran it.
	AboutUpgrade Subject = "upgrade"
	// AboutStatus is an upgrade as its record in the cluster shows it.
	AboutStatus Subject = "status"
)

// Origin says which command made a report, when and for which cluster.
type Origin struct {
	// About says what the report is about.
	About Subject `json:"about"`
	// Made is when the report was made.
	Made time.Time `json:"made"`
	// Context is the kubeconfig context. Account is the cloud account. Each is "" if it is not known.
	Context string `json:"context,omitempty"`
	Account string `json:"account,omitempty"`
	// User ran the command. Version is the version of this tool. Command is the command line without --report and secrets.
	User    string `json:"user"`
	Version string `json:"version"`
	Command string `json:"command"`
}

// RunReport is the report of one group's upgrade. A number that is nil is not known.
type RunReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Origin says which command made the report, when and for which cluster.
	Origin `json:"origin"`
	// Run is the identifier of the upgrade. It is left out if none has begun.
	Run string `json:"run,omitempty"`
	// Target is the revision that the upgrade moves the nodes to.
	Target nodegroup.Revision `json:"target,omitzero"`
	// Result is how the upgrade ended, and Message why. They are left out for an upgrade that has not ended.
	Result  record.Result `json:"result,omitempty"`
	Message string        `json:"message,omitempty"`
	// Started is when the upgrade began, and Ended when it ended. They are left out if it did not.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Total counts the nodes that the upgrade replaces. Replaced counts those of them that are gone, or drained where their owner
	// replaces them. Drained counts those of Replaced that are drained and not known to be replaced.
	Total    int `json:"total"`
	Replaced int `json:"replaced"`
	Drained  int `json:"drained,omitempty"`
	// Evictions counts the pods that were evicted. WithoutReady is how long workloads had no ready pod, added up.
	Evictions    *int             `json:"evictions,omitempty"`
	WithoutReady *record.Duration `json:"withoutReadyPod,omitempty"`
	// Peak is the largest desired size of the group. ExtraInstanceHours are the instance-hours beyond those of the
	// group's size at the start.
	Peak               *int     `json:"peak,omitempty"`
	ExtraInstanceHours *float64 `json:"extraInstanceHours,omitempty"`
	// Plan is what was planned. Its findings are those of the report.
	Plan *Plan `json:"plan,omitempty"`
	// From and To are the limits of the timeline.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Nodes lists the nodes that the upgrade started to drain, in order of start.
	Nodes []NodeHistory `json:"nodes,omitempty"`
	// Phases are the phases of the upgrade in order of time.
	Phases []Period `json:"phases,omitempty"`
	// Sizes lists the sizes that the group had, in order of time. If there were many, some are left out.
	Sizes []SizeSample `json:"sizes,omitempty"`
	// Workloads are what the upgrade cost workloads, those first that users noticed most.
	Workloads []record.WorkloadImpact `json:"workloads,omitempty"`
	// Ready has the ready pods over time of those workloads, at most three, that had fewer than before while this process ran.
	Ready []ReadyPods `json:"readyPods,omitempty"`
	// Unhealthy lists the workloads that had not recovered at the end of the report.
	Unhealthy []record.Unhealthy `json:"unhealthy,omitempty"`
	// Holders lists what nodes waited for, the longest wait first.
	Holders []Holder `json:"heldBy,omitempty"`
	// Comparison has other ways to upgrade the group from its state at the start. It is left out if they are not known.
	Comparison *Comparison `json:"comparison,omitempty"`
	// Findings are what the rules found when the plan was made, the most severe first.
	Findings []preflight.Finding `json:"findings,omitempty"`
	// Settings are those of the upgrade. They are left out if none is planned or recorded.
	Settings record.Request `json:"settings,omitzero"`
	// Log lists the events of the upgrade. If there were many, those in the middle are left out.
	Log []LogLine `json:"log,omitempty"`
	// NotKnown says what the report does not tell, a sentence each.
	NotKnown []string `json:"notKnown,omitempty"`
	// takenUp is true if the upgrade had begun before the report's first moment.
	takenUp bool
	// noComparison says why Comparison is nil.
	noComparison string
	// planVerdict and its tone are the verdict on the plan with all of its findings.
	planVerdict string
	planTone    tone
}

// mostFindingsReported is how many findings a report has, so that it stays small for a large group.
const mostFindingsReported = 200

// NewRunReport returns the report of a group's upgrade. plan is nil if no plan was made; noPlan says why, or is "". rec is the record at
// the end of the history. The record of a plan without a forecast has no Run.
func NewRunReport(origin Origin, plan *Plan, noPlan string, seen *History, rec *record.Record) *RunReport {
	r := &RunReport{
		Origin: origin, Run: rec.Run, Target: rec.Target, Result: rec.Result, Message: rec.Message, Started: rec.Started, Ended: rec.Ended,
		Total: rec.Total, Replaced: rec.Replaced, Drained: rec.CountDrained(), Settings: rec.Request,
		Nodes: seen.listNodes(), Phases: endPeriods(seen.phases, seen.Last), Sizes: seen.sizes, Holders: seen.listHolders(), Log: seen.log,
		Unhealthy: seen.last.Status.Unhealthy, takenUp: seen.TakenUp && !rec.Started.IsZero(),
	}
	if origin.About == AboutPlan { // nothing of it has happened
		r.Run, r.Result, r.Message, r.Replaced, r.Started, r.Ended = "", "", "", 0, time.Time{}, time.Time{}
	}
	name := rec.Request.Group
	if plan != nil {
		name = plan.Name
		r.addPlan(plan)
	}
	r.TypeMeta, r.ObjectMeta = NewMeta("Report", name)
	r.From, r.To = seen.First, seen.Last
	for i := range r.Nodes {
		for _, state := range r.Nodes[i].States {
			if state.From.Before(r.From) {
				r.From = state.From
			}
		}
	}
	if r.Settings.Strategy == "" {
		r.Settings = record.Request{}
	}
	r.addCosts(seen, rec)
	r.addUnknown(noPlan, seen)
	return r
}

// AddComparison adds other ways to upgrade the group. If it is nil, why says why they are not known.
func (r *RunReport) AddComparison(c *Comparison, why string) {
	r.Comparison, r.noComparison = c, why
	if c == nil {
		r.NotKnown = append(r.NotKnown, "which other way would be faster"+withPrefix(": ", why))
	}
}

// addPlan adds a copy of what was planned.
func (r *RunReport) addPlan(plan *Plan) {
	p := *plan
	r.planTone, r.planVerdict = planVerdict(plan)
	r.Findings, p.Findings = slices.Clone(plan.Findings), nil
	slices.SortStableFunc(r.Findings, func(a, b preflight.Finding) int {
		return cmp.Compare(toneOfSeverity(string(b.Severity)), toneOfSeverity(string(a.Severity)))
	})
	r.Plan = &p
	if more := len(r.Findings) - mostFindingsReported; more > 0 {
		r.Findings = r.Findings[:mostFindingsReported]
		r.NotKnown = append(r.NotKnown, formatCount(more, "more finding")+": "+cmp.Or(plan.CheckedBy, checkCommand)+" lists all")
	}
	if r.Settings.Strategy == "" {
		r.Settings = plan.Request
	}
	if r.Run == "" {
		r.Target, r.Total = plan.To, len(plan.Nodes)
	}
}

// addCosts adds what the upgrade cost, as far as that is known.
func (r *RunReport) addCosts(seen *History, rec *record.Record) {
	r.Workloads = upgrade.ListImpacts(rec)
	r.Ready = seen.listReady(r.Workloads)
	if len(rec.Workloads) > 0 {
		evictions, without := 0, time.Duration(0)
		for i := range r.Workloads {
			evictions += r.Workloads[i].Evictions
			without += r.Workloads[i].None.Duration
		}
		r.Evictions, r.WithoutReady = &evictions, &record.Duration{Duration: without}
	}
	if !seen.Last.After(seen.First) {
		return
	}
	peak := 0
	for _, sample := range r.Sizes {
		peak = max(peak, sample.Desired)
	}
	if peak > 0 {
		r.Peak = &peak
	}
	if peak > 0 && rec.Sizes.Desired > 0 && !r.takenUp {
		seconds := seen.nodeSeconds - float64(rec.Sizes.Desired)*seen.sizedSeconds
		hours := math.Round(seconds/36) / 100
		r.ExtraInstanceHours = &hours
	}
}

// addUnknown says what is not known.
func (r *RunReport) addUnknown(noPlan string, seen *History) {
	say := func(format string, args ...any) { r.NotKnown = append(r.NotKnown, fmt.Sprintf(format, args...)) }
	if r.takenUp || (r.About == AboutStatus && r.Run != "") {
		say("%s", describeUnseen(seen.First, seen.UnseenBefore))
	}
	if r.Plan == nil && r.About == AboutUpgrade {
		say("what the plan said%s", withPrefix(": ", noPlan))
	}
	if more := len(seen.nodesLeftOut); more > 0 {
		say("%s: a report has at most %d nodes", formatCount(more, "more node"), mostNodesKept)
	}
	if seen.logLeftOut > 0 {
		say("%s of the log, after the first %d", formatCount(seen.logLeftOut, "line"), firstLogKept)
	}
}

// describeUnseen says what is not known of the time before the first moment, by which that many nodes were gone.
func describeUnseen(first time.Time, gone int) string {
	text := "before " + formatTime(first) + ": what nodes waited for, how large the group was"
	if gone > 0 {
		text += fmt.Sprintf(", when %s came and went", formatCount(gone, "node"))
	}
	return text
}

// formatTime writes a time as a report does, in UTC.
func formatTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") }

// formatMoment returns formatTime's text, or "" for the zero time.
func formatMoment(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return formatTime(at)
}

// planned returns the planned nodes by name.
func (r *RunReport) planned() map[string]*PlanNode {
	byName := map[string]*PlanNode{}
	if r.Plan != nil {
		for i := range r.Plan.Nodes {
			byName[r.Plan.Nodes[i].Name] = &r.Plan.Nodes[i]
		}
	}
	return byName
}

// listNotStarted returns the planned nodes that the upgrade has not started to drain.
func (r *RunReport) listNotStarted() []NodeHistory {
	if r.Plan == nil {
		return nil
	}
	started := map[string]bool{}
	for i := range r.Nodes {
		started[r.Nodes[i].Name] = true
	}
	var all []NodeHistory
	for i := range r.Plan.Nodes {
		if n := &r.Plan.Nodes[i]; !started[n.Name] {
			all = append(all, NodeHistory{Name: n.Name, Zone: n.Zone})
		}
	}
	return all
}

// bootPeriods returns the times during which new nodes were booting, each with the largest number of them.
func (r *RunReport) bootPeriods() []Period {
	var all []Period
	most := 0
	for _, sample := range r.Sizes {
		booting := sample.New - sample.NewReady
		open := len(all) > 0 && all[len(all)-1].To.IsZero()
		switch {
		case booting > 0 && !open:
			most = booting
			all = append(all, Period{What: formatCount(most, "new node") + " booting", From: sample.At})
		case booting > 0:
			most = max(most, booting)
			all[len(all)-1].What = formatCount(most, "new node") + " booting"
		case open:
			all[len(all)-1].To = sample.At
		}
	}
	return endPeriods(all, r.To)
}

// fact is a row of the summary.
type fact struct{ name, value string }

const unknownValue = "unknown"

// listFacts returns the summary.
func (r *RunReport) listFacts() []fact {
	facts := []fact{
		{"Group", r.Name + Parenthesize(r.groupKind())},
		{"Cluster", cmp.Or(r.Context, unknownValue) + withPrefix(", ", r.Account)},
		{"Target", cmp.Or(r.Target.Name, unknownValue)},
		{"Nodes", r.describeNodes()},
		{"Time", r.describeTime()},
		{"Plan said", r.describePlanned()},
		{"Evictions", formatKnown(r.Evictions)},
		{"Without a ready pod", r.describeWithout()},
		{"Nodes at the peak", r.describePeak()},
		{"Extra instance-hours", formatHours(r.ExtraInstanceHours)},
		{"Started", formatMoment(r.Started)},
		{"Ended", formatMoment(r.Ended)},
		{r.describeRole(), cmp.Or(r.User, unknownValue)},
		{"Version", cmp.Or(r.Version, unknownValue)},
		{"Run", r.Run},
		{"Command", cmp.Or(r.Command, unknownValue)},
		{"Report made", formatTime(r.Made)},
	}
	return slices.DeleteFunc(facts, func(f fact) bool { return f.value == "" })
}

// describeRole returns what the user of the command did.
func (r *RunReport) describeRole() string {
	if r.About == AboutStatus {
		return "Reported by"
	}
	return "Run by"
}

func (r *RunReport) groupKind() string {
	if r.Plan == nil {
		return ""
	}
	return r.Plan.Kind
}

func formatKnown(n *int) string {
	if n == nil {
		return unknownValue
	}
	return fmt.Sprint(*n)
}

func formatHours(hours *float64) string {
	if hours == nil {
		return unknownValue
	}
	return fmt.Sprintf("%.1f", *hours)
}

func (r *RunReport) describeNodes() string {
	if r.About == AboutPlan {
		return formatCount(r.Total, "node") + " to replace"
	}
	return DescribeProgress(r.Replaced, r.Drained, r.Total)
}

// describePeak returns the largest size that was seen.
func (r *RunReport) describePeak() string {
	if r.Peak != nil && r.takenUp {
		return "at least " + formatKnown(r.Peak)
	}
	return formatKnown(r.Peak)
}

// describeTime says how long the upgrade took, or for how long it has been under way.
func (r *RunReport) describeTime() string {
	switch {
	case r.About == AboutPlan:
		return ""
	case r.Started.IsZero():
		return unknownValue
	case r.Ended.IsZero():
		return formatLength(r.Made.Sub(r.Started)) + " so far"
	case r.About == AboutSimulation:
		return formatLength(r.Ended.Sub(r.Started)) + " if pods end as soon as they may"
	default:
		return formatLength(r.Ended.Sub(r.Started))
	}
}

// formatLength writes a time to the second.
func formatLength(d time.Duration) string { return max(0, d).Round(time.Second).String() }

// describePlanned returns how long the upgrade takes by the plan, and with how many evictions.
func (r *RunReport) describePlanned() string {
	switch {
	case r.Plan == nil && r.About == AboutUpgrade:
		return unknownValue
	case r.Plan == nil:
		return ""
	case r.Plan.Duration.Latest.Duration == 0:
		return unknownValue
	}
	text := FormatSpan(r.Plan.Duration)
	if r.Plan.Evictions != nil {
		text += ", " + formatCount(*r.Plan.Evictions, "eviction")
	}
	return text
}

func (r *RunReport) describeWithout() string {
	if r.WithoutReady == nil {
		return unknownValue
	}
	workloads := 0
	for i := range r.Workloads {
		if r.Workloads[i].None.Duration > 0 {
			workloads++
		}
	}
	if workloads == 0 {
		return "0s"
	}
	return formatSeconds(r.WithoutReady.Duration) + Parenthesize(formatCount(workloads, "workload"))
}

// verdict returns the sentence that says most. An upgrade that costs workloads ready pods is not shown as good.
func (r *RunReport) verdict() (tone, string) {
	of := strings.ToUpper(string(r.About[:1])) + string(r.About[1:]) + ": "
	worse, t := withPrefix(", ", describeWorse(r.Unhealthy, r.Workloads)), good
	if worse != "" {
		t = warning
	}
	switch {
	case r.About == AboutPlan || r.About == AboutSimulation:
		return r.planTone, of + r.planVerdict
	case r.Run == "" && r.Result == record.Succeeded:
		return good, of + "nothing to do" + withPrefix(": ", r.Message)
	case r.Run == "":
		return warning, of + "no upgrade of the group is recorded"
	case r.Result == "":
		return t, of + "under way, " + r.describeNodes() + worse
	case r.Result == record.Succeeded:
		return t, of + "done, " + r.describeNodes() + worse
	case r.Result == record.LeftBehind || r.Result == record.Waiting || r.Result == record.Interrupted || r.Result == record.Paused:
		return warning, of + string(r.Result) + ", " + r.describeNodes() + worse + withPrefix(": ", r.Message)
	default:
		return bad, of + string(r.Result) + ", " + r.describeNodes() + worse + withPrefix(": ", r.Message)
	}
}

// DeepCopyObject is as List's.
func (r *RunReport) DeepCopyObject() runtime.Object { c := *r; return &c }
