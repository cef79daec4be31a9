package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// spreadRules returns the rules about where a workload's pods are, and where they may go.
func spreadRules() []Rule {
	return []Rule{
		{
			ID: "TSC001", Severity: Warn, Reads: []string{"services"}, find: perTemplate(findMissingSpread),
			Text:   "Two or more replicas behind a service have neither a topology spread constraint nor a pod anti-affinity. They may all be on one node or in one zone, so one drain may evict most of them. A constraint whose selector matches only other pods does not count.",
			Source: "kubernetes.io, Pod Topology Spread Constraints; kubernetes#31487",
		},
		{
			ID: "TSC002", Severity: Error, find: perTemplate(findEmptyDomains),
			Text:   "A spread constraint with DoNotSchedule and without nodeTaintsPolicy: Honor counts drained nodes as empty. The other nodes or zones may then have at most maxSkew pods each, which is too few at some moment of the upgrade: pods stay Pending. A minDomains that is larger than the number of nodes or zones left has the same effect. There is no finding if the nodes that stay and the nodes that are added first have room.",
			Source: "podtopologyspread/common.go, filtering.go; kubernetes#106127, kubernetes#107464, karpenter#2257",
		},
		{
			ID: "TSC003", Severity: Error, find: perTemplate(findTooFewAntiAffinityDomains),
			Text:   "A required pod anti-affinity allows one replica per node or zone. At some moment of the upgrade there are fewer nodes or zones than replicas, even with the nodes that are added first. Pods then stay Pending until another node comes up.",
			Source: "kops#16417",
		},
		{
			ID: "TSC004", Severity: Warn, find: perTemplate(findSkew),
			Text:   "A node or zone with outdated nodes has more of a workload's pods than a DoNotSchedule constraint allows. The scheduler checks a constraint only when it places a pod, so pods may be uneven after scaling in. The drain then evicts more of them at the same time. Nodes without any of the pods do not count.",
			Source: "kubernetes.io, Pod Topology Spread Constraints, known limitations; kubernetes#48307",
		},
		{
			ID: "TSC005", Severity: Note, Reads: []string{"configmaps"}, find: findDeschedulerPolicies,
			Text:   "A descheduler's policy has version v1alpha1, which v0.31 removed. Or it evicts pods without nodeFit, which first checks that another node fits the pod. Or it ignores the soft spread constraints that pods on outdated nodes have.",
			Source: "descheduler#851, descheduler#1375; its README",
		},
		{
			ID: "TSC006", Severity: Note, find: perTemplate(findMixedVersions),
			Text:   "A Deployment's spread constraint with DoNotSchedule counts pods of old and new versions together, because its matchLabelKeys lack pod-template-hash. After a rollout the new pods may be spread unevenly.",
			Source: "kubernetes.io, Pod Topology Spread Constraints, matchLabelKeys",
		},
	}
}

func findMissingSpread(s *Scene, w *Workload, model *corev1.Pod) *Finding {
	if !w.IsScaled() || !w.IsServing() || w.Replicas() < 2 || isSpread(model) {
		return nil
	}
	key := corev1.LabelTopologyZone
	if d := s.findDomains(w, key); len(d.open)+len(d.closedDomains()) < 2 && len(s.World.Group.Zones) < 2 {
		key = corev1.LabelHostname
	}
	f := &Finding{
		Message: fmt.Sprintf("no constraint spreads its %d replicas, so one drain may evict most of them", w.Replicas()),
		Remedy:  fmt.Sprintf("add a topologySpreadConstraint with maxSkew 1 and topologyKey %s", key),
	}
	selector := w.podSelector()
	if selector == nil || len(model.Spec.TopologySpreadConstraints) > 0 {
		return f
	}
	constraint := fields{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": corev1.ScheduleAnyway, "labelSelector": selector}
	if w.Kind == "Deployment" {
		constraint["matchLabelKeys"] = []string{appsv1.DefaultDeploymentUniqueLabelKey}
	}
	f.Fix = w.patchTemplateCommand(fields{"topologySpreadConstraints": []fields{constraint}})
	return f
}

// isSpread reports whether the pod has a constraint or anti-affinity against pods like itself.
func isSpread(pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return selects(c.LabelSelector, pod.Labels) }) {
		return true
	}
	return slices.ContainsFunc(antiAffinityTerms(pod), func(term corev1.PodAffinityTerm) bool { return selects(term.LabelSelector, pod.Labels) })
}

// antiAffinityTerms returns the terms of the pod's anti-affinity, required and preferred.
func antiAffinityTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	terms := slices.Clone(requiredAntiAffinityTerms(pod))
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.PodAntiAffinity != nil {
		for _, preferred := range affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, preferred.PodAffinityTerm)
		}
	}
	return terms
}

// requiredAntiAffinityTerms returns the terms of the pod's required anti-affinity.
func requiredAntiAffinityTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// podSelector returns the workload's pod selector, nil if it was not read.
func (w *Workload) podSelector() *metav1.LabelSelector {
	switch {
	case w.Deployment != nil:
		return w.Deployment.Spec.Selector
	case w.StatefulSet != nil:
		return w.StatefulSet.Spec.Selector
	default:
		return nil
	}
}

// hardConstraints returns the spread constraints that can leave the pod Pending.
func hardConstraints(pod *corev1.Pod) []corev1.TopologySpreadConstraint {
	return slices.DeleteFunc(slices.Clone(pod.Spec.TopologySpreadConstraints), func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable != corev1.DoNotSchedule || !selects(c.LabelSelector, pod.Labels)
	})
}

func findEmptyDomains(s *Scene, w *Workload, model *corev1.Pod) *Finding {
	for _, c := range hardConstraints(model) {
		if f := findTooFewDomains(s, w, model, &c); f != nil {
			return f
		}
		if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor {
			continue
		}
		crowd := s.findWorstCrowding(w, c.TopologyKey, int(c.MaxSkew))
		if crowd == nil {
			continue
		}
		if crowd.hasNoNode {
			return s.makeNoNodeFinding(&c)
		}
		return &Finding{
			Message: fmt.Sprintf("its spread constraint on %s counts drained nodes as empty and allows only %s per %s: during the upgrade %s, so some stay Pending",
				c.TopologyKey, formatCount(int(c.MaxSkew), "pod"), nameDomain(c.TopologyKey), crowd.describe(c.TopologyKey)),
			Remedy: "set nodeTaintsPolicy: Honor in the constraint, so that fenced nodes do not count",
			Fix:    w.patchConstraintCommand(model, c.TopologyKey, fields{"nodeTaintsPolicy": corev1.NodeInclusionPolicyHonor}),
		}
	}
	return nil
}

// makeNoNodeFinding returns the finding that no node takes the pods at first. No change of the
// constraint alone can fix that.
func (s *Scene) makeNoNodeFinding(c *corev1.TopologySpreadConstraint) *Finding {
	return &Finding{
		Message: fmt.Sprintf("no suitable node stays, and none is added before the first drain: its pods stay Pending until a node is added, and its spread constraint on %s keeps some of them from that node", c.TopologyKey),
		Remedy:  cmp.Or(adviseSurge(s.World, 1), "add a node that takes them before the upgrade") + ", and set nodeTaintsPolicy: Honor in the constraint",
	}
}

// findTooFewDomains checks minDomains. With fewer domains, the scheduler assumes a domain without
// pods (podtopologyspread/filtering.go, minMatchNum), whatever nodeTaintsPolicy is.
func findTooFewDomains(s *Scene, w *Workload, model *corev1.Pod, c *corev1.TopologySpreadConstraint) *Finding {
	if c.MinDomains == nil {
		return nil
	}
	left := s.countDomainsLeft(w, c.TopologyKey)
	crowd := s.findWorstCrowding(w, c.TopologyKey, int(c.MaxSkew))
	if left == 0 || left >= int(*c.MinDomains) || crowd == nil {
		return nil
	}
	place := nameDomain(c.TopologyKey)
	return &Finding{
		Message: fmt.Sprintf("its spread constraint on %s has minDomains %d, but only %s will have nodes, so it allows only %s in each: during the upgrade %s, so some stay Pending",
			c.TopologyKey, *c.MinDomains, formatCount(left, place), formatCount(int(c.MaxSkew), "pod"), crowd.describe(c.TopologyKey)),
		Remedy: fmt.Sprintf("add a node in another %s first, or set minDomains: %d and nodeTaintsPolicy: Honor in the constraint", place, left),
		Fix:    w.patchConstraintCommand(model, c.TopologyKey, fields{"minDomains": left, "nodeTaintsPolicy": corev1.NodeInclusionPolicyHonor}),
	}
}

// countDomainsLeft returns how many values of the key the nodes will have when the outdated nodes
// are gone. It counts the nodes that stay and the nodes that the group adds as replacements.
func (s *Scene) countDomainsLeft(w *Workload, key string) int {
	d := s.findDomains(w, key)
	if s.World.Group.Can.Refill != nodegroup.RefillByUser && key == corev1.LabelHostname {
		return len(d.open) + len(s.outdated)
	}
	left := maps.Clone(d.open)
	if s.World.Group.Can.Refill != nodegroup.RefillByUser {
		maps.Copy(left, d.outdated)
	}
	return len(left)
}

// patchConstraintCommand returns the command that changes the spread constraint with the key. It returns
// "" if several constraints have the key.
func (w *Workload) patchConstraintCommand(model *corev1.Pod, key string, change fields) string {
	same := 0
	for i := range model.Spec.TopologySpreadConstraints {
		if model.Spec.TopologySpreadConstraints[i].TopologyKey == key {
			same++
		}
	}
	if same != 1 {
		return ""
	}
	change["topologyKey"] = key
	return w.patchTemplateCommand(fields{"topologySpreadConstraints": []fields{change}})
}

func findTooFewAntiAffinityDomains(s *Scene, w *Workload, model *corev1.Pod) *Finding {
	for _, term := range requiredAntiAffinityTerms(model) {
		if !selects(term.LabelSelector, model.Labels) {
			continue
		}
		crowd := s.findWorstCrowding(w, term.TopologyKey, 1)
		if crowd == nil {
			continue
		}
		f := &Finding{
			Message: fmt.Sprintf("its required anti-affinity allows one pod per %s: during the upgrade %s, so some stay Pending", nameDomain(term.TopologyKey), crowd.describe(term.TopologyKey)),
			Remedy:  "make it a preferred anti-affinity",
			Fix:     w.preferAntiAffinityCommand(model),
		}
		if surge := s.World.Request.Surge + crowd.missing; s.World.Group.Can.Resize && term.TopologyKey == corev1.LabelHostname {
			f.Remedy = joinAlternatives(adviseSurge(s.World, surge), f.Remedy)
		}
		return f
	}
	return nil
}

// preferAntiAffinityCommand returns the command that makes the only term of a required anti-affinity a preferred
// one.
func (w *Workload) preferAntiAffinityCommand(model *corev1.Pod) string {
	affinity := model.Spec.Affinity.PodAntiAffinity
	if len(affinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1 || len(affinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		return ""
	}
	term := affinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	return w.patchTemplateCommand(fields{"affinity": fields{"podAntiAffinity": fields{
		"requiredDuringSchedulingIgnoredDuringExecution":  nil,
		"preferredDuringSchedulingIgnoredDuringExecution": []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term}},
	}}})
}

func findSkew(s *Scene, w *Workload, model *corev1.Pod) *Finding {
	for _, c := range hardConstraints(model) {
		if f := s.findSkewOf(w, &c); f != nil {
			return f
		}
	}
	return nil
}

// findSkewOf returns a finding if a node or zone has more of the pods than a constraint allows, nil
// otherwise.
func (s *Scene) findSkewOf(w *Workload, c *corev1.TopologySpreadConstraint) *Finding {
	d := s.findDomains(w, c.TopologyKey)
	fullest, emptiest, fair := d.findExtremes(c.TopologyKey)
	most, least := d.pods[fullest], d.pods[emptiest]
	if most-least <= int(c.MaxSkew) || most <= fair || !d.outdated[fullest] {
		return nil
	}
	thing := nameDomain(c.TopologyKey)
	return &Finding{
		Message: fmt.Sprintf("%s %s has %d of its %s and %s %s has %d, though the constraint's maxSkew is %d", thing, fullest, most, formatCount(len(w.Pods), "pod"), thing, emptiest, least, c.MaxSkew),
		Remedy:  fmt.Sprintf("delete one of those %d before the upgrade, or let the descheduler's %s do that", most, spreadPlugin),
	}
}

func findMixedVersions(_ *Scene, w *Workload, model *corev1.Pod) *Finding {
	if w.Kind != "Deployment" {
		return nil
	}
	for _, c := range hardConstraints(model) {
		if slices.Contains(c.MatchLabelKeys, appsv1.DefaultDeploymentUniqueLabelKey) {
			continue
		}
		keys := append(slices.Clone(c.MatchLabelKeys), appsv1.DefaultDeploymentUniqueLabelKey)
		return &Finding{
			Message: fmt.Sprintf("its spread constraint on %s also counts pods of the old version, so the new pods may be spread unevenly after a rollout", c.TopologyKey),
			Remedy:  fmt.Sprintf("set matchLabelKeys: [%s] in the constraint", strings.Join(keys, ", ")),
			Fix:     w.patchConstraintCommand(model, c.TopologyKey, fields{"matchLabelKeys": keys}),
		}
	}
	return nil
}
