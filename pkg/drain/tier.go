package drain

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Tier orders the pods that leave a node: pods of a lower tier leave first.
type Tier int

const (
	// Ordinary is a pod that no other pod is known to need.
	Ordinary Tier = iota
	// Serving is a pod behind an admission webhook or the cluster's DNS. Without it other pods may not be created or not
	// become ready.
	Serving
	// Storage is a pod of a CSI driver. Without it the volumes of other pods are neither detached nor attached.
	Storage
)

// Facts say which pods other pods need, in addition to what the pods' own labels and controllers show. The zero value
// knows none.
type Facts struct {
	// selectors has the selectors of services whose pods other pods need. serving has the selectors of all services.
	// Both are by namespace.
	selectors, serving map[string][]map[string]string
}

// Webhooks has the services of admission webhooks, whatever their failurePolicy: a webhook that is skipped does not do
// its task.
type Webhooks map[types.NamespacedName]bool

// AddMutating adds the services of a configuration. Webhooks with a URL have none.
func (w Webhooks) AddMutating(c *admissionv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w.addService(&c.Webhooks[i].ClientConfig)
	}
}

// AddValidating adds the services of a configuration. Webhooks with a URL have none.
func (w Webhooks) AddValidating(c *admissionv1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w.addService(&c.Webhooks[i].ClientConfig)
	}
}

func (w Webhooks) addService(config *admissionv1.WebhookClientConfig) {
	if s := config.Service; s != nil {
		w[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = true
	}
}

// NeedsService reports whether other pods need the pods of the service: it belongs to a webhook, or to the cluster's DNS.
// The DNS service is always called kube-dns (kubernetes.io, "Customizing DNS Service").
func (w Webhooks) NeedsService(service *corev1.Service) bool {
	dns := service.Namespace == metav1.NamespaceSystem && service.Name == dnsName
	return dns || w[types.NamespacedName{Namespace: service.Namespace, Name: service.Name}]
}

// FactsOf returns the facts of a cluster with these services.
func (w Webhooks) FactsOf(services []*corev1.Service) Facts {
	needed := slices.DeleteFunc(slices.Clone(services), func(s *corev1.Service) bool { return !w.NeedsService(s) })
	return Facts{selectors: selectorsOf(needed), serving: selectorsOf(services)}
}

// NewFacts returns facts from the services whose pods other pods need. Services without a selector are ignored.
func NewFacts(services []*corev1.Service) Facts {
	selectors := selectorsOf(services)
	return Facts{selectors: selectors, serving: selectors}
}

func selectorsOf(services []*corev1.Service) map[string][]map[string]string {
	selectors := map[string][]map[string]string{}
	for _, service := range services {
		if len(service.Spec.Selector) > 0 {
			selectors[service.Namespace] = append(selectors[service.Namespace], service.Spec.Selector)
		}
	}
	return selectors
}

// dnsName is the name of the DNS service, and the value of k8s-app on its pods, including CoreDNS.
const dnsName = "kube-dns"

// TierOf returns the pod's tier. Pods of the cluster's DNS and of CSI drivers are also recognized by their labels and
// their controller.
func TierOf(pod *corev1.Pod, facts Facts) Tier {
	app := pod.Labels["k8s-app"]
	switch {
	case mentionsCSI(app) || isStoragePod(pod):
		return Storage
	case app == dnsName || matchesSelector(facts.selectors[pod.Namespace], pod):
		return Serving
	default:
		return Ordinary
	}
}

func matchesSelector(selectors []map[string]string, pod *corev1.Pod) bool {
	return slices.ContainsFunc(selectors, func(selector map[string]string) bool {
		for key, value := range selector {
			if has, ok := pod.Labels[key]; !ok || has != value {
				return false
			}
		}
		return true
	})
}

// isStoragePod reports whether the name of the pod's controller or application contains the word csi, as the names of all
// drivers do: ebs-csi-controller, csi-rbdplugin-provisioner, aws-efs-csi-driver.
func isStoragePod(pod *corev1.Pod) bool {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && mentionsCSI(owner.Name) {
		return true
	}
	return mentionsCSI(pod.Labels["app.kubernetes.io/name"])
}

func mentionsCSI(name string) bool {
	const word = "csi"
	return strings.Contains(name, word) && slices.Contains(strings.Split(name, "-"), word)
}

// Leavers are the pods of one node that must leave it: pods to evict, pods that are held, and pods that are already being
// deleted.
type Leavers struct {
	Evict, Held, Leaving []*corev1.Pod
}

// PodsInTurn returns the pods to evict whose turn it is, in order. A tier's turn comes when all pods of lower tiers are
// gone or being deleted. Storage waits until all others are gone, because it unmounts and detaches their volumes. A pod
// that cannot leave also keeps the later tiers: the caller decides how long to wait.
func PodsInTurn(l Leavers, facts Facts) []*corev1.Pod {
	if !slices.ContainsFunc(l.Evict, func(pod *corev1.Pod) bool { return TierOf(pod, facts) > Ordinary }) {
		return l.Evict
	}
	turn := min(lowestTier(l.Evict, facts), lowestTier(l.Held, facts))
	if turn == Storage && lowestTier(l.Leaving, facts) < Storage {
		return nil
	}
	var due []*corev1.Pod
	for _, pod := range l.Evict {
		if TierOf(pod, facts) == turn {
			due = append(due, pod)
		}
	}
	return due
}

// lowestTier returns the lowest tier of the pods, or Storage if there are none.
func lowestTier(pods []*corev1.Pod, facts Facts) Tier {
	first := Storage
	for _, pod := range pods {
		first = min(first, TierOf(pod, facts))
	}
	return first
}
