package preflight

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Rule is one check of the catalogue. It is pure: all that it looks at is in the Scene.
type Rule struct {
	// ID is what findings, pages and --skip-check call it: "PDB001".
	ID string
	// Severity is that of its findings, unless one says otherwise.
	Severity Severity
	// Text says when it fires and what would come of it, in one or two sentences; Source is where
	// that is from.
	Text, Source string
	// Reads are the kinds that it looks at beside nodes and pods, as RBAC names them: without them it is not looked at.
	Reads []string
	// More are kinds in which it may find more: what it finds without them holds.
	More []string
	// Tried is true if an upgrade begins in spite of a finding of severity block: what its first nodes show decides.
	Tried bool
	// OfPlans is true if only plans look at it: it needs what the provider tells when a plan is made.
	OfPlans bool

	find func(*Scene) []Finding
}

// Catalogue is every rule, by id.
func Catalogue() []Rule {
	rules := slices.Concat(
		groupRules(), closedBudgetRules(), keptPodRules(),
		budgetRules(), replicaRules(), spreadRules(), terminationRules(), balancerRules(),
		probeRules(), rolloutRules(), statefulRolloutRules(), podRules(), deviceRules(), namespaceRules(), webhookRules(), systemRules(), capacityRules(),
	)
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules
}

// VolumeRules are the rules about volumes that keep pods from every other node.
func VolumeRules() []Rule {
	return slices.DeleteFunc(podRules(), func(r Rule) bool { return r.Severity != Block || !slices.Contains(r.Reads, "persistentvolumeclaims") })
}

// PlanRules are the rules that only plans look at.
func PlanRules() []Rule {
	return []Rule{{
		ID: ruleAddresses, Severity: Warn, OfPlans: true,
		Text: "A zone's subnets have fewer free addresses than the nodes that may be added there take, with their pods where these have addresses of the subnets. " +
			"New nodes or their pods wait until some are free.",
		Source: "GKE G41",
	}}
}

// StopsUpgrade reports whether an upgrade that fails at the first node that is not empty in time does not begin because of the finding.
func StopsUpgrade(f *Finding) bool {
	if f.Severity != Block || f.Skipped != "" {
		return false
	}
	rule, known := FindRule(f.Rule)
	return !known || !rule.Tried
}

// FindRule is the rule of the id, in upper or lower case.
func FindRule(id string) (Rule, bool) {
	rules := append(Catalogue(), PlanRules()...)
	i := slices.IndexFunc(rules, func(r Rule) bool { return strings.EqualFold(r.ID, id) })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

// Check applies the rules to the scene. Findings are sorted by workload, severity and rule; those
// of rules whose ids are in skip are left out.
func Check(s *Scene, rules []Rule, skip []string) []Finding {
	var found []Finding
	for i := range rules {
		rule := &rules[i]
		if slices.Contains(skip, rule.ID) {
			continue
		}
		if why := s.WhyUnread(rule.Reads...); why != "" {
			found = append(found, Finding{Rule: rule.ID, Severity: Unknown, Message: "not looked at: " + why})
			continue
		}
		if why := s.WhyUnread(rule.More...); why != "" {
			found = append(found, Finding{Rule: rule.ID, Severity: Unknown, Message: "looked at in part: " + why})
		}
		for _, f := range rule.find(s) {
			f.Rule, f.Severity = rule.ID, cmp.Or(f.Severity, rule.Severity)
			f.Skipped = s.skipReason(&f)
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, compareFindings)
	return omitForce(s.World, found)
}

func compareFindings(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(b.Severity.rank(), a.Severity.rank()), cmp.Compare(a.Workload, b.Workload),
		cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Object, b.Object),
	)
}

// perWorkload looks at one workload after the other. What it finds concerns that workload.
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

// perPod looks at pods of each workload, all or those that have to leave an outdated node, and
// perTemplate at one pod of each workload, whose pods are alike.
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

// perTemplate looks at one pod of each workload, whose pods are alike.
func perTemplate(look func(*Scene, *Workload, *corev1.Pod) *Finding) func(*Scene) []Finding {
	return perWorkload(func(s *Scene, w *Workload) *Finding { return look(s, w, w.Model()) })
}
