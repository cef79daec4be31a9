package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// WritePlan writes what happens to the group, the nodes in order of start, and the findings.
func WritePlan(w io.Writer, p *Plan, o Options) error {
	out := newPage(w, o)
	out.addVerdict(planVerdict(p))
	out.addLines(planHeaderLines(p)...)
	if len(p.Nodes) > 0 {
		out.addLines("")
		out.addPlanNodes(p, o.Wide)
	}
	out.addLines(planFooterLines(p, o)...)
	return out.err
}

func (p *page) addPlanNodes(plan *Plan, wide bool) {
	columns := []column{
		{title: "#"},
		{title: "NODE", cut: cutDomain, alwaysShown: true},
		{title: "ZONE", cut: cutRegion},
		{title: "FROM"},
		{title: "TO"},
		{title: "PODS"},
		{title: "STAYING"},
		{title: "START"},
		{title: "END"},
		{title: "WAITS-FOR", wraps: true},
		{title: "BLOCKED-BY", wraps: true, toneOf: toneOfBlocker},
	}
	if wide {
		columns = append(columns, column{title: "WHY-OUTDATED"})
	}
	var rows [][]string
	for _, n := range plan.Nodes {
		row := []string{
			dashUnless(n.Batch > 0, strconv.Itoa(n.Batch)), n.Name, cmp.Or(n.Zone, "-"), cmp.Or(n.From, "-"), cmp.Or(n.To, "-"),
			strconv.Itoa(n.Pods), strconv.Itoa(n.Staying), formatStart(n.Start), dashUnless(n.End.Latest.Duration > 0, FormatSpan(n.End)),
			dashUnless(n.Waits.Duration >= time.Second, n.WaitsFor+" "+duration.HumanDuration(n.Waits.Duration)), formatBlockers(&n, wide),
		}
		if wide {
			row = append(row, cmp.Or(n.Why, "-"))
		}
		rows = append(rows, row)
	}
	p.addTable(columns, rows)
}

func formatStart(start *simulate.Span) string {
	if start == nil {
		return "-"
	}
	return FormatSpan(*start)
}

// formatBlockers returns the first blocker and the number of the others. In a wide table it returns all
// blockers.
func formatBlockers(n *PlanNode, wide bool) string {
	switch all := n.BlockedBy; {
	case len(all) == 0 && n.NotReached:
		return "not reached"
	case len(all) == 0:
		return "-"
	case wide || len(all) == 1:
		return strings.Join(all, "; ")
	default:
		return fmt.Sprintf("%s (+%d)", all[0], len(all)-1)
	}
}

func planHeaderLines(p *Plan) []string {
	lines := []string{fmt.Sprintf("Group       %s (%s), context %s%s", p.Name, p.Kind, cmp.Or(p.Context, "-"), withPrefix(", ", p.Account))}
	switch refusal := preflight.FirstRefusal(p.Findings); {
	case p.Current == nil:
		return append(lines, "Target      not known")
	case len(p.Nodes) == 0 && p.Resumes == "" && refusal != nil:
		return append(lines, fmt.Sprintf("Target      %s: none of %s is outdated", p.To.Name, formatCount(*p.Current, "node")))
	case len(p.Nodes) == 0 && p.Resumes == "":
		return lines
	}
	target := fmt.Sprintf("Target      %s: %s", describeTarget(p), formatOutdatedCount(len(p.Nodes), len(p.Nodes)+*p.Current))
	if p.Unlabelled > 0 {
		target += fmt.Sprintf(", %d of them only because they lack a label of current nodes", p.Unlabelled)
	}
	lines = append(lines, target)
	if refusal := preflight.FirstRefusal(p.Findings); refusal != nil && refusal.Rule == preflight.RuleOwner {
		return lines // the owner decides how its nodes are replaced
	}
	lines = append(lines, describeStrategy(p))
	if op := p.Operation; op != nil {
		lines = append(lines, "Under way   "+describeOperation(op, p.Provider))
	}
	if p.MaxGrace.Duration > 0 {
		lines = append(lines, fmt.Sprintf("Grace       %s gives pods at most %s to end, as the group's settings say", managerName(p.Provider), duration.HumanDuration(p.MaxGrace.Duration)))
	}
	lines = append(lines, maintenanceLines(p.Maintenance, p.Provider)...)
	if p.Sizes.Max > 0 {
		lines = append(lines, formatSizes(p))
	}
	if len(p.Suspends) > 0 {
		lines = append(lines, "Suspends    "+strings.Join(p.Suspends, ", ")+" during the upgrade")
	}
	lines = append(lines, workloadLines(p)...)
	if p.Resumes != "" {
		lines = append(lines, "Continues   run "+p.Resumes)
	}
	return lines
}

// planVerdict returns the line that most readers look for: how many nodes are replaced, whether anything
// blocks them, and how long it takes. Its tone is at least as urgent as the most urgent finding.
func planVerdict(p *Plan) (tone, string) {
	refusal := preflight.FirstRefusal(p.Findings)
	switch {
	case refusal != nil:
		return bad, "Refused: " + refusal.Message + withPrefix(": ", refusal.Remedy)
	case p.Current == nil:
		return warning, "Unknown which nodes are outdated"
	case len(p.Nodes) == 0 && p.Resumes == "":
		return good, fmt.Sprintf("Nothing to do: %s current (%s)", AllNodesAre(*p.Current), p.To.Name)
	case len(p.Nodes) == 0:
		return max(good, p.findingsTone()), "No node to replace: the upgrade only removes added nodes and restores the group's settings"
	}
	text := formatCount(len(p.Nodes), "node") + " to replace" + describeBlockedNodes(p)
	if past := p.countDeletedPastBudgets(); past > 0 {
		text += fmt.Sprintf(", %s deleted against their budgets", formatCount(past, "pod"))
	}
	if lost := len(p.Unrecovered); lost > 0 {
		text += fmt.Sprintf(", %s left with fewer ready pods", formatCount(lost, "workload"))
	}
	if refused := p.countRefusedWorkloads(); refused > 0 {
		text += fmt.Sprintf(", the server refuses new pods of %s", formatCount(refused, "workload"))
	}
	return max(p.urgency(), p.findingsTone()), text + p.describeOutcome()
}

// urgency returns the tone of an upgrade that replaces nodes, without regard to findings.
func (p *Plan) urgency() tone {
	isBlocked := func(n PlanNode) bool { return len(n.BlockedBy) > 0 }
	switch {
	case p.NeedsAction() || slices.ContainsFunc(p.Nodes, isBlocked):
		return bad
	case p.countDeletedPastBudgets()+len(p.Unrecovered) > 0 || !p.knowsBlockers():
		return warning
	default:
		return good
	}
}

// findingsTone returns the tone of the most urgent finding that is not skipped.
func (p *Plan) findingsTone() tone {
	worst := calm
	for i := range p.Findings {
		if f := &p.Findings[i]; f.Skipped == "" {
			worst = max(worst, toneOfSeverity(string(f.Severity)))
		}
	}
	return worst
}

// knowsBlockers reports whether the plan would name every blocker: it has a forecast, everything was read, and
// every rule was checked.
func (p *Plan) knowsBlockers() bool {
	isUnknown := func(f preflight.Finding) bool { return f.Severity == preflight.Unknown && f.Skipped == "" }
	return p.Ends != nil && len(p.Unread) == 0 && !slices.ContainsFunc(p.Findings, isUnknown)
}

// describeBlockedNodes returns the number of blocked nodes. It says that there are none only if knowsBlockers.
func describeBlockedNodes(p *Plan) string {
	blocked := 0
	for i := range p.Nodes {
		if len(p.Nodes[i].BlockedBy) > 0 {
			blocked++
		}
	}
	switch {
	case blocked > 0:
		return fmt.Sprintf(", %d blocked", blocked)
	case p.knowsBlockers():
		return ", none blocked"
	default:
		return ", none known to be blocked"
	}
}

// describeOutcome returns how long the upgrade takes, or why it does not start or ends early.
func (p *Plan) describeOutcome() string {
	switch {
	case len(blockedStartLines(p)) > 0:
		return ": it does not start until each Blocked line is fixed"
	case p.Ends != nil && p.Ends.Fast.IsIncomplete():
		return fmt.Sprintf(": it ends as %s after %s", p.Ends.Fast.Result, duration.HumanDuration(p.Ends.Fast.After.Duration))
	case p.Ends != nil && p.Ends.Slow.IsIncomplete():
		return fmt.Sprintf(": in the slow case it ends as %s after %s", p.Ends.Slow.Result, duration.HumanDuration(p.Ends.Slow.After.Duration))
	case p.Duration.Latest.Duration > 0:
		return ", takes " + FormatSpan(p.Duration) + p.describeAwaitedNodes() + p.describeStopRisk()
	default:
		return ", for an unknown time"
	}
}

// describeStopRisk returns a warning if a finding of severity block may stop the upgrade after its start.
func (p *Plan) describeStopRisk() string {
	if slices.ContainsFunc(p.Findings, p.mayStopBy) {
		return ", unless a Blocked line stops it"
	}
	return ""
}

// describeAwaitedNodes returns the wait for new nodes that users must add. The duration of the plan does not include it.
func (p *Plan) describeAwaitedNodes() string {
	if p.AwaitsNodes == 0 {
		return ""
	}
	return " and the time until you bring " + formatCount(p.AwaitsNodes, "new node")
}

// countDeletedPastBudgets counts the pods that are deleted even though their budgets refuse it.
func (p *Plan) countDeletedPastBudgets() int {
	_, past := countDeletions(p.Deletions)
	return past
}

// countRefusedWorkloads counts the workloads whose new pods the server refused.
func (p *Plan) countRefusedWorkloads() int {
	n := 0
	for _, probe := range p.Probes {
		if probe.Refused {
			n++
		}
	}
	return n
}

// formatOutdatedCount returns how many of the group's nodes are outdated.
func formatOutdatedCount(n, all int) string {
	verb := "are"
	if n == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%d of %s %s outdated", n, formatCount(all, "node"), verb)
}

// AllNodesAre returns the subject and verb of a sentence about all nodes of a group: "all 4 nodes are".
func AllNodesAre(n int) string {
	if n == 1 {
		return "its only node is"
	}
	return fmt.Sprintf("all %d nodes are", n)
}

func describeStrategy(p *Plan) string {
	return "Strategy    " + upgrade.DescribeRequest(&p.Request, p.Provider)
}

// describeOperation returns what the provider's cloud is doing with a group, or how the operation ended, in one line.
func describeOperation(op *nodegroup.Operation, provider string) string {
	manager := nodegroup.InfoOf(provider).Manager
	text := fmt.Sprintf("%s (%s)", op.ID, op.Kind)
	if op.IsUpgrade() {
		text = fmt.Sprintf("%s %s to %s", cmp.Or(manager.Operation, "operation"), op.ID, op.To.Name)
	}
	if op.Force && manager.Forced != "" { // other clouds delete the pods that are left in any case
		text += ", with force"
	}
	text += ": " + string(op.State)
	if op.Stage != "" {
		text += " (" + op.Stage + ")"
	}
	if op.Failure != "" {
		text += ": " + op.Failure
	}
	return text
}

func describeTarget(p *Plan) string {
	text := p.To.Name
	if p.To.Image != "" {
		text += ", " + p.To.Image
	}
	if p.To.Kubernetes != "" {
		text += ", kubelet " + p.To.Kubernetes
	}
	if p.From.ID != p.To.ID {
		text += fmt.Sprintf(" (the group points at %s now)", p.From.Name)
	}
	return text
}

func formatSizes(p *Plan) string {
	text := fmt.Sprintf("Size        %s now (min %d, max %d)", formatCount(p.Sizes.Desired, "node"), p.Sizes.Min, p.Sizes.Max)
	if p.Request.Surge == 0 {
		return text + "; no node is added first"
	}
	parts := formatZoneSurges(p.Surge)
	switch {
	case len(parts) == 0:
		parts = []string{fmt.Sprintf("+%d", p.Request.Surge)}
	case p.Request.TakesTurns():
		parts[0] = "one zone after the other: " + parts[0]
	}
	return text + fmt.Sprintf(", at most %d during the upgrade (%s), %d afterwards", p.Peak, strings.Join(parts, ", "), cmp.Or(p.SizeAfter, p.Sizes.Desired))
}

// formatZoneSurges returns how many nodes are added in each zone. If three or more zones add the same number,
// it returns one part.
func formatZoneSurges(surge map[string]int) []string {
	var parts []string
	sizes := map[int]bool{}
	for _, zone := range slices.Sorted(maps.Keys(surge)) {
		if zone == "" {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s +%d", zone, surge[zone]))
		sizes[surge[zone]] = true
	}
	if len(parts) > 2 && len(sizes) == 1 {
		for n := range sizes {
			return []string{fmt.Sprintf("+%d in each of %d zones", n, len(parts))}
		}
	}
	return parts
}

// checkCommand is the command that shows all findings, unless a plan names another command.
const checkCommand = "kubectl nodeupgrade check"

func planFooterLines(p *Plan, o Options) []string {
	lines := append(blockedStartLines(p), forecastLines(p)...)
	for _, unread := range p.Unread {
		lines = append(lines, "Assumed     "+unread)
	}
	if o.Wide {
		for _, assumption := range p.Assumptions {
			lines = append(lines, "Assumed     "+assumption)
		}
	}
	for _, line := range p.LeftOut {
		lines = append(lines, "Left out    "+line)
	}
	lines = append(lines, findingLines(p.Findings, cmp.Or(p.CheckedBy, checkCommand))...)
	for _, probe := range p.Probes {
		if probe.Workload != "" {
			lines = append(lines, fmt.Sprintf("Probe       new pod of %s: %s", probe.Workload, probe.Answer))
			continue
		}
		lines = append(lines, fmt.Sprintf("Probe       pod %s%s: %s", probe.Pod, withPrefix(" under PDB ", probe.Budget), probe.Answer))
	}
	if len(lines) > 0 {
		lines = append([]string{""}, lines...)
	}
	return lines
}

// rulesBlockingStart returns the rules whose findings prevent the start of the upgrade, sorted.
func (p *Plan) rulesBlockingStart() []string {
	if nodegroup.InfoOf(p.Provider).Manager.BeginsByItself {
		return nil // it passes over the blocked nodes
	}
	var rules []string
	for i := range p.Findings {
		if f := &p.Findings[i]; p.isStoppedBy(f) && !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	slices.Sort(rules)
	return rules
}

// blockedStartLines returns a line with the rules that prevent the start of the upgrade. The forecast shows
// the upgrade without these rules.
func blockedStartLines(p *Plan) []string {
	rules := p.rulesBlockingStart()
	if len(rules) == 0 {
		return nil
	}
	return []string{"Begins      only after each Blocked line is fixed; until then the upgrade changes nothing and exits with an error. The rest of this plan shows the upgrade with --skip-check=" + strings.Join(rules, ",")}
}

// forecastLines returns a summary of the forecast.
func forecastLines(p *Plan) []string {
	if p.Duration.Latest.Duration == 0 || p.Evictions == nil || p.ExtraInstanceHours == nil {
		return nil
	}
	text := fmt.Sprintf("Takes       %s%s; %s", FormatSpan(p.Duration), p.describeAwaitedNodes(), formatCount(*p.Evictions, "eviction"))
	if pods, _ := countDeletions(p.Deletions); pods > 0 {
		text += fmt.Sprintf(", %s", formatCount(pods, "deletion"))
	}
	if p.Sizes.Max > 0 {
		extra := fmt.Sprintf("%.1f extra instance-hours", *p.ExtraInstanceHours)
		if *p.ExtraInstanceHours < 0 {
			extra = fmt.Sprintf("%.1f instance-hours fewer", -*p.ExtraInstanceHours)
		}
		text += fmt.Sprintf("; at most %s, %s", formatCount(p.Peak, "instance"), extra)
	}
	lines := []string{text}
	if p.Ends != nil && (p.Ends.Fast.IsIncomplete() || p.Ends.Slow.IsIncomplete()) {
		lines = append(lines, "Ends        "+describeEnds(p.Ends))
	}
	lines = append(lines, stuckLines(p.Nodes)...)
	if pods, past := countDeletions(p.Deletions); past > 0 || pods > 0 && p.Request.Strategy.Traits().ByCloud {
		lines = append(lines, "Deletes     "+p.describeDeletions())
	}
	lines = append(lines, unrecoveredLines(p.Unrecovered)...)
	if line := formatCapacity(&p.Room); line != "" {
		lines = append(lines, line)
	}
	return lines
}

// unrecoveredLines returns a line for each workload that keeps fewer ready pods.
func unrecoveredLines(all []simulate.Unrecovered) []string {
	var lines []string
	for i, u := range all {
		if i == maxNamedWorkloads {
			return append(lines, "Loses       ready pods of "+formatCount(len(all)-i, "more workload"))
		}
		lines = append(lines, fmt.Sprintf("Loses       ready pods of %s: it keeps %d of %d%s; the upgrade does not wait for it", u.Workload, u.Ready, u.Before, withPrefix(", because its new pods are refused: ", u.Why)))
	}
	return lines
}

// maxStuckNodes is how many stuck nodes a text describes. Documents contain all of them.
const maxStuckNodes = 3

// stuckLines returns the obstacles that would prevent drains and that no finding reports.
func stuckLines(nodes []PlanNode) []string {
	var lines []string
	more := 0
	for i := range nodes {
		switch n := &nodes[i]; {
		case n.Stuck == "":
		case len(lines) == maxStuckNodes:
			more++
		default:
			lines = append(lines, fmt.Sprintf("Stuck       node %s: %s", n.Name, n.Stuck))
		}
	}
	if more > 0 {
		lines = append(lines, "Stuck       "+formatCount(more, "more node"))
	}
	return lines
}

// describeEnds returns how an upgrade ends. It describes the slow case only if that differs.
func describeEnds(ends *PlanEnds) string {
	fast, slow := &ends.Fast, &ends.Slow
	if fast.Result == slow.Result && fast.Node == slow.Node && fast.NotReached == slow.NotReached {
		return describeEnding(slow, FormatSpan(simulate.Span{Earliest: fast.After, Latest: slow.After}))
	}
	return describeEnding(fast, FormatSpan(simulate.Span{Earliest: fast.After, Latest: fast.After})) +
		"; in the slow case " + describeEnding(slow, FormatSpan(simulate.Span{Earliest: slow.After, Latest: slow.After}))
}

func describeEnding(e *simulate.Ending, after string) string {
	text := ""
	switch {
	case e.Result == record.Succeeded:
		return "done after " + after
	case e.Result == record.LeftBehind:
		return "done after " + after + " except for nodes that cannot be drained, which are kept (left-behind)"
	case e.Node != "":
		text = fmt.Sprintf("%s after %s at node %s%s", e.Result, after, e.Node, Parenthesize(e.Blocker))
	default:
		text = fmt.Sprintf("%s after %s: %s", e.Result, after, e.Why)
	}
	if e.NotReached > 0 {
		text += fmt.Sprintf("; %s not reached", formatCount(e.NotReached, "node"))
	}
	return text
}

// countDeletions counts the pods that are deleted, and the ones among them that are deleted against their
// budgets.
func countDeletions(all []simulate.Deletion) (pods, past int) {
	for _, d := range all {
		pods += d.Pods
		past += d.PastBudget
	}
	return pods, past
}

// maxNamedDeletions is how many workloads with pods deleted against their budgets a text names. Documents
// contain all of them.
const maxNamedDeletions = 5

// describeDeletions names the workloads whose pods are deleted against their budgets, with the times. If a cloud upgrades the group, it
// names all workloads whose pods are deleted.
func (p *Plan) describeDeletions() string {
	pods, past := countDeletions(p.Deletions)
	byCloud := p.Request.Strategy.Traits().ByCloud
	var named []string
	more := 0
	for _, d := range p.Deletions {
		n := d.PastBudget
		if byCloud {
			n = d.Pods
		}
		switch {
		case n == 0:
		case len(named) == maxNamedDeletions:
			more++
		default:
			named = append(named, fmt.Sprintf("%d of %s after %s", n, d.Workload, duration.HumanDuration(d.After.Duration)))
		}
	}
	if more > 0 {
		named = append(named, formatCount(more, "more workload"))
	}
	list := strings.Join(named, ", ")
	switch {
	case !byCloud:
		return fmt.Sprintf("%s against their budgets: %s", formatCount(past, "pod"), list)
	case past == 0:
		return fmt.Sprintf("%s will delete %s: %s", managerName(p.Provider), formatCount(pods, "pod"), list)
	case past < pods:
		return fmt.Sprintf("%s will delete %s, %d of them against their budgets: %s", managerName(p.Provider), formatCount(pods, "pod"), past, list)
	default:
		return fmt.Sprintf("%s will delete %s against their budgets: %s", managerName(p.Provider), formatCount(pods, "pod"), list)
	}
}

// formatCapacity returns which pods must move and which nodes have room for them. It returns "" if that is not
// known.
func formatCapacity(r *simulate.Room) string {
	if r.Moves.Pods == 0 || (r.Nodes == 0 && r.Added.Pods == 0) {
		return ""
	}
	line := fmt.Sprintf("Room        %s must move (%s); ", formatCount(r.Moves.Pods, "pod"), formatResources(r.Moves))
	switch {
	case r.Nodes == 1:
		line += "1 other node can take them and has room for " + formatAmount(r.Free)
	case r.Nodes > 1:
		line += fmt.Sprintf("%d other nodes can take them and have room for %s", r.Nodes, formatAmount(r.Free))
	default:
		line += "only new nodes can take them"
	}
	if r.Added.Pods > 0 {
		line += "; the added nodes have room for " + formatAmount(r.Added)
	}
	return line
}

// formatAmount returns an amount in units that are easy to compare: "94 pods (12.5 CPU, 40.0 GiB)".
func formatAmount(a simulate.Amount) string {
	return fmt.Sprintf("%s (%s)", formatCount(a.Pods, "pod"), formatResources(a))
}

// formatResources returns an amount without the number of pods: "12.5 CPU, 40.0 GiB".
func formatResources(a simulate.Amount) string {
	return fmt.Sprintf("%.1f CPU, %.1f GiB", a.CPU.AsApproximateFloat64(), a.Memory.AsApproximateFloat64()/(1<<30))
}

// FormatSpan returns the earliest and the latest time, such as "3m10s-12m". It returns one time if both are
// equal.
func FormatSpan(s simulate.Span) string {
	early, late := duration.HumanDuration(s.Earliest.Duration), duration.HumanDuration(s.Latest.Duration)
	if early == late {
		return early
	}
	return early + "-" + late
}

// dashUnless returns the text, or "-" if the text has no meaning.
func dashUnless(hasMeaning bool, text string) string {
	if hasMeaning {
		return text
	}
	return "-"
}

// findingLines returns a line for each finding. Findings with the same rule and message share a line. Infos
// and rules that were not checked are only counted, and command is named as the way to see them.
func findingLines(all []preflight.Finding, command string) []string {
	var lines []string
	infos, unknown := 0, 0
	all = slices.DeleteFunc(slices.Clone(all), func(f preflight.Finding) bool {
		switch f.Severity {
		case preflight.Unknown:
			unknown++
		case preflight.Note:
			infos++
		}
		return !f.Severity.IsAtLeast(preflight.Warn) || f.Skipped != ""
	})
	for _, f := range mergeFindings(all, func(f *preflight.Finding) string { return f.Rule + f.Message }) {
		lines = append(lines, severityLabel(f.Severity)+f.String())
	}
	if infos > 0 {
		lines = append(lines, fmt.Sprintf("Checks      %s more: %s shows them", formatCount(infos, "info"), command))
	}
	if unknown > 0 {
		lines = append(lines, fmt.Sprintf("Not known   %s not checked, or only in part: %s shows which", formatCount(unknown, "rule"), command))
	}
	return lines
}

// DescribeRuleFindings returns a line for each message of one rule. Findings with the same message share a
// line.
func DescribeRuleFindings(all []preflight.Finding, rule string) []string {
	var lines []string
	ofRule := slices.DeleteFunc(slices.Clone(all), func(f preflight.Finding) bool { return f.Rule != rule })
	for _, f := range mergeFindings(ofRule, func(f *preflight.Finding) string { return f.Message }) {
		lines = append(lines, fmt.Sprintf("%s (%s): %s", f.Severity, f.Rule, f))
	}
	return lines
}

func severityLabel(s preflight.Severity) string {
	labels := map[preflight.Severity]string{preflight.Refuse: "Refused     ", preflight.Block: "Blocked     ", preflight.Error: "Error       "}
	return cmp.Or(labels[s], "Warning     ")
}
