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

// Role is what makes the pods of a workload leave at another time than others, or not at all; empty for most.
type Role string

// The roles.
const (
	Hook      Role = "webhook"
	Driver    Role = "CSI driver"
	Skipped   Role = "to be skipped"
	Completes Role = "to be completed"
	Protected Role = "not to be disrupted"
)

// roles gives some workloads one. It has dice of its own, so that what is drawn elsewhere stays as it is.
func roles(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x726f6c65))}
	for i := range p.Workloads {
		if d.chance(15) {
			p.Workloads[i].Role = pick(d, Hook, Hook, Hook, Driver, Driver, Driver, Skipped, Completes)
		}
	}
}

// protections has the owners of some workloads ask autoscalers not to disrupt them, and some requests respect that. It has dice
// of its own, too.
func protections(p *Plan) {
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

// facts are what is known of the services, those of webhooks and others.
func (p *Plan) facts() drain.Facts {
	var services []*corev1.Service
	webhooks := drain.Webhooks{}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if !w.served() {
			continue
		}
		services = append(services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: w.Name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": w.Name}},
		})
		if w.Role == Hook {
			webhooks[types.NamespacedName{Namespace: space, Name: w.Name}] = true
		}
	}
	return webhooks.FactsOf(services)
}

// mark has a new pod show its role, as far as it is the pod that shows it.
func (r Role) mark(pod *corev1.Pod) {
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
	drainLabel  = "cluster.x-k8s.io/drain"                         // Cluster API's
	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict" // cluster-autoscaler's
)

func skipped(pod *corev1.Pod) bool { return pod.Labels[drainLabel] == "skip" }

func awaited(pod *corev1.Pod) bool { return pod.Labels[drainLabel] == "wait-completed" }

func protected(pod *corev1.Pod) bool { return pod.Annotations[safeToEvict] == "false" }

// held reports whether the pod is waited for as its owner asks.
func held(record *record.Record, pod *corev1.Pod) bool {
	return awaited(pod) || (protected(pod) && record.Request.RespectDoNotDisrupt)
}

// complete has every other pod that is to complete do so, in its time, and each of a workload whose pods end by themselves.
func (c *cluster) complete(m *maker, pod *corev1.Pod) {
	within := 10 * m.Ready
	switch {
	case m.Ends > 0:
		within = c.draw(m.Ends)
	case !awaited(pod) || m.serial%2 == 0:
		return
	}
	uid := pod.UID
	c.after(within, func() {
		old, ok := c.pods[uid]
		if !ok || old.DeletionTimestamp != nil || !mustGo(old, false) {
			return
		}
		over := old.DeepCopy()
		over.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: podReady(false)}
		c.emptied[over.Spec.NodeName] = c.now
		c.deregister(old.Status.PodIP) // it serves no more
		c.putPod(over)
	})
}

// unmark takes off a pod what has it waited for, as the one who reads the remedy may do.
func (c *cluster) unmark(pod *corev1.Pod) {
	plain := pod.DeepCopy()
	delete(plain.Labels, drainLabel)
	delete(plain.Annotations, safeToEvict)
	c.putPod(plain)
}

// turn is when a pod's turn comes among those of its node.
func (r *rules) turn(pod *corev1.Pod) int {
	switch r.c.makers[pod.Labels["app"]].Role {
	case Hook:
		return 1
	case Driver:
		return 2
	default:
		return 0
	}
}

// inOrder is L19: a pod behind a webhook is evicted when no ordinary pod is left on its node that is not on its way, one of a CSI driver
// when all others have gone, or both when half of the node's limit is over, and one that is to complete never.
func (r *rules) inOrder(w *upgrade.World, pod *corev1.Pod, node string, a nodegroup.Action) {
	if awaited(pod) {
		r.fail("L19", "%s, which is to be waited for", a)
	}
	m, turn := find(w, node), r.turn(pod)
	if limit := w.Record.Request.DrainTimeout.Duration; !w.Now.Before(w.Record.Nodes[node].Deadline.Add(-limit / 2)) {
		return // who holds the others up does so no longer
	}
	for _, other := range m.Pods {
		if !mustGo(other, silent(m.Node, w.Now)) || r.turn(other) >= turn {
			continue
		}
		if other.DeletionTimestamp == nil || turn == 2 {
			r.fail("L19", "%s before pod %s, which needs it", a, other.Name)
		}
	}
}
