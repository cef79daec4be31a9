package worlds

import (
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// addSlowStarters changes a workload in some worlds: its pods take minutes to become ready, and on new nodes a little more than five
// times as long. It draws from its own generator.
func addSlowStarters(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x736c6f77))}
	if p.isDelegated() || p.isShortLived() || !d.chance(8) {
		return
	}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Replicas == 0 || !w.isPlain() {
			continue
		}
		w.Tells, w.Ready = true, d.between(2*time.Minute, 4*time.Minute)
		w.Slow = w.Ready * 21 / 4
		return
	}
}

// writeStartTimes sets the start time and the ready time in a first pod's status.
func writeStartTimes(m *controller, pod *corev1.Pod) {
	pod.Status.StartTime = pod.CreationTimestamp.DeepCopy()
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.LastTransitionTime = metav1.Time{Time: pod.CreationTimestamp.Add(m.Ready)}
		}
	}
}

// checkTimeToRecover checks I11 for pods that usually take long to become ready: an upgrade stops because of such a pod only after
// five times that long.
func (r *rules) checkTimeToRecover(w *upgrade.World, step *upgrade.Step) {
	_, last, _ := strings.Cut(step.Record.Message, "--ignore-unready=")
	for _, u := range step.Status.Unhealthy {
		if !r.undisturbed || u.Pod == "" || !strings.HasPrefix(last, u.Name) {
			continue
		}
		for i := range r.c.plan.Workloads {
			app := &r.c.plan.Workloads[i]
			if !app.Tells || app.id().String() != u.Name {
				continue
			}
			for _, pod := range livePodsOf(w, app) {
				if age := w.Now.Sub(pod.CreationTimestamp.Time); pod.Name == u.Pod && pod.Spec.NodeName != "" && age < 5*app.Ready {
					r.fail("I11", "it stops for pod %s after %s, and pods of %s take %s to become ready", u.Pod, age, u.Name, app.Ready)
				}
			}
		}
	}
}
