package preflight

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	ofPods      = "pods"
	ofEvictions = "pods/eviction"
)

// webhookRules returns the rules about admission webhooks for pods or evictions.
func webhookRules() []Rule {
	kinds := []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} // a cluster may have only one of them
	return []Rule{
		{
			ID: "WH001", Severity: Block, StartsAnyway: true, Reads: []string{"services", "namespaces"}, More: kinds, find: findFailingWebhooks,
			Text:   "A webhook with failurePolicy Fail is called for new pods or evictions, and its Service does not exist or has no ready pod, or a drain may evict all of its pods at the same time. Until it answers again, pods are neither created nor evicted. If it is also called for its own pods, they cannot come back. An upgrade keeps the last of two or more ready pods, unless it is told not to (--implicit-budgets=false, --ignore-unready) or deletes pods in the end, or the cloud drains the nodes. The finding is less severe if the webhook is not called for its own pods, or if it has matchConditions, which the rule does not evaluate.",
			Source: "openshift/addon-operator#717; kubernetes.io, \"Admission Webhook Good Practices\"",
		},
		{
			ID: "WH002", Severity: Note, More: kinds, find: findEvictionWebhooks,
			Text:   "A webhook handles only evictions, for example KubeVirt's or Strimzi's Drain Cleaner. It may deny an eviction and move the pod in its own way. The upgrade treats a denial as in progress and tries again.",
			Source: "kubevirt#9585, #5177; strimzi/drain-cleaner",
		},
	}
}

// admissionHook is a webhook of either kind.
type admissionHook struct {
	// config is the name of its configuration in findings.
	config string
	admissionv1.ValidatingWebhook
}

func listAdmissionHooks(s *Scene) []*admissionHook {
	var hooks []*admissionHook
	for _, config := range s.Mutating {
		for i := range config.Webhooks {
			h := &config.Webhooks[i]
			hooks = append(hooks, &admissionHook{"MutatingWebhookConfiguration " + config.Name, admissionv1.ValidatingWebhook{
				Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy,
				NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, MatchConditions: h.MatchConditions,
			}})
		}
	}
	for _, config := range s.Validating {
		for i := range config.Webhooks {
			hooks = append(hooks, &admissionHook{"ValidatingWebhookConfiguration " + config.Name, config.Webhooks[i]})
		}
	}
	return hooks
}

// refusesOnFailure reports whether requests are refused if the webhook does not answer. That is the
// default.
func (h *admissionHook) refusesOnFailure() bool {
	return h.FailurePolicy == nil || *h.FailurePolicy == admissionv1.Fail
}

// isServedBy reports whether the Service is the webhook's.
func (h *admissionHook) isServedBy(service *corev1.Service) bool {
	ref := h.ClientConfig.Service
	return ref != nil && service.Namespace == ref.Namespace && service.Name == ref.Name
}

// servingWorkload returns the workload that serves the webhook, nil if no workload that must move does.
func (h *admissionHook) servingWorkload(s *Scene) *Workload {
	for _, w := range s.Workloads {
		if slices.ContainsFunc(w.Services, h.isServedBy) {
			return w
		}
	}
	return nil
}

// isCalledFor reports whether the webhook is called when the resource is created for a pod of the
// workload.
func (h *admissionHook) isCalledFor(s *Scene, w *Workload, resource string) bool {
	return h.isCalledForPod(s, w.Model(), resource)
}

// isCalledForPod reports whether the webhook is called when the resource is created for the pod.
func (h *admissionHook) isCalledForPod(s *Scene, pod *corev1.Pod, resource string) bool {
	object := pod.Labels
	if resource == ofEvictions {
		object = nil // an eviction does not have the pod's labels
	}
	return h.covers(resource) && hookSelects(h.NamespaceSelector, namespaceLabels(s, pod.Namespace)) && hookSelects(h.ObjectSelector, object)
}

// covers reports whether a rule of the webhook covers the creation of the resource.
func (h *admissionHook) covers(resource string) bool {
	names := []string{"*", ofPods, "*/*"}
	if resource == ofEvictions {
		names = []string{ofEvictions, "pods/*", "*/eviction", "*/*"}
	}
	return slices.ContainsFunc(h.Rules, func(r admissionv1.RuleWithOperations) bool {
		return containsAny(r.APIGroups, "", "*") && containsAny(r.Resources, names...) && containsAny(r.Operations, admissionv1.Create, admissionv1.OperationAll)
	})
}

func containsAny[T comparable](all []T, wanted ...T) bool {
	return slices.ContainsFunc(all, func(one T) bool { return slices.Contains(wanted, one) })
}

// hookSelects reports whether a webhook's selector matches the labels. A nil selector matches all.
func hookSelects(selector *metav1.LabelSelector, set map[string]string) bool {
	return selector == nil || selects(selector, set)
}

// namespaceLabels returns the labels of a namespace, including the label with its name.
func namespaceLabels(s *Scene, name string) map[string]string {
	set := labels.Set{corev1.LabelMetadataName: name}
	if namespace := s.namespaces[name]; namespace != nil {
		set = labels.Merge(set, namespace.Labels)
	}
	return set
}

// findFailingWebhooks implements rule WH001.
func findFailingWebhooks(s *Scene) []Finding {
	var found []Finding
	for _, hook := range listAdmissionHooks(s) {
		if !hook.refusesOnFailure() {
			continue
		}
		if why, severity := hook.describeMissingAnswer(s); why != "" {
			if f := describeUnansweredHook(s, hook, why, severity); f != nil {
				f.Object, f.webhook = hook.config, newFailingWebhook(s, hook)
				found = append(found, *f)
			}
			continue
		}
		w := hook.servingWorkload(s)
		if w == nil {
			continue
		}
		if risk := describeOutageRisk(s, w); risk != "" {
			if f := describeMovingHook(s, hook, w, risk); f != nil {
				f.Object, f.Workload, f.webhook = hook.config, w.String(), newFailingWebhook(s, hook)
				found = append(found, *f)
			}
		}
	}
	return found
}

// describeMissingAnswer returns why a webhook does not answer in the cluster's current state, "" if it
// may. If one of its pods has just been started, the severity is lower than Block.
func (h *admissionHook) describeMissingAnswer(s *Scene) (why string, severity Severity) {
	ref := h.ClientConfig.Service
	if ref == nil {
		return "", "" // the webhook is outside the cluster
	}
	name := "Service " + ref.Namespace + "/" + ref.Name
	i := slices.IndexFunc(s.Services, h.isServedBy)
	if i < 0 {
		return name + " does not exist", Block
	}
	if len(s.Services[i].Spec.Selector) == 0 {
		return "", "" // its endpoints were written by hand
	}
	pods, young := 0, 0
	for _, pod := range s.Pods {
		if !selectsPod(s.Services[i], pod) || pod.Namespace != ref.Namespace || !drain.IsLiving(pod) {
			continue
		}
		if drain.Ready(pod) {
			return "", ""
		}
		pods++
		if drain.DescribeFault(pod) == "" && s.World.Now.Sub(drain.UnreadySince(pod)) <= unreadyPatience {
			young++
		}
	}
	switch {
	case pods == 0:
		return name + " has no pod", Block
	case young == 0:
		return "no pod of " + name + " is ready", Block
	default:
		return "no pod of " + name + " is ready yet", Error
	}
}

// describeUnansweredHook returns what a webhook without an answer prevents, nil if the upgrade does not
// need that.
func describeUnansweredHook(s *Scene, hook *admissionHook, why string, severity Severity) *Finding {
	isAsked := func(resource string) bool {
		return slices.ContainsFunc(s.Workloads, func(w *Workload) bool { return hook.isCalledFor(s, w, resource) })
	}
	what := ""
	switch ofPods, ofEvictions := isAsked(ofPods), isAsked(ofEvictions); {
	case ofPods && ofEvictions:
		what = "no evicted pod is replaced, and no pod is evicted"
	case ofPods:
		what = "no evicted pod is replaced"
	case ofEvictions:
		what = "no pod is evicted"
	default:
		return nil
	}
	if len(hook.MatchConditions) > 0 {
		severity, what = Warn, what+", for requests that its matchConditions select"
	}
	return &Finding{
		Severity: severity,
		Message:  fmt.Sprintf("webhook %s has failurePolicy Fail, and %s: %s", hook.Name, why, what),
		Remedy:   "repair it or, if it was uninstalled, delete its configuration",
	}
}

// describeMovingHook returns what a webhook prevents while its pods are moving, nil if the upgrade
// does not need that.
func describeMovingHook(s *Scene, hook *admissionHook, backing *Workload, risk string) *Finding {
	isAsked := func(resource string) bool {
		return slices.ContainsFunc(s.Workloads, func(w *Workload) bool { return hook.isCalledFor(s, w, resource) })
	}
	f := &Finding{Remedy: "run 2 or more replicas on different nodes, with a PodDisruptionBudget of maxUnavailable 1", Fix: secondPodCommand(backing)}
	what, end := "", ""
	switch {
	case hook.isCalledFor(s, backing, ofPods):
		what, end = "new pods, also its own", "when none is left, no pod can be created, not even its own"
		f.Remedy += "; exclude namespace " + backing.Namespace + " with a namespaceSelector"
	case isAsked(ofPods):
		what, end, f.Severity = "new pods", "no pod is created until it answers again", Error
	case isAsked(ofEvictions):
		what, end, f.Severity = "evictions", "no eviction is allowed until it answers again", Error
	default:
		return nil
	}
	if len(hook.MatchConditions) > 0 {
		f.Severity, what = Warn, what+", if its matchConditions select them"
	}
	f.Message = fmt.Sprintf("webhook %s (failurePolicy Fail) is called for %s, and %s: %s", hook.Name, what, risk, end)
	return f
}

// describeOutageRisk returns how a drain may remove all ready pods of a workload together, "" if it
// cannot.
func describeOutageRisk(s *Scene, w *Workload) string {
	at := s.locateReadyPods(w)
	if !at.isLeaving || isMovedBySurge(s.World, w.Model()) {
		return ""
	}
	for _, budget := range w.Budgets {
		if budget.Status.DesiredHealthy > 0 {
			return "" // the budget always keeps one of them
		}
	}
	switch window := s.World.Request.Window; {
	case at.pods > 1 && s.keepsLastReadyPod(w):
		return ""
	case at.pods == 0:
		return fmt.Sprintf("no pod of %s is ready", w)
	case at.pods == 1:
		return fmt.Sprintf("the only ready pod of %s is on an outdated node", w)
	case len(at.nodes) == 1:
		return fmt.Sprintf("the %d ready pods of %s are on one node and have no budget", at.pods, w)
	case len(at.nodes) <= window:
		return fmt.Sprintf("the %d ready pods of %s are on %d nodes and have no budget, and %d nodes may be drained at the same time", at.pods, w, len(at.nodes), window)
	default:
		return ""
	}
}

// keepsLastReadyPod reports whether the upgrade keeps the workload's last ready pod until another one is ready: the workload is
// behind a Service and has two or more ready pods, and nothing deletes its pods in the end.
func (s *Scene) keepsLastReadyPod(w *Workload) bool {
	r := &s.World.Request
	traits := r.Strategy.Traits()
	deletes := traits.DeletesRest || r.OnTimeout == record.Force
	return len(w.Services) > 0 && traits.Drains && !deletes && !r.NoImplicitBudgets && !r.IgnoresUnready(w.Namespace+"/"+w.Kind+"/"+w.Name)
}

// secondPodCommand returns the command that gives a workload of one pod a second one.
func secondPodCommand(w *Workload) string {
	if w.Replicas() > 1 {
		return ""
	}
	return w.patchReplicasCommand(2)
}

// findEvictionWebhooks implements rule WH002.
func findEvictionWebhooks(s *Scene) []Finding {
	var found []Finding
	for _, hook := range listAdmissionHooks(s) {
		isOwn := slices.ContainsFunc(hook.Rules, func(r admissionv1.RuleWithOperations) bool {
			return len(r.Resources) == 1 && r.Resources[0] == ofEvictions
		})
		if !isOwn || !slices.ContainsFunc(s.Workloads, func(w *Workload) bool { return hook.isCalledFor(s, w, ofEvictions) }) {
			continue
		}
		found = append(found, Finding{
			Object:  hook.config,
			Message: fmt.Sprintf("webhook %s decides about evictions: it may deny an eviction and move the pod in its own way, and the upgrade waits for that", hook.Name),
			Remedy:  adviseTimeCheck(&s.World.Request),
		})
	}
	return found
}
