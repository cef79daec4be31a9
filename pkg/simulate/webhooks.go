package simulate

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Webhook is an admission webhook whose failure makes the API server refuse requests.
type Webhook struct {
	// Name is the webhook's name, for people.
	Name string
	// Serves reports whether a pod belongs to the webhook's Service. If no such pod is ready, the webhook does not answer.
	Serves func(*corev1.Pod) bool
	// AdmitsPod and AdmitsEviction report whether the webhook is called when such a pod is created, and when it is evicted.
	AdmitsPod, AdmitsEviction func(*corev1.Pod) bool
}

// webhooks simulates admission webhooks. It creates the pods that they refused when they answer again.
type webhooks struct {
	clock *clock
	hooks []servedWebhook
	// refused are the pods that were refused, in the order of the refusals.
	refused []refusedPod
	// pessimistic is true if a pod that is being deleted does not answer any more, and controllers wait before they create
	// pods again.
	pessimistic bool
}

// servedWebhook is a webhook with the pods of its Service.
type servedWebhook struct {
	Webhook
	pods map[types.UID]*simPod
}

// refusedPod is a pod that was refused at a time, and what creates it.
type refusedPod struct {
	at     time.Time
	create func()
}

func newWebhooks(spec *Spec, clock *clock) *webhooks {
	w := &webhooks{clock: clock, pessimistic: spec.FaultsLast}
	for _, hook := range spec.Webhooks {
		w.hooks = append(w.hooks, servedWebhook{hook, map[types.UID]*simPod{}})
	}
	return w
}

// addPod adds a pod that may serve webhooks, when it is bound to a node.
func (w *webhooks) addPod(u *simPod) {
	for i := range w.hooks {
		if w.hooks[i].Serves(u.pod) {
			w.hooks[i].pods[u.pod.UID] = u
		}
	}
}

// removePod removes a pod that has ended.
func (w *webhooks) removePod(uid types.UID) {
	for i := range w.hooks {
		delete(w.hooks[i].pods, uid)
	}
}

// refuseCreation returns why the API server refuses to create the pod; "" if it does not. If create is not nil, it is
// called when the webhook answers again. DaemonSet pods are created without it, so a forecast does not show that a new
// node lacks them while a webhook does not answer.
func (w *webhooks) refuseCreation(pod *corev1.Pod, create func()) string {
	why := w.findSilent(func(hook *servedWebhook) bool { return hook.AdmitsPod(pod) })
	if why != "" && create != nil {
		w.refused = append(w.refused, refusedPod{w.clock.now, create})
	}
	return why
}

// refuseEviction returns why the API server refuses the pod's eviction; "" if it does not.
func (w *webhooks) refuseEviction(pod *corev1.Pod) string {
	return w.findSilent(func(hook *servedWebhook) bool { return hook.AdmitsEviction(pod) })
}

// findSilent returns the API server's answer to a request for which the webhooks are called, if one of them does not answer;
// "" otherwise (apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go).
func (w *webhooks) findSilent(isCalled func(*servedWebhook) bool) string {
	for i := range w.hooks {
		if hook := &w.hooks[i]; isCalled(hook) && !w.answers(hook) {
			return fmt.Sprintf("failed calling webhook %q: no pod of its Service is ready", hook.Name)
		}
	}
	return ""
}

// answers reports whether a pod of the webhook's Service answers. A pod that is being deleted may answer until it has ended.
func (w *webhooks) answers(hook *servedWebhook) bool {
	for _, u := range hook.pods {
		if drain.Ready(u.pod) && (u.pod.DeletionTimestamp == nil || !w.pessimistic) {
			return true
		}
	}
	return false
}

// retryCreations creates the refused pods again after a pod of a webhook has become ready. Controllers retry less and less
// often, so that in the pessimistic case a pod waits as long again as it has waited.
func (w *webhooks) retryCreations(uid types.UID) {
	if !slices.ContainsFunc(w.hooks, func(hook servedWebhook) bool { return hook.pods[uid] != nil }) {
		return
	}
	for _, r := range w.refused {
		wait := time.Duration(0)
		if w.pessimistic {
			wait = w.clock.now.Sub(r.at)
		}
		w.clock.scheduleAfter(wait, r.create)
	}
	w.refused = nil
}
