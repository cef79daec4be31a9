package preflight

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// FailingWebhook is a webhook with failurePolicy Fail that may fail during an upgrade, according to a finding of WH001.
type FailingWebhook struct {
	scene *Scene
	hook  *admissionHook
	// service is the webhook's Service; nil if it does not exist.
	service *corev1.Service
}

// ListFailingWebhooks returns the webhooks that the findings are about. It leaves out findings that are skipped, and webhooks
// with matchConditions, because it is not known which requests these select.
func ListFailingWebhooks(findings []Finding) []*FailingWebhook {
	var hooks []*FailingWebhook
	for i := range findings {
		if w := findings[i].webhook; w != nil && findings[i].Skipped == "" && len(w.hook.MatchConditions) == 0 {
			hooks = append(hooks, w)
		}
	}
	return hooks
}

func newFailingWebhook(s *Scene, hook *admissionHook) *FailingWebhook {
	w := &FailingWebhook{scene: s, hook: hook}
	if i := slices.IndexFunc(s.Services, hook.isServedBy); i >= 0 {
		w.service = s.Services[i]
	}
	return w
}

// Name returns the webhook's name.
func (w *FailingWebhook) Name() string { return w.hook.Name }

// Serves reports whether the pod belongs to the webhook's Service.
func (w *FailingWebhook) Serves(pod *corev1.Pod) bool {
	return w.service != nil && pod.Namespace == w.service.Namespace && selectsPod(w.service, pod) && drain.IsLiving(pod)
}

// AdmitsPod reports whether the webhook is called when such a pod is created.
func (w *FailingWebhook) AdmitsPod(pod *corev1.Pod) bool {
	return w.hook.isCalledForPod(w.scene, pod, ofPods)
}

// AdmitsEviction reports whether the webhook is called when the pod is evicted.
func (w *FailingWebhook) AdmitsEviction(pod *corev1.Pod) bool {
	return w.hook.isCalledForPod(w.scene, pod, ofEvictions)
}
