package worlds

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// setOrdered makes half of the StatefulSets Ordered, which is the default in Kubernetes. It draws from its own generator.
func setOrdered(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6f726472))}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Kind == StatefulSet && w.Role != Completes && d.chance(50) {
			w.Ordered = true
		}
	}
}

// checkOrderedReport checks messages about missing pods of an Ordered StatefulSet (I11). Its controller creates the next pod a moment
// after the previous pod became ready, and creates no pod while a previous pod is ending. In both cases no pod is missing.
func (r *rules) checkOrderedReport(p *process, w *upgrade.World, app *Workload, u record.Unhealthy) {
	if !app.Ordered || !strings.HasSuffix(u.Why, "does not say why") {
		return // the message gives a reason
	}
	for _, pod := range livePodsOf(w, app) {
		if ready := w.Now.Sub(pod.Status.Conditions[0].LastTransitionTime.Time); isPodReady(pod) && ready < time.Second {
			r.fail("I11", "%s: the next pod is not missing, because pod %s has been ready for only %s", u, pod.Name, ready)
		}
	}
	for i := range app.Replicas {
		name := fmt.Sprintf("%s-%d", app.Name, i)
		pod := podNamed(p.seen.pods, name)
		switch {
		case pod == nil:
			return // the pod is missing, and all pods before it exist
		case pod.DeletionTimestamp != nil && w.Now.Before(pod.DeletionTimestamp.Time) && memberNamed(w, pod.Spec.NodeName) != nil:
			r.fail("I11", "%s: the next pod is not missing, because the previous pod %s is terminating", u, name)
		}
	}
}

func podNamed(pods map[types.UID]*corev1.Pod, name string) *corev1.Pod {
	for _, pod := range pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}
