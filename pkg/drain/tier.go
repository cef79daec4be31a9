package drain

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Tier is when a pod's turn comes among those that leave a node: those of a lower tier go first.
type Tier int

const (
	// Ordinary is a pod that no other pod is known to need.
	Ordinary Tier = iota
	// Serving is a pod behind an admission webhook or the cluster's DNS: without it others may not
	// be created, or not come up.
	Serving
	// Storage is a pod of a CSI driver: without it the volumes of others are neither detached nor
	// attached.
	Storage
)

// Facts tell which pods others need, as far as the pods do not say it themselves. The zero value
// knows of none.
type Facts struct {
	// selectors are those of services whose pods other pods need, serving those of all services
	// that have one; by namespace.
	selectors, serving map[string][]map[string]string
}

// Webhooks are the services that admission webhooks send their questions to, whatever their
// failurePolicy: one that is passed over leaves undone what it is there for.
type Webhooks map[types.NamespacedName]bool

// AddMutating adds the services of a configuration. Webhooks that are called by a URL name none.
func (w Webhooks) AddMutating(c *admissionv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w.addService(&c.Webhooks[i].ClientConfig)
	}
}

// AddValidating is the same of a configuration of the other kind.
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

// Need reports whether the service is one whose pods other pods need: a webhook's, or that of the
// cluster's DNS, which is called kube-dns whatever answers (kubernetes.io, "Customizing DNS
// Service").
func (w Webhooks) Need(service *corev1.Service) bool {
	dns := service.Namespace == metav1.NamespaceSystem && service.Name == dnsName
	return dns || w[types.NamespacedName{Namespace: service.Namespace, Name: service.Name}]
}

// FactsOf are those of a cluster with these services.
func (w Webhooks) FactsOf(services []*corev1.Service) Facts {
	needed := slices.DeleteFunc(slices.Clone(services), func(s *corev1.Service) bool { return !w.Need(s) })
	return Facts{selectors: selectorsOf(needed), serving: selectorsOf(services)}
}

// NewFacts takes the services whose pods others need. One without a selector says nothing of pods.
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

// dnsName is also the value of k8s-app on its pods, CoreDNS's among them.
const dnsName = "kube-dns"

// TierOf is the pod's tier. Pods of the cluster's DNS and of CSI drivers are told by their labels
// and their controller, too.
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

// isStoragePod reports whether the pod's controller, or the label with its application's name, has
// the word csi in it, as those of all drivers have: ebs-csi-controller, csi-rbdplugin-provisioner,
// aws-efs-csi-driver.
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

// Leavers are the pods of one node that have to leave it, by what is done about them: evicted, held
// and leaving by themselves.
type Leavers struct {
	Evict, Held, Leaving []*corev1.Pod
}

// Due returns the pods to evict whose turn it is, in their order: none as long as one of an earlier
// tier is neither gone nor deleted, whatever is in its way, and none of Storage before all others
// are gone, for it unmounts and detaches their volumes. What keeps an earlier pod for ever keeps
// the later ones as well: how long that is waited for is the caller's to say.
func Due(l Leavers, facts Facts) []*corev1.Pod {
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

// lowestTier is the first tier among the pods, the last there is of none.
func lowestTier(pods []*corev1.Pod, facts Facts) Tier {
	first := Storage
	for _, pod := range pods {
		first = min(first, TierOf(pod, facts))
	}
	return first
}
