package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// CheckReport lists the findings of the rules about one node group before its upgrade.
type CheckReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Context is the kubeconfig context, or the file of the dump.
	Context string `json:"context,omitempty"`
	// Provider is where the nodes come from: aws, gke or manual (labels).
	Provider string `json:"provider"`
	// Kind says what the group is, in the words of its provider or of the controller that owns its nodes.
	Kind string `json:"groupKind"`
	// Nodes and Outdated count the group's nodes. If it is not known which nodes are outdated, Outdated is nil
	// and Unknown says why. Workloads counts the workloads with pods that must move.
	Nodes     int    `json:"nodes"`
	Outdated  *int   `json:"outdated,omitempty"`
	Unknown   string `json:"unknown,omitempty"`
	Workloads int    `json:"workloads"`
	// Assumptions lists what the findings depend on, one sentence each.
	Assumptions []string `json:"assumptions,omitempty"`
	// Unread names the kinds that were not read, with the reason. Rules that need them were not checked. It is
	// "" if all kinds were read.
	Unread string `json:"unread,omitempty"`
	// Findings are sorted by severity, the worst first.
	Findings []preflight.Finding `json:"findings"`
}

// DeepCopyObject returns a shallow copy, as that of List does.
func (r *CheckReport) DeepCopyObject() runtime.Object { c := *r; return &c }

// WorstSeverity returns the worst severity of the findings that count, "" if there are none.
func (r *CheckReport) WorstSeverity() preflight.Severity {
	for _, severity := range preflight.Severities() {
		if slices.ContainsFunc(r.Findings, func(f preflight.Finding) bool { return f.Severity == severity && f.Skipped == "" }) {
			return severity
		}
	}
	return ""
}

// countBySeverity counts the findings that are not skipped, by severity.
func (r *CheckReport) countBySeverity() map[preflight.Severity]int {
	counts := map[preflight.Severity]int{}
	for i := range r.Findings {
		if r.Findings[i].Skipped == "" {
			counts[r.Findings[i].Severity]++
		}
	}
	return counts
}

// WriteCheck writes the findings by workload. Findings about the whole group come first. A narrow table leaves
// out infos and counts them. Markdown has the commands that fix findings below the table, a wide table has
// them in its rows.
func WriteCheck(w io.Writer, r *CheckReport, o Options) error {
	out := newPage(w, o)
	out.addVerdict(checkVerdict(r))
	out.addLines(fmt.Sprintf("Group       %s (%s), context %s: %s", r.Name, r.Kind, cmp.Or(r.Context, "-"), describeOutdated(r)))
	for _, assumption := range r.Assumptions {
		out.addLines("Assumes     " + assumption)
	}
	columns := []column{{title: "WORKLOAD", wraps: true}, {title: "SEVERITY", alwaysShown: true, toneOf: toneOfSeverity}, {title: "RULE", alwaysShown: true}, {title: "OBJECT", wraps: true}, {title: "FINDING", wraps: true, alwaysShown: true}}
	if o.Wide {
		columns = append(columns, column{title: "FIX"})
	}
	if rows := findingRows(r.Findings, o); len(rows) > 0 {
		out.addLines("")
		out.addTable(columns, rows)
	}
	if footer := checkFooterLines(r, o); len(footer) > 0 {
		out.addLines("")
		out.addLines(footer...)
	}
	if o.Style == Markdown && hasFix(r) {
		out.Style = Plain // inside a code block
		out.addLines("", "Commands that fix some findings; read them before you run them:", "", "```sh")
		out.addFixCommands([]CheckReport{*r})
		out.addLines("```")
	}
	return out.err
}

// checkVerdict returns the number of findings of each severity as a sentence, with its tone.
func checkVerdict(r *CheckReport) (tone, string) {
	switch {
	case r.Outdated == nil:
		return warning, "Nothing was checked: " + r.Unknown + "; or pass --all-nodes to check as if all nodes were outdated"
	case *r.Outdated == 0:
		return warning, "No node is outdated, so nothing would move: pass --all-nodes to check as if all were"
	}
	counts := r.countBySeverity()
	var parts []string
	for _, severity := range preflight.Severities() {
		if n := counts[severity]; n > 0 {
			parts = append(parts, formatFindingCount(n, severity))
		}
	}
	switch unknown := counts[preflight.Unknown]; {
	case len(parts) > 0:
		return toneOfSeverity(string(r.WorstSeverity())), strings.Join(parts, ", ")
	case unknown > 0:
		return warning, "Nothing found, but some rules could not be checked"
	default:
		return good, "No rule found anything"
	}
}

func describeOutdated(r *CheckReport) string {
	if r.Outdated == nil {
		return fmt.Sprintf("it is unknown which of its %d nodes are outdated", r.Nodes)
	}
	verb := "run"
	if *r.Outdated == 1 {
		verb = "runs"
	}
	return fmt.Sprintf("%s and %s pods of %s", formatOutdatedCount(*r.Outdated, r.Nodes), verb, formatCount(r.Workloads, "workload"))
}

// hasFix reports whether a command fixes one of the findings.
func hasFix(r *CheckReport) bool {
	return slices.ContainsFunc(r.Findings, func(f preflight.Finding) bool { return f.Fix != "" && f.Skipped == "" })
}

// findingRows returns the findings by workload. Equal findings of one rule and workload share a row. Only the
// first row of a workload names it.
func findingRows(all []preflight.Finding, o Options) [][]string {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b preflight.Finding) int { return strings.Compare(a.Workload, b.Workload) })
	var rows [][]string
	before := "none yet"
	for _, f := range mergeUncheckedRules(mergeFindings(sorted, findingKey)) {
		if !o.Wide && o.Style != Markdown && (f.Severity == preflight.Note || f.Severity == preflight.Unknown) {
			continue
		}
		workload := cmp.Or(f.Workload, "(group)")
		if workload == before {
			workload = ""
		} else {
			before = workload
		}
		object := cmp.Or(f.Object, "-")
		if object == f.Workload {
			object = "-"
		}
		row := []string{workload, string(f.Severity), f.Rule, object, describeFinding(&f)}
		if o.Wide {
			row = append(row, cmp.Or(f.Fix, "-"))
		}
		rows = append(rows, row)
	}
	return rows
}

func describeFinding(f *preflight.Finding) string {
	text := f.Message
	if f.Remedy != "" {
		text += ": " + f.Remedy
	}
	if f.Skipped != "" {
		text += " (does not count: " + f.Skipped + ")"
	}
	return text
}

// mergeFindings merges findings that have the same key. The merged finding names the first object and counts
// the others.
func mergeFindings(all []preflight.Finding, key func(*preflight.Finding) string) []preflight.Finding {
	counts := map[string]int{}
	for i := range all {
		counts[key(&all[i])]++
	}
	var merged []preflight.Finding
	for i := range all {
		f := all[i]
		n := counts[key(&f)]
		if n == 0 {
			continue // already merged
		}
		delete(counts, key(&f))
		if n > 1 && f.Object != "" {
			f.Object += fmt.Sprintf(" and %d more", n-1)
		}
		merged = append(merged, f)
	}
	return merged
}

// findingKey returns the same key for findings that differ only in their object.
func findingKey(f *preflight.Finding) string {
	return strings.Join([]string{f.Workload, f.Rule, string(f.Severity), f.Message, f.Remedy}, "\x00")
}

// mergeUncheckedRules merges the findings of rules that could not be checked for the same reason.
func mergeUncheckedRules(all []preflight.Finding) []preflight.Finding {
	var joined []preflight.Finding
	rules := map[int][]string{} // by index in joined
	for i := range all {
		f := &all[i]
		same := slices.IndexFunc(joined, func(other preflight.Finding) bool {
			return f.Severity == preflight.Unknown && other.Severity == preflight.Unknown && other.Message == f.Message && other.Workload == f.Workload
		})
		if same < 0 {
			same, joined = len(joined), append(joined, *f)
		}
		rules[same] = append(rules[same], f.Rule)
	}
	for i, ids := range rules {
		if len(ids) > 1 {
			joined[i].Rule = fmt.Sprintf("%d rules", len(ids))
			joined[i].Message += " (" + strings.Join(ids, ", ") + ")"
		}
	}
	return joined
}

func checkFooterLines(r *CheckReport, o Options) []string {
	if r.Outdated == nil || *r.Outdated == 0 || len(r.Findings) == 0 {
		return nil
	}
	counts := r.countBySeverity()
	unknown := counts[preflight.Unknown]
	var lines []string
	if unknown > 0 {
		lines = append(lines, fmt.Sprintf("Not known   %s not checked, or only in part: %s", formatCount(unknown, "rule"), r.Unread))
	}
	if hidden := counts[preflight.Note] + unknown; hidden > 0 && !o.Wide && o.Style != Markdown {
		lines = append(lines, "See infos and rules that could not be checked with -o wide.")
	}
	lines = append(lines, "Read more of a rule with: "+shell.Command("kubectl nodeupgrade check --explain", r.Findings[0].Rule))
	if o.Style != Markdown && hasFix(r) {
		lines = append(lines, "Print commands that fix some findings with: -o patch")
	}
	return lines
}

// formatFindingCount returns the number of findings of a severity with its noun.
func formatFindingCount(n int, s preflight.Severity) string {
	switch s {
	case preflight.Refuse:
		return formatCount(n, "refusing finding")
	case preflight.Block:
		return formatCount(n, "blocking finding")
	default:
		return formatCount(n, string(s))
	}
}

// WritePatches writes a shell script with the commands that fix findings. Each command occurs once, below a
// comment with its finding. If the API server refuses new pods of a workload, a command that changes its pod
// template is commented out, because the rollout would not finish. If no finding has a command, comments name
// the findings. Comments also name groups that were not checked. ofCluster has the kubectl flags that select
// the checked cluster; it is empty for the current context. WritePatches returns the writer's error.
func WritePatches(w io.Writer, reports []CheckReport, ofCluster []string) error {
	out := newPage(w, Options{})
	fixable := slices.ContainsFunc(reports, func(r CheckReport) bool { return hasFix(&r) })
	if len(ofCluster) > 0 && fixable {
		out.addLines("kubectl() { command kubectl " + shell.Join(ofCluster) + ` "$@"; }`)
	}
	for i := range reports {
		if r := &reports[i]; r.Outdated == nil {
			out.addLines(fmt.Sprintf("# Group %s was not checked: %s", r.Name, r.Unknown))
		}
	}
	if fixable {
		out.addFixCommands(reports)
	} else {
		out.addFindingsWithoutFix(reports)
	}
	return out.err
}

// addFixCommands adds the commands that fix findings.
func (p *page) addFixCommands(reports []CheckReport) {
	var lines []string
	restarts := false
	seen := map[string]bool{}
	for i := range reports {
		refused := workloadsWithRefusedPods(reports[i].Findings)
		for _, f := range mergeFindings(reports[i].Findings, findingKey) {
			if f.Fix == "" || f.Skipped != "" || seen[f.Fix] {
				continue
			}
			seen[f.Fix] = true
			fix := f.Fix
			if patchesPodTemplate(fix) {
				restarts = true
				if refused[f.Workload] {
					fix = "# after its pods are no longer refused: " + fix
				}
			}
			lines = append(lines, shellComment(&f), fix)
		}
	}
	if restarts {
		p.addLines("# A patch of a pod template starts a rollout: the controller creates all of its pods again.")
	}
	p.addLines(lines...)
}

// addFindingsWithoutFix adds a comment for each finding. It is used if no finding has a command.
func (p *page) addFindingsWithoutFix(reports []CheckReport) {
	var lines []string
	for i := range reports {
		for _, f := range mergeFindings(reports[i].Findings, findingKey) {
			if f.Skipped == "" {
				lines = append(lines, shellComment(&f))
			}
		}
	}
	if len(lines) > 0 {
		p.addLines("# No command fixes these findings. kubectl nodeupgrade check shows what to do.")
		p.addLines(lines...)
	}
}

// shellComment returns a comment of a shell script that names the finding's rule and object.
func shellComment(f *preflight.Finding) string {
	return fmt.Sprintf("# %s %s: %s", f.Rule, cmp.Or(f.Object, f.Workload, f.Node, "group"), f.Message)
}

// patchesPodTemplate reports whether the command patches a pod template.
func patchesPodTemplate(command string) bool { return strings.Contains(command, `"template":`) }

// workloadsWithRefusedPods returns the workloads whose new pods the API server refuses, by their names in
// findings.
func workloadsWithRefusedPods(findings []preflight.Finding) map[string]bool {
	refused := map[string]bool{}
	for i := range findings {
		if f := &findings[i]; f.Skipped == "" && slices.Contains([]string{"NS001", "NS002", "WH001"}, f.Rule) {
			refused[f.Workload] = true
		}
	}
	return refused
}

// WriteRule writes the description of a rule.
func WriteRule(w io.Writer, r *preflight.Rule) error {
	lines := []string{fmt.Sprintf("%s (%s)", r.ID, r.Severity), "", r.Text, "", "Source: " + r.Source}
	if len(r.Reads) > 0 {
		lines = append(lines, "Reads: "+strings.Join(r.Reads, ", "))
	}
	if len(r.More) > 0 {
		lines = append(lines, "It checks more if you may also read: "+strings.Join(r.More, ", "))
	}
	out := newPage(w, Options{})
	out.addLines(append(lines, "")...)
	switch {
	case r.OfPlans:
		out.addLines("Only a plan (--dry-run) checks this rule. Skip it with --skip-check=" + r.ID + ".")
	case r.Severity == preflight.Refuse:
		out.addLines("This rule refuses the upgrade and cannot be skipped.")
	default:
		out.addLines(
			fmt.Sprintf("Skip it with --skip-check=%s, or for one workload with an annotation that gives the reason:", r.ID),
			"  "+shell.Command("kubectl annotate -n NAMESPACE KIND NAME", preflight.AnnotationSkip+r.ID+"=the reason"))
	}
	return out.err
}
