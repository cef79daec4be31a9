package worlds

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Role is a property of a workload whose pods leave a node later than others, or not at all. It is empty for most workloads.
type Role string

// The roles.
const (
	Hook      Role = "webhook"
	Driver    Role = "CSI driver"
	Skipped   Role = "to be skipped"
	Completes Role = "to be completed"
	Protected Role = "not to be disrupted"
)

// setRoles gives some workloads a role. It draws from its own generator, so that all other draws stay the same.
func setRoles(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x726f6c65))}
	for i := range p.Workloads {
		if d.chance(15) {
			p.Workloads[i].Role = pick(d, Hook, Hook, Hook, Driver, Driver, Driver, Skipped, Completes)
		}
	}
}

// setProtected gives some workloads the annotation that asks autoscalers not to disrupt them. Some requests respect the annotation. It
// draws from its own generator, too.
func setProtected(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x70726f74))}
	if !d.chance(25) {
		return
	}
	p.Request.RespectDoNotDisrupt = d.chance(60)
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Role == "" && d.chance(25) {
			w.Role = Protected
		}
	}
}

// serviceFacts returns what is known about Services: those of webhooks and others.
func (p *Plan) serviceFacts() drain.Facts {
	var services []*corev1.Service
	webhooks := drain.Webhooks{}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if !w.isServed() {
			continue
		}
		services = append(services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.Name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": w.Name}},
		})
		if w.Role == Hook {
			webhooks[types.NamespacedName{Namespace: namespace, Name: w.Name}] = true
		}
	}
	return webhooks.FactsOf(services)
}

// markPod gives a new pod the label or annotation of its role, if the role has one.
func (r Role) markPod(pod *corev1.Pod) {
	switch r {
	case Driver:
		pod.Labels["app.kubernetes.io/name"] = "x-csi-driver"
	case Skipped:
		pod.Labels[drainLabel] = "skip"
	case Completes:
		pod.Labels[drainLabel] = "wait-completed"
	case Protected:
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, safeToEvict, "false")
	}
}

const (
	drainLabel  = "cluster.x-k8s.io/drain"                         // of Cluster API
	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict" // of cluster-autoscaler
)

func isSkipped(pod *corev1.Pod) bool { return pod.Labels[drainLabel] == "skip" }

func isAwaited(pod *corev1.Pod) bool { return pod.Labels[drainLabel] == "wait-completed" }

func isProtected(pod *corev1.Pod) bool { return pod.Annotations[safeToEvict] == "false" }

// isLeftToEnd reports whether the upgrade waits until the pod ends by itself, because of a label or an annotation.
func isLeftToEnd(record *record.Record, pod *corev1.Pod) bool {
	return isAwaited(pod) || (isProtected(pod) && record.Request.RespectDoNotDisrupt)
}

// scheduleCompletion schedules the completion of a pod: of each pod of a workload with Ends, and of every second pod with the label
// wait-completed.
func (c *cluster) scheduleCompletion(m *controller, pod *corev1.Pod) {
	within := 10 * m.Ready
	switch {
	case m.Ends > 0:
		within = c.drawUpTo(m.Ends)
	case !isAwaited(pod) || m.serial%2 == 0:
		return
	}
	uid := pod.UID
	c.after(within, func() {
		old, ok := c.pods[uid]
		if !ok || old.DeletionTimestamp != nil || !mustLeave(old, false) {
			return
		}
		over := old.DeepCopy()
		over.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: readyConditions(false)}
		c.emptied[over.Spec.NodeName] = c.now
		c.deregisterTarget(old.Status.PodIP) // it no longer serves
		c.putPod(over)
	})
}

// removePodMarks removes the label and the annotation because of which the upgrade waits for a pod.
func (c *cluster) removePodMarks(pod *corev1.Pod) {
	plain := pod.DeepCopy()
	delete(plain.Labels, drainLabel)
	delete(plain.Annotations, safeToEvict)
	c.putPod(plain)
}

// evictionRank returns the rank of a pod in the order in which a node's pods are evicted.
func (r *rules) evictionRank(pod *corev1.Pod) int {
	switch r.c.controllers[pod.Labels["app"]].Role {
	case Hook:
		return 1
	case Driver:
		return 2
	default:
		return 0
	}
}

// checkEvictionOrder checks L19. A pod behind a webhook is evicted only when all ordinary pods of its node are terminating. A CSI
// driver's pod is evicted only when all other pods have ended. After half of the drain limit, both may be evicted. A pod with the
// label wait-completed is never evicted.
func (r *rules) checkEvictionOrder(w *upgrade.World, pod *corev1.Pod, node string, a nodegroup.Action) {
	if isAwaited(pod) {
		r.fail("L19", "%s, but the pod has the label wait-completed", a)
	}
	m, turn := memberNamed(w, node), r.evictionRank(pod)
	if limit := w.Record.Request.DrainTimeout.Duration; !w.Now.Before(w.Record.Nodes[node].Deadline.Add(-limit / 2)) {
		return // after half of the drain limit, the order does not matter
	}
	for _, other := range m.Pods {
		if !mustLeave(other, isSilent(m.Node, w.Now)) || r.evictionRank(other) >= turn {
			continue
		}
		if other.DeletionTimestamp == nil || turn == 2 {
			r.fail("L19", "%s before pod %s, which may need it", a, other.Name)
		}
	}
}
