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

// Subject is the kind of upgrade that a report describes.
type Subject string

// The subjects of reports.
const (
	// AboutPlan is a planned upgrade that has not begun.
	AboutPlan Subject = "plan"
	// AboutSimulation is an upgrade in virtual time.
	AboutSimulation Subject = "simulation"
	// AboutUpgrade is an upgrade that was observed by the process that ran it.
	AboutUpgrade Subject = "upgrade"
	// AboutStatus is an upgrade as recorded in the cluster.
	AboutStatus Subject = "status"
)

// Origin is the command that made a report, with its time and cluster.
type Origin struct {
	// About is what the report describes.
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

// RunReport is the report of one group's upgrade. A number that is nil is unknown.
type RunReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Origin is the command that made the report, with its time and cluster.
	Origin `json:"origin"`
	// Run is the identifier of the upgrade. It is left out if none has begun.
	Run string `json:"run,omitempty"`
	// Target is the revision that the upgrade moves the nodes to.
	Target nodegroup.Revision `json:"target,omitzero"`
	// Result is how the upgrade ended, and Message is the reason. They are left out for an upgrade that has
	// not ended.
	Result  record.Result `json:"result,omitempty"`
	Message string        `json:"message,omitempty"`
	// Started is when the upgrade began, and Ended when it ended. Each is left out if that has not happened.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Total counts the nodes that the upgrade replaces. Replaced counts the ones among them that are gone, or
	// that are drained if the owner replaces them. Drained counts the nodes in Replaced that are drained and
	// that are not known to be replaced.
	Total    int `json:"total"`
	Replaced int `json:"replaced"`
	Drained  int `json:"drained,omitempty"`
	// Evictions counts the evicted pods. WithoutReady is how long workloads had no ready pod, added up.
	Evictions    *int             `json:"evictions,omitempty"`
	WithoutReady *record.Duration `json:"withoutReadyPod,omitempty"`
	// Peak is the largest desired size of the group. ExtraInstanceHours are the instance-hours beyond those of
	// the group's original size.
	Peak               *int     `json:"peak,omitempty"`
	ExtraInstanceHours *float64 `json:"extraInstanceHours,omitempty"`
	// Plan is the plan of the upgrade. Its findings are moved to Findings.
	Plan *Plan `json:"plan,omitempty"`
	// From and To are the limits of the timeline.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Nodes lists the nodes whose drain was started, in order of start.
	Nodes []NodeHistory `json:"nodes,omitempty"`
	// Phases are the phases of the upgrade in order of time.
	Phases []Period `json:"phases,omitempty"`
	// Sizes lists the sizes that the group had, in order of time. If there were many, some are left out.
	Sizes []SizeSample `json:"sizes,omitempty"`
	// Workloads lists what the upgrade cost workloads. The workloads whose users noticed most come first.
	Workloads []record.WorkloadImpact `json:"workloads,omitempty"`
	// Ready has the ready pods over time of at most three of these workloads. They had fewer ready pods than
	// before while this process ran.
	Ready []ReadyPods `json:"readyPods,omitempty"`
	// Unhealthy lists the workloads that had not recovered at the end of the report.
	Unhealthy []record.Unhealthy `json:"unhealthy,omitempty"`
	// WaitCauses lists what nodes waited for, the longest wait first.
	WaitCauses []WaitCause `json:"heldBy,omitempty"`
	// Comparison has other ways to upgrade the group, forecast from its state at the start. It is left out if
	// they are not known.
	Comparison *Comparison `json:"comparison,omitempty"`
	// Findings are the findings of the plan, the most severe first.
	Findings []preflight.Finding `json:"findings,omitempty"`
	// Settings are the settings of the upgrade. They are left out if no upgrade is planned or recorded.
	Settings record.Request `json:"settings,omitzero"`
	// Log lists the events of the upgrade. If there were many, those in the middle are left out.
	Log []LogLine `json:"log,omitempty"`
	// NotKnown lists what the report does not know, one sentence each.
	NotKnown []string `json:"notKnown,omitempty"`
	// takenOver is true if another process had begun the upgrade before the report's first moment.
	takenOver bool
	// noComparison is the reason why Comparison is nil.
	noComparison string
	// planVerdict and planTone are the verdict on the plan with all its findings.
	planVerdict string
	planTone    tone
}

// maxFindingsReported is how many findings a report has. The limit keeps the report of a large group small.
const maxFindingsReported = 200

// NewRunReport returns the report of a group's upgrade. plan is nil if no plan was made; noPlan is the reason,
// or "". rec is the record at the end of the history. The record of a plan without a forecast has no Run.
func NewRunReport(origin Origin, plan *Plan, noPlan string, seen *History, rec *record.Record) *RunReport {
	r := &RunReport{
		Origin: origin, Run: rec.Run, Target: rec.Target, Result: rec.Result, Message: rec.Message, Started: rec.Started, Ended: rec.Ended,
		Total: rec.Total, Replaced: rec.Replaced, Drained: rec.CountDrained(), Settings: rec.Request,
		Nodes: seen.listNodes(), Phases: closePeriods(seen.phases, seen.Last), Sizes: seen.sizes, WaitCauses: seen.listWaitCauses(), Log: seen.log,
		Unhealthy: seen.last.Status.Unhealthy, takenOver: seen.TakenOver && !rec.Started.IsZero(),
	}
	if origin.About == AboutPlan { // nothing of a plan has happened
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
	r.addNotKnown(noPlan, seen)
	return r
}

// AddComparison adds other ways to upgrade the group. If c is nil, why is the reason why they are not known.
func (r *RunReport) AddComparison(c *Comparison, why string) {
	r.Comparison, r.noComparison = c, why
	if c == nil {
		r.NotKnown = append(r.NotKnown, "which other way would be faster"+withPrefix(": ", why))
	}
}

// addPlan adds a copy of the plan.
func (r *RunReport) addPlan(plan *Plan) {
	p := *plan
	r.planTone, r.planVerdict = planVerdict(plan)
	r.Findings, p.Findings = slices.Clone(plan.Findings), nil
	slices.SortStableFunc(r.Findings, func(a, b preflight.Finding) int {
		return cmp.Compare(toneOfSeverity(string(b.Severity)), toneOfSeverity(string(a.Severity)))
	})
	r.Plan = &p
	if more := len(r.Findings) - maxFindingsReported; more > 0 {
		r.Findings = r.Findings[:maxFindingsReported]
		r.NotKnown = append(r.NotKnown, formatCount(more, "more finding")+": "+cmp.Or(plan.CheckedBy, checkCommand)+" lists all")
	}
	if r.Settings.Strategy == "" {
		r.Settings = plan.Request
	}
	if r.Run == "" {
		r.Target, r.Total = plan.To, len(plan.Nodes)
	}
}

// addCosts adds the known costs of the upgrade.
func (r *RunReport) addCosts(seen *History, rec *record.Record) {
	r.Workloads = upgrade.ListImpacts(rec)
	r.Ready = seen.listReadyPods(r.Workloads)
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
	if peak > 0 && rec.Sizes.Desired > 0 && !r.takenOver {
		seconds := seen.nodeSeconds - float64(rec.Sizes.Desired)*seen.sizedSeconds
		hours := math.Round(seconds/36) / 100
		r.ExtraInstanceHours = &hours
	}
}

// addNotKnown adds what the report does not know.
func (r *RunReport) addNotKnown(noPlan string, seen *History) {
	say := func(format string, args ...any) { r.NotKnown = append(r.NotKnown, fmt.Sprintf(format, args...)) }
	if r.takenOver || (r.About == AboutStatus && r.Run != "") {
		say("%s", describeUnwatchedTime(seen.First, seen.UntimedReplaced))
	}
	if r.Plan == nil && r.About == AboutUpgrade {
		say("what the plan said%s", withPrefix(": ", noPlan))
	}
	if more := len(seen.nodesLeftOut); more > 0 {
		say("%s: a report shows at most %d nodes", formatCount(more, "more node"), maxNodesKept)
	}
	if seen.logLeftOut > 0 {
		say("%s of the log, after the first %d", formatCount(seen.logLeftOut, "line"), firstLogKept)
	}
}

// describeUnwatchedTime returns what is unknown about the time before the first moment. gone is how many nodes
// were replaced in that time.
func describeUnwatchedTime(first time.Time, gone int) string {
	text := "before " + formatTime(first) + ": what nodes waited for, how large the group was"
	if gone > 0 {
		text += fmt.Sprintf(", when %s came and went", formatCount(gone, "node"))
	}
	return text
}

// formatTime returns a time in UTC, as reports write it.
func formatTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") }

// formatTimeOrEmpty returns a time as formatTime does, or "" for the zero time.
func formatTimeOrEmpty(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return formatTime(at)
}

// plannedByName returns the planned nodes by name.
func (r *RunReport) plannedByName() map[string]*PlanNode {
	byName := map[string]*PlanNode{}
	if r.Plan != nil {
		for i := range r.Plan.Nodes {
			byName[r.Plan.Nodes[i].Name] = &r.Plan.Nodes[i]
		}
	}
	return byName
}

// listNotStarted returns the planned nodes whose drain has not started.
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

// bootPeriods returns the periods during which new nodes were booting, each with the largest number of booting
// nodes.
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
	return closePeriods(all, r.To)
}

// fact is a row of the summary.
type fact struct{ name, value string }

const unknownValue = "unknown"

// listFacts returns the rows of the summary.
func (r *RunReport) listFacts() []fact {
	facts := []fact{
		{"Group", r.Name + Parenthesize(r.groupKind())},
		{"Cluster", cmp.Or(r.Context, unknownValue) + withPrefix(", ", r.Account)},
		{"Target", cmp.Or(r.Target.Name, unknownValue)},
		{"Nodes", r.describeNodes()},
		{"Time", r.describeTime()},
		{"Plan said", r.describePlannedTime()},
		{"Evictions", formatOptionalInt(r.Evictions)},
		{"Without a ready pod", r.describeTimeWithoutReadyPod()},
		{"Nodes at the peak", r.describePeak()},
		{"Extra instance-hours", formatHours(r.ExtraInstanceHours)},
		{"Started", formatTimeOrEmpty(r.Started)},
		{"Ended", formatTimeOrEmpty(r.Ended)},
		{r.userLabel(), cmp.Or(r.User, unknownValue)},
		{"Version", cmp.Or(r.Version, unknownValue)},
		{"Run", r.Run},
		{"Command", cmp.Or(r.Command, unknownValue)},
		{"Report made", formatTime(r.Made)},
	}
	return slices.DeleteFunc(facts, func(f fact) bool { return f.value == "" })
}

// userLabel returns the label of the user's name in the summary.
func (r *RunReport) userLabel() string {
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

func formatOptionalInt(n *int) string {
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

// describePeak returns the largest observed size.
func (r *RunReport) describePeak() string {
	if r.Peak != nil && r.takenOver {
		return "at least " + formatOptionalInt(r.Peak)
	}
	return formatOptionalInt(r.Peak)
}

// describeTime returns how long the upgrade took, or how long it has been running.
func (r *RunReport) describeTime() string {
	switch {
	case r.About == AboutPlan:
		return ""
	case r.Started.IsZero():
		return unknownValue
	case r.Ended.IsZero():
		return formatWholeSeconds(r.Made.Sub(r.Started)) + " so far"
	case r.About == AboutSimulation:
		return formatWholeSeconds(r.Ended.Sub(r.Started)) + " if pods end as soon as they may"
	default:
		return formatWholeSeconds(r.Ended.Sub(r.Started))
	}
}

// formatWholeSeconds returns a duration rounded to seconds.
func formatWholeSeconds(d time.Duration) string { return max(0, d).Round(time.Second).String() }

// describePlannedTime returns the planned duration and number of evictions.
func (r *RunReport) describePlannedTime() string {
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

func (r *RunReport) describeTimeWithoutReadyPod() string {
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

// verdict returns the most important sentence of the report. If workloads have fewer ready pods than before,
// its tone is not good.
func (r *RunReport) verdict() (tone, string) {
	of := strings.ToUpper(string(r.About[:1])) + string(r.About[1:]) + ": "
	worse, t := withPrefix(", ", describeDegraded(r.Unhealthy, r.Workloads)), good
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

// DeepCopyObject returns a shallow copy, as that of List does.
func (r *RunReport) DeepCopyObject() runtime.Object { c := *r; return &c }
