package preflight

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Rule is one check of the catalogue. It is pure: it looks only at the Scene.
type Rule struct {
	// ID is the name in findings, in the documentation and in --skip-check: "PDB001".
	ID string
	// Severity is the default severity of its findings.
	Severity Severity
	// Text says in one or two sentences when the rule finds something and what the consequence is. Source is the source of that.
	Text, Source string
	// Reads are the kinds that the rule needs besides nodes and pods, as RBAC names them. Without them the rule is not checked.
	Reads []string
	// More are kinds with which the rule may find more. Its findings without them are valid.
	More []string
	// StartsAnyway is true if an upgrade starts in spite of a finding with severity block, because only its first nodes can show whether
	// it is right.
	StartsAnyway bool
	// OfPlans is true if only plans check the rule, because it needs information that the provider gives only for a plan.
	OfPlans bool

	find func(*Scene) []Finding
}

// Catalogue returns every rule, sorted by ID.
func Catalogue() []Rule {
	rules := slices.Concat(
		groupRules(), closedBudgetRules(), unmovablePodRules(),
		budgetRules(), replicaRules(), spreadRules(), terminationRules(), balancerRules(),
		probeRules(), rolloutRules(), statefulRolloutRules(), podRules(), deviceRules(), namespaceRules(), webhookRules(), systemRules(), nodePoolRules(), capacityRules(),
	)
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules
}

// VolumeRules returns the rules about volumes that no other node can use.
func VolumeRules() []Rule {
	return slices.DeleteFunc(podRules(), func(r Rule) bool { return r.Severity != Block || !slices.Contains(r.Reads, "persistentvolumeclaims") })
}

// PlanRules returns the rules that only plans check.
func PlanRules() []Rule {
	return []Rule{{
		ID: ruleAddresses, Severity: Warn, OfPlans: true,
		Text:   "A zone's subnets have fewer free addresses than new nodes in that zone need. Their pods count too if pods get addresses from the subnets. New nodes or their pods stay Pending until addresses are free.",
		Source: "GKE G41",
	}}
}

// RuleUnmanaged is the ID of the rule about pods without a controller.
const RuleUnmanaged = "POD001"

// StopsUpgrade reports whether the finding prevents the start of an upgrade with the request. continues is true if the
// upgrade began before. Findings of severity block stop an upgrade that begins, and that fails at the first node whose
// drain exceeds its time. A pod without a controller stops every upgrade, unless the request sets what happens to such
// pods or to nodes that cannot be drained: nothing would create the pod again.
func StopsUpgrade(f *Finding, request *record.Request, continues bool) bool {
	if f.Severity != Block || f.Skipped != "" {
		return false
	}
	if f.Rule == RuleUnmanaged {
		return request.OnTimeout == record.Fail && !request.EvictUnmanaged
	}
	rule, known := FindRule(f.Rule)
	return request.RefusesBlocked() && !continues && (!known || !rule.StartsAnyway)
}

// FindRule returns the rule with the ID, in upper or lower case.
func FindRule(id string) (Rule, bool) {
	rules := append(Catalogue(), PlanRules()...)
	i := slices.IndexFunc(rules, func(r Rule) bool { return strings.EqualFold(r.ID, id) })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

// Check applies the rules to the scene. It returns the findings sorted by severity, workload and rule, without the rules in skip.
func Check(s *Scene, rules []Rule, skip []string) []Finding {
	var found []Finding
	for i := range rules {
		rule := &rules[i]
		if slices.Contains(skip, rule.ID) {
			continue
		}
		if why := s.DescribeUnread(rule.Reads...); why != "" {
			found = append(found, Finding{Rule: rule.ID, Severity: Unknown, Message: "not checked: " + why})
			continue
		}
		if why := s.DescribeUnread(rule.More...); why != "" {
			found = append(found, Finding{Rule: rule.ID, Severity: Unknown, Message: "checked in part: " + why})
		}
		for _, f := range rule.find(s) {
			f.Rule, f.Severity = rule.ID, cmp.Or(f.Severity, rule.Severity)
			f.Skipped = s.skipReason(&f)
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, compareFindings)
	return omitForceAdvice(s.World, found)
}

func compareFindings(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(b.Severity.rank(), a.Severity.rank()), cmp.Compare(a.Workload, b.Workload),
		cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Object, b.Object),
	)
}

// perWorkload calls look for each workload. The findings concern that workload.
func perWorkload(look func(*Scene, *Workload) *Finding) func(*Scene) []Finding {
	return func(s *Scene) []Finding {
		var found []Finding
		for _, w := range s.Workloads {
			if f := look(s, w); f != nil {
				f.Workload, f.Object = w.String(), cmp.Or(f.Object, w.String())
				found = append(found, *f)
			}
		}
		return found
	}
}

func allPods(w *Workload) []*corev1.Pod     { return w.Pods }
func leavingPods(w *Workload) []*corev1.Pod { return w.Leaving }

// perPod calls look for pods of each workload: all pods, or the pods that must leave an outdated node.
func perPod(podsOf func(*Workload) []*corev1.Pod, look func(*Scene, *Workload, *corev1.Pod) *Finding) func(*Scene) []Finding {
	return func(s *Scene) []Finding {
		var found []Finding
		for _, w := range s.Workloads {
			for _, pod := range podsOf(w) {
				if f := look(s, w, pod); f != nil {
					f.Workload, f.Object = w.String(), cmp.Or(f.Object, nameObject("pod", pod))
					if s.outdated[pod.Spec.NodeName] {
						f.Node = pod.Spec.NodeName
					}
					found = append(found, *f)
				}
			}
		}
		return found
	}
}

// perTemplate calls look for one pod of each workload, because the pods of a workload are alike.
func perTemplate(look func(*Scene, *Workload, *corev1.Pod) *Finding) func(*Scene) []Finding {
	return perWorkload(func(s *Scene, w *Workload) *Finding { return look(s, w, w.Model()) })
}
