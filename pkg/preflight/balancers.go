package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// gatePrefix is the prefix of the AWS Load Balancer Controller's readiness gates, oldGatePrefix
	// that of its version 1.
	gatePrefix, oldGatePrefix = "target-health.elbv2.k8s.aws/", "target-health.alb.ingress.k8s.aws/"
	// gateLabel is the label of namespaces in whose pods the controller's webhook, gateHook, adds
	// gates.
	gateLabel, gateHook = "elbv2.k8s.aws/pod-readiness-gate-inject", "mpod.elbv2.k8s.aws"
	// gatePatience is how long a gate may take until its condition is true.
	gatePatience = 5 * time.Minute
)

// balancerRules returns the rules about load balancers that send to pods. CheckServices has one
// more, LB006.
func balancerRules() []Rule {
	return []Rule{
		{
			ID: "LB001", Severity: Error, Reads: []string{"services"}, More: balancerKinds(), find: perWorkload(findPodsWithoutGate),
			Text:   "An AWS load balancer sends requests to the IP addresses of pods, and some of these pods have no readiness gate. Kubernetes then counts a new pod as ready before the load balancer sends to it, so a drain may evict the last pod that the load balancer sends to. The finding is a warning if the namespace has the label that adds readiness gates.",
			Source: "kubernetes-sigs.github.io/aws-load-balancer-controller, \"Pod readiness gate\"; aws-load-balancer-controller#1719",
		},
		{
			ID: "LB002", Severity: Warn, find: perTemplate(findOldGate),
			Text:   "A pod has a readiness gate of version 1 of the ALB Ingress Controller. Version 2 does not set it, so new pods never become ready.",
			Source: "kubernetes-sigs.github.io/aws-load-balancer-controller, \"Migrate v1 to v2\"",
		},
		{
			ID: "LB003", Severity: Error, find: perPod(allPods, findUnmetGate),
			Text:   "All containers of a pod are ready, but one of its readiness gates has not been met for 5 min. The pod is therefore not ready, and its budget may refuse the eviction of other pods. The same may happen to the pods that the upgrade moves.",
			Source: "KEP-580; kubernetes.io, \"Pod Lifecycle\"",
		},
		{
			ID: "LB004", Severity: Warn, Reads: []string{"services", "mutatingwebhookconfigurations"}, find: findGateWebhookOutage,
			Text:   "The webhook that adds readiness gates to pods has failurePolicy Ignore, and a drain may evict all pods of the AWS Load Balancer Controller at the same time. Pods that are created during that time get no gate. With failurePolicy Fail such pods would be refused: see WH001.",
			Source: "aws-load-balancer-controller, helm/…/webhook.yaml (Ignore since v2.11.1)",
		},
		{
			ID: "LB005", Severity: Note, Reads: []string{"services", "mutatingwebhookconfigurations"}, More: balancerKinds(), find: perTemplate(findPodsExcludedFromGates),
			Text:   "A namespace has the label that adds readiness gates, but the webhook's objectSelector excludes some of its pods. An AWS load balancer sends requests to the IP addresses of these pods.",
			Source: "aws-load-balancer-controller, helm/…/values.yaml (objectSelector)",
		},
		{
			ID: "LB007", Severity: Note, Reads: []string{"services", "ingresses"}, find: findOldIngresses,
			Text:   "An Ingress was last applied as extensions/v1beta1 or networking.k8s.io/v1beta1, which Kubernetes 1.22 removed. The next kubectl apply of its file will fail.",
			Source: "kubernetes.io, \"Deprecated API Migration Guide\" (v1.22)",
		},
		{
			ID: "LB008", Severity: Warn, Reads: []string{"services"}, More: balancerKinds(), find: findShortSettle,
			Text:   "A load balancer sends requests to nodes, and an annotation sets a deregistration delay that is longer than --settle. The node is terminated before the delay is over, so connections through it to pods on other nodes are cut off. The rule checks neither the default delay nor target groups that the upgrade watches.",
			Source: "kubernetes#90823, #111691; docs.aws.amazon.com, \"Edit target group attributes\"",
		},
	}
}

// hasGate reports whether the pod has a readiness gate with the prefix.
func hasGate(pod *corev1.Pod, prefix string) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool {
		return strings.HasPrefix(string(gate.ConditionType), prefix)
	})
}

// findPodsWithoutGate implements rule LB001. It checks all pods, because some may be older than the gate.
func findPodsWithoutGate(s *Scene, w *Workload) *Finding {
	target, ungated := findAddressTarget(w), 0
	for _, pod := range w.Pods {
		if !hasGate(pod, gatePrefix) && !hasGate(pod, oldGatePrefix) && !isExcludedFromGates(s, pod) {
			ungated++
		}
	}
	if target == "" || ungated == 0 {
		return nil
	}
	who := "its pods have"
	switch all := len(w.Pods); {
	case ungated == 1 && all > 1:
		who = fmt.Sprintf("1 of its %d pods has", all)
	case ungated < all:
		who = fmt.Sprintf("%d of its %d pods have", ungated, all)
	}
	message := target + " sends to the pods' addresses, and " + who + " no readiness gate: a new pod counts as ready before the load balancer sends to it"
	if namespaceLabels(s, w.Namespace)[gateLabel] == "enabled" {
		return &Finding{
			Severity: Warn, Message: message + "; its namespace has the label " + gateLabel + ", so these pods are older than the label, or the webhook skipped them",
			Remedy: "create the pods again with kubectl rollout restart, and check that they have the gate",
		}
	}
	return &Finding{
		Message: message,
		Remedy:  fmt.Sprintf("label the namespace %s=enabled: pods that are created after that have the gate, also those that the upgrade moves", gateLabel),
		Fix:     patchCommand(mergePatch, "namespace", "", w.Namespace, fields{"metadata": fields{"labels": fields{gateLabel: "enabled"}}}),
	}
}

// findOldGate implements rule LB002.
func findOldGate(_ *Scene, _ *Workload, pod *corev1.Pod) *Finding {
	for _, gate := range pod.Spec.ReadinessGates {
		if strings.HasPrefix(string(gate.ConditionType), oldGatePrefix) {
			return &Finding{
				Message: fmt.Sprintf("its readiness gate %s belongs to version 1 of the ALB Ingress Controller, and version 2 never sets it", gate.ConditionType),
				Remedy:  fmt.Sprintf("remove it from the pod template, and label the namespace %s=enabled to get the gates of version 2", gateLabel),
			}
		}
	}
	return nil
}

// findUnmetGate implements rule LB003. It checks all pods, because pods that stay can close
// budgets, too.
func findUnmetGate(s *Scene, _ *Workload, pod *corev1.Pod) *Finding {
	if pod.DeletionTimestamp != nil || pod.Status.StartTime == nil || !areContainersReady(pod) {
		return nil // the pod is not ready for another reason than the gate
	}
	for _, gate := range pod.Spec.ReadinessGates {
		state, since := "was never set", pod.Status.StartTime.Time
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		if i >= 0 {
			state, since = describeGate(&pod.Status.Conditions[i]), pod.Status.Conditions[i].LastTransitionTime.Time
		}
		if state != "" && s.World.Now.Sub(since) >= gatePatience {
			return &Finding{
				Message: fmt.Sprintf("its readiness gate %s %s, so it is not ready although its containers are", gate.ConditionType, state),
				Remedy:  describeGateRemedy(string(gate.ConditionType)),
			}
		}
	}
	return nil
}

// describeGate describes the state of a gate's condition, "" if it is true.
func describeGate(condition *corev1.PodCondition) string {
	switch {
	case condition.Status == corev1.ConditionTrue:
		return ""
	case condition.Reason == "":
		return "is " + string(condition.Status)
	default:
		return fmt.Sprintf("is %s (%s)", condition.Status, condition.Reason)
	}
}

func areContainersReady(pod *corev1.Pod) bool {
	return len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return !c.Ready })
}

func describeGateRemedy(gate string) string {
	switch {
	case strings.HasPrefix(gate, oldGatePrefix):
		return "remove the gate from the pod template: only version 1 of the ALB Ingress Controller set it"
	case strings.HasPrefix(gate, gatePrefix):
		return "find out why the load balancer's health check fails: check its path, its port and the security groups"
	default:
		return "check that the controller that sets it is running"
	}
}

// findGateWebhookOutage implements rule LB004.
func findGateWebhookOutage(s *Scene) []Finding {
	isGated := slices.ContainsFunc(s.Workloads, func(w *Workload) bool { return hasGate(w.Model(), gatePrefix) })
	var found []Finding
	for _, hook := range listAdmissionHooks(s) {
		w := hook.servingWorkload(s)
		if hook.Name != gateHook || hook.refusesOnFailure() || w == nil || !isGated {
			continue
		}
		if risk := describeOutageRisk(s, w); risk != "" {
			found = append(found, Finding{
				Workload: w.String(), Object: hook.config,
				Message: fmt.Sprintf("%s, and webhook %s has failurePolicy Ignore: pods that are created while it has no ready pod get no readiness gate", risk, hook.Name),
				Remedy:  "run 2 or more replicas on different nodes, with a PodDisruptionBudget of maxUnavailable 1",
				Fix:     secondPodCommand(w),
			})
		}
	}
	return found
}

// findPodsExcludedFromGates implements rule LB005.
func findPodsExcludedFromGates(s *Scene, w *Workload, pod *corev1.Pod) *Finding {
	target := findAddressTarget(w)
	if target == "" || hasGate(pod, gatePrefix) || !isExcludedFromGates(s, pod) {
		return nil
	}
	return &Finding{
		Message: fmt.Sprintf("%s sends to the pods' addresses, but the objectSelector of webhook %s excludes them: they have no readiness gate", target, gateHook),
		Remedy:  "give the pods the labels that the objectSelector selects, unless they are excluded on purpose",
	}
}

// isExcludedFromGates reports whether the webhook adds no gate to the pod for the only reason that the
// pod's labels do not match.
func isExcludedFromGates(s *Scene, pod *corev1.Pod) bool {
	return slices.ContainsFunc(listAdmissionHooks(s), func(hook *admissionHook) bool {
		return hook.Name == gateHook && hookSelects(hook.NamespaceSelector, namespaceLabels(s, pod.Namespace)) && !hookSelects(hook.ObjectSelector, pod.Labels)
	})
}

// findOldIngresses implements rule LB007. It reports each ingress once, even if several workloads
// are behind it.
func findOldIngresses(s *Scene) []Finding {
	var found []Finding
	seen := map[*networkingv1.Ingress]bool{}
	for _, w := range s.Workloads {
		for _, ingress := range w.Ingresses {
			old := appliedVersion(ingress)
			if seen[ingress] || !slices.Contains([]string{"extensions/v1beta1", "networking.k8s.io/v1beta1"}, old) {
				continue
			}
			seen[ingress] = true
			found = append(found, Finding{
				Workload: w.String(), Object: nameObject("Ingress", ingress),
				Message: fmt.Sprintf("it was applied as %s, which Kubernetes 1.22 removed: its file can no longer be applied", old),
				Remedy:  "write the file as networking.k8s.io/v1, with pathType, backend.service.name and backend.service.port",
			})
		}
	}
	return found
}

// appliedVersion returns the apiVersion of the last kubectl apply, "" if it is not recorded.
func appliedVersion(object metav1.Object) string {
	var applied metav1.TypeMeta
	if json.Unmarshal([]byte(object.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), &applied) != nil {
		return ""
	}
	return applied.APIVersion
}

// findShortSettle implements rule LB008. Every node is a target, even without pods of the service.
func findShortSettle(s *Scene) []Finding {
	if len(s.outdated) == 0 || s.World.Request.ReplacedBy().Traits().Expires {
		return nil
	}
	var found []Finding
	add := func(kind string, object metav1.Object) {
		delay, settle := deregistrationDelay(object.GetAnnotations()), s.World.Request.Settle.Duration
		if !sendsToNodes(object) || delay <= settle || isWatched(s, object) {
			return
		}
		found = append(found, Finding{
			Workload: workloadBehind(s, object), Object: nameObject(kind, object),
			Message: fmt.Sprintf("its load balancer sends to nodes and keeps a node's connections for %s, but a node is terminated %s after its last pod has left", describeSpan(delay), describeSpan(settle)),
			Remedy:  adviseSettle(&s.World.Request, delay),
		})
	}
	for _, service := range s.Services {
		add("Service", service)
	}
	for _, ingress := range s.Ingresses {
		add("Ingress", ingress)
	}
	return found
}

// adviseSettle returns advice to keep nodes as long as their load balancer waits.
func adviseSettle(r *record.Request, delay time.Duration) string {
	longer := ""
	if obeysDrainFlags(r) {
		longer = fmt.Sprintf("pass --settle=%ds", wholeSeconds(delay))
	}
	return joinAlternatives(longer, "set a shorter deregistration delay")
}

// workloadBehind returns the name of a workload behind the service or ingress whose pods must move,
// "" if there is none.
func workloadBehind(s *Scene, object metav1.Object) string {
	for _, w := range s.Workloads {
		for _, service := range w.Services {
			if metav1.Object(service) == object {
				return w.String()
			}
		}
		for _, ingress := range w.Ingresses {
			if metav1.Object(ingress) == object {
				return w.String()
			}
		}
	}
	return ""
}
