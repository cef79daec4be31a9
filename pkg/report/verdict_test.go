package report

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// A plan is green and says that nothing blocks only if that is known and no finding needs attention.
func TestPlanIsGreenOnlyIfNothingNeedsAttention(t *testing.T) {
	ending := func(result record.Result) simulate.Ending {
		return simulate.Ending{Result: result, After: length(9 * time.Minute)}
	}
	finding := func(severity preflight.Severity, skipped string) []preflight.Finding {
		return []preflight.Finding{{Rule: "X001", Severity: severity, Message: "m", Skipped: skipped}}
	}
	const known, unknown = "3 nodes to replace, none blocked", "3 nodes to replace, none known to be blocked"
	cases := map[string]struct {
		change func(*Plan)
		tone   tone
		text   string
	}{
		"nothing wrong":             {func(*Plan) {}, good, known + ", takes 8m-18m"},
		"something was not read":    {func(p *Plan) { p.Unread = []string{"no budgets: not in the dump"} }, warning, unknown + ", takes 8m-18m"},
		"a rule was not checked":    {func(p *Plan) { p.Findings = finding(preflight.Unknown, "") }, warning, unknown + ", takes 8m-18m"},
		"no forecast":               {func(p *Plan) { p.Ends, p.Duration = nil, simulate.Span{} }, warning, unknown + ", for an unknown time"},
		"a warning":                 {func(p *Plan) { p.Findings = finding(preflight.Warn, "") }, warning, known + ", takes 8m-18m"},
		"a warning that is skipped": {func(p *Plan) { p.Findings = finding(preflight.Warn, "user") }, good, known + ", takes 8m-18m"},
		"an error":                  {func(p *Plan) { p.Findings = finding(preflight.Error, "") }, bad, known + ", takes 8m-18m"},
		"a refusal":                 {func(p *Plan) { p.Findings = finding(preflight.Refuse, "") }, bad, "Refused: m"},
		"a block":                   {func(p *Plan) { p.Findings = finding(preflight.Block, "") }, bad, known + ": it does not start until each Blocked line is fixed"},
		"a blocked node":            {func(p *Plan) { p.Nodes[1].BlockedBy = []string{"PDB a/b"} }, bad, "3 nodes to replace, 1 blocked, takes 8m-18m"},
		"pods that are refused":     {func(p *Plan) { p.Probes = []Probe{{Workload: "Deployment a/b", Answer: "refused", Refused: true}} }, bad, known + ", the server refuses new pods of 1 workload, takes 8m-18m"},
		"deletions past budgets":    {func(p *Plan) { p.Deletions = []simulate.Deletion{{Workload: "a", Pods: 2, PastBudget: 1}} }, warning, known + ", 1 pod deleted against their budgets, takes 8m-18m"},
		"it ends early": {func(p *Plan) {
			p.Ends = &PlanEnds{Fast: ending(record.PodEvictionFailure), Slow: ending(record.PodEvictionFailure)}
		}, bad, known + ": it ends as " + string(record.PodEvictionFailure) + " after 9m"},
		"it ends early at worst": {func(p *Plan) {
			p.Ends = &PlanEnds{Fast: ending(record.Succeeded), Slow: ending(record.PodEvictionFailure)}
		}, bad, known + ": in the slow case it ends as " + string(record.PodEvictionFailure) + " after 9m"},
	}
	for name, c := range cases {
		p := surgePlan()
		c.change(p)
		if tone, text := planVerdict(p); tone != c.tone || text != c.text {
			t.Errorf("%s: tone %d, %q; want tone %d, %q", name, tone, text, c.tone, c.text)
		}
	}
}

// An upgrade after which workloads have fewer ready pods than before is not shown as good, even if it has
// ended.
func TestStatusIsNotGoodIfWorkloadsLackPods(t *testing.T) {
	lacks := record.WorkloadImpact{Name: "a/Deployment/b", Impact: record.Impact{Lacks: 1}}
	out := record.WorkloadImpact{Name: "a/Deployment/c", Impact: record.Impact{Out: true}}
	cases := map[string]struct {
		change func(*UpgradeStatus)
		tone   tone
		text   string
	}{
		"running":        {func(*UpgradeStatus) {}, good, "2 of 3 nodes replaced, 1 not started"},
		"not recovering": {func(s *UpgradeStatus) { s.Status.Unhealthy = []record.Unhealthy{{Name: "a/DaemonSet/d"}} }, warning, "2 of 3 nodes replaced, 1 not started, 1 workload with fewer ready pods than before"},
		"the same one twice": {func(s *UpgradeStatus) {
			s.Status.Unhealthy, s.Impacts = []record.Unhealthy{{Name: lacks.Name}}, []record.WorkloadImpact{lacks}
		}, warning, "2 of 3 nodes replaced, 1 not started, 1 workload with fewer ready pods than before"},
		"done":                     {func(s *UpgradeStatus) { s.Result = record.Succeeded }, good, "Done: 2 of 3 nodes replaced, 1 not started"},
		"done, a workload lacks":   {func(s *UpgradeStatus) { s.Result, s.Impacts = record.Succeeded, []record.WorkloadImpact{lacks} }, warning, "Done: 2 of 3 nodes replaced, 1 not started, 1 workload with fewer ready pods than before"},
		"done, a workload is down": {func(s *UpgradeStatus) { s.Result, s.Impacts = record.Succeeded, []record.WorkloadImpact{out, lacks} }, warning, "Done: 2 of 3 nodes replaced, 1 not started, 1 workload without a ready pod"},
		"failed":                   {func(s *UpgradeStatus) { s.Result = record.PodEvictionFailure }, bad, string(record.PodEvictionFailure) + ": 2 of 3 nodes replaced, 1 not started"},
	}
	for name, c := range cases {
		s := &UpgradeStatus{Run: "r", Status: record.Status{Total: 3, Replaced: 2, Outdated: 1}}
		c.change(s)
		if tone, text := statusVerdict(s); tone != c.tone || text != c.text {
			t.Errorf("%s: tone %d, %q; want tone %d, %q", name, tone, text, c.tone, c.text)
		}
	}
}

func TestDrainedNodesAreNotCountedAsReplaced(t *testing.T) {
	cases := map[string]struct {
		replaced, drained, total int
		want                     string
	}{
		"all are gone":        {3, 0, 3, "3 of 3 nodes replaced"},
		"all are drained":     {3, 3, 3, "3 of 3 nodes drained"},
		"some are drained":    {3, 1, 4, "2 of 4 nodes replaced, 1 drained"},
		"one node":            {1, 0, 1, "1 of 1 node replaced"},
		"nothing is done yet": {0, 0, 2, "0 of 2 nodes replaced"},
	}
	for name, c := range cases {
		if got := DescribeProgress(c.replaced, c.drained, c.total); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A plan says that the upgrade does not start only for rules that the upgrade itself checks. For other
// findings of severity block, the upgrade tries its first nodes.
func TestVerdictTellsIfBlockingFindingPreventsStart(t *testing.T) {
	for rule, want := range map[string]string{
		"PDB001": ": it does not start until each Blocked line is fixed",
		"POD003": ": it does not start until each Blocked line is fixed",
		"CAP001": ", unless a Blocked line stops it",
		"POD010": ", unless a Blocked line stops it",
		"WH001":  ", unless a Blocked line stops it",
	} {
		p := surgePlan()
		p.Findings = []preflight.Finding{{Rule: rule, Severity: preflight.Block, Message: "m"}}
		tone, text := planVerdict(p)
		if tone != bad || !strings.HasSuffix(text, want) || !p.NeedsAction() {
			t.Errorf("%s: tone %d, %q, structural %t; want %q", rule, tone, text, p.NeedsAction(), want)
		}
		if begins := len(blockedStartLines(p)) == 0; begins == strings.Contains(want, "does not start") {
			t.Errorf("%s: the lines say that it begins: %t", rule, begins)
		}
	}
}

// After the end of the upgrade, a status does not promise to remove added nodes.
func TestStatusPromisesToRemoveAddedNodesOnlyBeforeEnd(t *testing.T) {
	for result, want := range map[record.Result]string{
		"": "Gives back  2 added nodes", record.Paused: "Gives back  2 added nodes",
		record.Aborted: "Keeps       2 added nodes: ", record.Succeeded: "Keeps       2 added nodes: ", record.LeftBehind: "Keeps       2 added nodes: ",
	} {
		s := &UpgradeStatus{Run: "r1", Result: result, Status: record.Status{Owed: 2}}
		if text := strings.Join(statusHeaderLines(s, time.Now()), "\n"); !strings.Contains(text, want) {
			t.Errorf("%q: no %q in\n%s", result, want, text)
		}
	}
}
