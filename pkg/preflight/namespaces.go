package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/version"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/kubectl/pkg/util/qos"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// namespaceRules returns the rules about namespaces that refuse the pods which controllers create again.
func namespaceRules() []Rule {
	return []Rule{
		{
			ID: "NS001", Severity: Error, Reads: []string{"resourcequotas"}, find: findRefusingQuotas,
			Text:   "A ResourceQuota of the namespace allows less than is already used, for example because it was lowered or added later. Or it counts CPU or memory for which a container has no request or limit. Running pods stay, but the replacement of an evicted pod is refused. A quota that is used up exactly is reported only with --move=surge: otherwise the new pod is created after the old one is gone. The rule does not read LimitRanges, which may supply the missing requests.",
			Source: "apiserver/pkg/admission/plugin/resourcequota/controller.go, CheckRequest; kubernetes#89209; pkg/quota/v1/evaluator/core/pods.go, Constraints",
		},
		{
			ID: "NS002", Severity: Error, Reads: []string{"namespaces"}, find: findRefusedPods,
			Text:   "The namespace's label enforces a pod security level that the workload's pods do not meet, for example because the pods are older than the label. Running pods stay, but the replacement of an evicted pod is refused. The rule does not know exemptions in the API server's configuration.",
			Source: "k8s.io/pod-security-admission; kubernetes.io, Pod Security Admission",
		},
	}
}

// Refusal is why the API server would refuse new pods of a workload.
type Refusal struct {
	Why string
	// WhileOldExists is true if the API server refuses a new pod only as long as the old one exists.
	WhileOldExists bool
}

// ListRefusals returns the workloads whose new pods the API server would refuse according to the findings, by the workload's name
// in findings.
func ListRefusals(findings []Finding) map[string]Refusal {
	refusals := map[string]Refusal{}
	for i := range findings {
		f := &findings[i]
		if f.Skipped != "" || !slices.ContainsFunc(namespaceRules(), func(r Rule) bool { return r.ID == f.Rule }) {
			continue
		}
		if known, is := refusals[f.Workload]; !is || (known.WhileOldExists && !f.whileOldExists) {
			refusals[f.Workload] = Refusal{Why: f.Message, WhileOldExists: f.whileOldExists}
		}
	}
	return refusals
}

// findRefusingQuotas implements rule NS001. It returns a finding for each quota that refuses pods of a workload.
func findRefusingQuotas(s *Scene) []Finding {
	var found []Finding
	for _, w := range s.Workloads {
		if w.Kind == "Pod" {
			continue // no controller creates it again
		}
		model := w.Model()
		for _, quota := range s.Quotas {
			if quota.Namespace != w.Namespace || !isInScope(quota, model) {
				continue
			}
			if f := cmp.Or(s.findExceededResources(quota, model), findUnsetResources(quota, model)); f != nil {
				f.Workload, f.Object = w.String(), w.String()
				found = append(found, *f)
			}
		}
	}
	return found
}

// findExceededResources finds the resources of which the quota allows less than the usage. If the new pod comes before the old one leaves,
// the usage includes both. Pods that are being deleted do not count, because their resources become free when they end.
func (s *Scene) findExceededResources(quota *corev1.ResourceQuota, pod *corev1.Pod) *Finding {
	usage, ending := quotaUsage(pod), s.sumTerminatingPods(quota)
	var exceeded, raised, full []string
	change := fields{}
	for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
		asked, counts := usage[name]
		if !counts || asked.IsZero() {
			continue
		}
		hard, used := quota.Status.Hard[name], quota.Status.Used[name].DeepCopy()
		if wanted, is := quota.Spec.Hard[name]; is {
			hard = wanted // the status follows the spec in a moment
		}
		used.Sub(ending[name])
		needed := used.DeepCopy()
		if isMovedBySurge(s.World, pod) {
			needed.Add(asked)
		}
		if needed.Cmp(hard) <= 0 {
			continue
		}
		over := needed.DeepCopy()
		over.Sub(hard)
		exceeded = append(exceeded, fmt.Sprintf("%s at %s of %s, %s too much", name, used.String(), hard.String(), over.String()))
		raised = append(raised, fmt.Sprintf("%s to %s", name, needed.String()))
		if change[string(name)] = needed.String(); used.Cmp(hard) <= 0 {
			full = append(full, string(name))
		}
	}
	if len(exceeded) == 0 {
		return nil
	}
	f := &Finding{
		Message:        fmt.Sprintf("%s is exceeded: the replacement of an evicted pod is refused, with %s", nameObject("ResourceQuota", quota), strings.Join(exceeded, "; ")),
		Remedy:         fmt.Sprintf("raise its %s or more before the upgrade", strings.Join(raised, ", its ")),
		Fix:            patchCommand(mergePatch, "resourcequota", quota.Namespace, quota.Name, fields{"spec": fields{"hard": change}}),
		whileOldExists: len(full) == len(exceeded),
	}
	if f.whileOldExists {
		f.Message = fmt.Sprintf("%s has no room for another pod: --move=surge creates the new pod before the old one leaves, so the new pod is refused, with %s", nameObject("ResourceQuota", quota), strings.Join(exceeded, "; "))
		f.Remedy += ", or remove --move=surge"
	}
	return f
}

// sumTerminatingPods returns the resources of pods that are being deleted, as the quota counts them.
func (s *Scene) sumTerminatingPods(quota *corev1.ResourceQuota) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range s.Pods {
		if pod.Namespace != quota.Namespace || pod.DeletionTimestamp == nil || hasPodEnded(pod) || !isInScope(quota, pod) {
			continue
		}
		for name, quantity := range quotaUsage(pod) {
			all := sum[name]
			all.Add(quantity)
			sum[name] = all
		}
	}
	return sum
}

// findUnsetResources finds the resources that the quota counts and that containers of the pod do not set. It accepts pods with
// pod-level resources.
func findUnsetResources(quota *corev1.ResourceQuota, pod *corev1.Pod) *Finding {
	if helpers.IsPodLevelResourcesSet(pod) {
		return nil
	}
	var unstated []string
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
			if !setsResource(&c, name) {
				names = append(names, string(name))
			}
		}
		if len(names) > 0 {
			unstated = append(unstated, strings.Join(names, ", ")+" of container "+c.Name)
		}
	}
	if len(unstated) == 0 {
		return nil
	}
	what := strings.Join(unstated, "; ")
	return &Finding{
		Message: fmt.Sprintf("%s counts values that the pods do not set, %s: the replacement of an evicted pod is refused, unless a LimitRange of the namespace sets them", nameObject("ResourceQuota", quota), what),
		Remedy:  fmt.Sprintf("set %s in the pod template or in a LimitRange", what),
	}
}

// setsResource reports whether a container sets the resource that the quota counts under this name. Quotas require that only
// for CPU and memory.
func setsResource(c *corev1.Container, name corev1.ResourceName) bool {
	asked := map[corev1.ResourceName]bool{}
	for _, of := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		_, requested := c.Resources.Requests[of]
		_, limited := c.Resources.Limits[of]
		asked[of], asked[corev1.DefaultResourceRequestsPrefix+of], asked["limits."+of] = requested, requested, limited
	}
	stated, isAsked := asked[name]
	return stated || !isAsked
}

// quotaUsage returns a pod's resources as quotas count them (pkg/quota/v1/evaluator/core/pods.go, PodUsageFunc).
func quotaUsage(pod *corev1.Pod) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	usage := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	for name, quantity := range helpers.PodRequests(pod, helpers.PodResourcesOptions{}) {
		usage[name], usage[corev1.DefaultResourceRequestsPrefix+name] = quantity, quantity
	}
	for name, quantity := range helpers.PodLimits(pod, helpers.PodResourcesOptions{}) {
		usage["limits."+name] = quantity
	}
	return usage
}

// isInScope reports whether a quota counts the pod, because all of its scopes match.
func isInScope(quota *corev1.ResourceQuota, pod *corev1.Pod) bool {
	var asked []corev1.ScopedResourceSelectorRequirement
	for _, scope := range quota.Spec.Scopes {
		asked = append(asked, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if quota.Spec.ScopeSelector != nil {
		asked = append(asked, quota.Spec.ScopeSelector.MatchExpressions...)
	}
	return !slices.ContainsFunc(asked, func(r corev1.ScopedResourceSelectorRequirement) bool { return !matchesScope(&r, pod) })
}

// matchesScope reports whether a pod matches a quota's scope (pods.go, podMatchesScopeFunc). An unknown scope matches no pod.
func matchesScope(r *corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	hasDeadline := pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return hasDeadline
	case corev1.ResourceQuotaScopeNotTerminating:
		return !hasDeadline
	case corev1.ResourceQuotaScopeBestEffort:
		return qos.GetPodQOS(pod) == corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return qos.GetPodQOS(pod) != corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return hasCrossNamespaceAffinity(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return matchesPriorityClass(r, pod.Spec.PriorityClassName)
	default:
		return false
	}
}

// hasCrossNamespaceAffinity reports whether a pod affinity or anti-affinity term of the pod names namespaces (pods.go,
// usesCrossNamespacePodAffinity).
func hasCrossNamespaceAffinity(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	if a := affinity.PodAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, a.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm)
		}
	}
	if a := affinity.PodAntiAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, a.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm)
		}
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

func matchesPriorityClass(r *corev1.ScopedResourceSelectorRequirement, class string) bool {
	operators := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	asked, err := labels.NewRequirement(string(r.ScopeName), operators[r.Operator], r.Values)
	set := labels.Set{}
	if class != "" {
		set[string(r.ScopeName)] = class
	}
	return err == nil && asked.Matches(set)
}

// findRefusedPods implements rule NS002. It uses the checks of the cluster's Kubernetes version. If that is unknown or too new,
// it uses the newest version that the library knows.
func findRefusedPods(s *Scene) []Finding {
	var release *podsecurity.Version
	if server, err := version.ParseGeneric(s.Facts.ServerVersion); err == nil {
		known := podsecurity.MajorMinorVersion(int(server.Major()), int(server.Minor()))
		release = &known
	}
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), release)
	if err != nil {
		return nil // cannot happen: the library's checks are valid
	}
	return perWorkload(func(s *Scene, w *Workload) *Finding {
		namespace := s.namespaces[w.Namespace]
		if namespace == nil || namespace.Labels[podsecurity.EnforceLevelLabel] == "" || w.Kind == "Pod" {
			return nil
		}
		enforced, _ := podsecurity.PolicyToEvaluate(namespace.Labels, podsecurity.Policy{Enforce: podsecurity.LevelVersion{Version: podsecurity.LatestVersion()}}) // an unknown level counts as restricted
		pod := w.Model()
		result := policy.AggregateCheckResults(checks.EvaluatePod(enforced.Enforce, &metav1.ObjectMeta{Annotations: pod.Annotations}, &pod.Spec))
		if result.Allowed {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("namespace %s enforces the pod security level %s, which its pods do not meet: the replacement of an evicted pod is refused: %s",
				w.Namespace, enforced.Enforce.Level, result.ForbiddenDetail()),
			Remedy: fmt.Sprintf("change its pod template to meet that level, or set the namespace's label %s to a level that its pods meet", podsecurity.EnforceLevelLabel),
		}
	})(s)
}
