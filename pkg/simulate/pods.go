package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// evict answers as the eviction API does: the budget's status decides, and shows the eviction at once.
func (c *Cluster) evict(a upgrade.Evict) (upgrade.Outcome, string) {
	pod, ok := c.pods[a.UID]
	if !ok || pod.Spec.NodeName != a.Node {
		return upgrade.OutcomeMoved, "the pod is gone"
	}
	prediction := drain.Predict(pod, c.index, nil, false)
	if !prediction.Admitted() {
		return upgrade.OutcomeRefused, prediction.String()
	}
	if prediction.Spends {
		c.disrupted[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = c.now
	}
	c.remove(pod)
	return upgrade.OutcomeDone, ""
}

func (c *Cluster) delete(a upgrade.Delete) (upgrade.Outcome, string) {
	pod, ok := c.pods[a.UID]
	if !ok {
		return upgrade.OutcomeMoved, "the pod is gone"
	}
	c.remove(pod)
	return upgrade.OutcomeDone, ""
}

// remove begins a pod's deletion; its controller brings another up at once, or after the end where names are kept.
func (c *Cluster) remove(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	leaving := pod.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{Time: c.now.Add(c.grace(pod))}
	leaving.ResourceVersion = c.touch()
	c.pods[pod.UID], c.byNode[pod.Spec.NodeName][pod.UID] = leaving, leaving
	c.recount(pod, -1)
	keepsName := drain.OwnerKind(pod) == "StatefulSet"
	if !keepsName {
		c.replace(pod)
	}
	c.after(c.gone(pod), func() {
		c.end(pod.UID)
		if keepsName {
			c.replace(pod)
		}
	})
}

// grace is the time until a deletion's timestamp, which is when the pod should be gone.
func (c *Cluster) grace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return c.gone(pod)
}

func (c *Cluster) gone(pod *corev1.Pod) time.Duration {
	if c.times.Gone == nil {
		return 0
	}
	return c.times.Gone(pod)
}

func (c *Cluster) end(uid types.UID) {
	if pod, ok := c.pods[uid]; ok {
		delete(c.byNode[pod.Spec.NodeName], uid)
		delete(c.pods, uid)
	}
}

// replace makes the pod that a controller creates for one that leaves.
func (c *Cluster) replace(old *corev1.Pod) {
	if metav1.GetControllerOf(old) == nil {
		return
	}
	pod := old.DeepCopy()
	c.serial++
	pod.UID = types.UID(fmt.Sprintf("pod-%d", c.serial))
	pod.DeletionTimestamp = nil
	pod.CreationTimestamp = metav1.Time{Time: c.now}
	pod.Spec.NodeName = ""
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if drain.OwnerKind(old) != "StatefulSet" {
		pod.Name = fmt.Sprintf("%s-r%d", strings.SplitN(old.Name, "-r", 2)[0], c.serial)
	}
	c.schedule(pod)
}

// schedule binds the pod to the node with the fewest pods among those that take it, or lets it wait.
func (c *Cluster) schedule(pod *corev1.Pod) {
	var best *corev1.Node
	for _, node := range c.takers() {
		if tolerates(pod, node) && (best == nil || len(c.byNode[node.Name]) < len(c.byNode[best.Name])) {
			best = node
		}
	}
	if best == nil {
		c.waiting = append(c.waiting, pod)
		return
	}
	c.bind(pod, best.Name)
	c.after(c.times.Ready, func() { c.ready(pod.UID) })
}

// takers are the nodes that are Ready, by name.
func (c *Cluster) takers() []*corev1.Node {
	nodes := slices.Clone(c.others)
	for _, m := range c.members {
		if m.node != nil && m.instance.State != upgrade.InstanceLeaving {
			nodes = append(nodes, m.node)
		}
	}
	nodes = slices.DeleteFunc(nodes, func(n *corev1.Node) bool { return !ready(n) })
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// tolerates reports whether the node's cordon and taints let the pod in.
func tolerates(pod *corev1.Pod, node *corev1.Node) bool {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(slices.Clone(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return !slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !drain.Tolerates(pod, taint)
	})
}

func (c *Cluster) bind(pod *corev1.Pod, node string) {
	pod.Spec.NodeName = node
	c.pods[pod.UID] = pod
	if c.byNode[node] == nil {
		c.byNode[node] = map[types.UID]*corev1.Pod{}
	}
	c.byNode[node][pod.UID] = pod
}

func (c *Cluster) ready(uid types.UID) {
	old, ok := c.pods[uid]
	if !ok || old.DeletionTimestamp != nil {
		return
	}
	pod := old.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	c.pods[uid], c.byNode[pod.Spec.NodeName][uid] = pod, pod
	c.recount(pod, +1)
}

// placeWaiting offers the pods that no node took to the nodes there are now.
func (c *Cluster) placeWaiting() {
	waiting := c.waiting
	c.waiting = nil
	for _, pod := range waiting {
		c.schedule(pod)
	}
}

// recount keeps the budgets' status as the disruption controller would: a ready pod came or went.
func (c *Cluster) recount(pod *corev1.Pod, change int32) {
	if change < 0 && !drain.Ready(pod) {
		return
	}
	for _, budget := range c.index.Covering(pod) {
		st := &budget.Status
		st.CurrentHealthy += change
		st.DisruptionsAllowed = allowed(st)
		budget.ResourceVersion = c.touch()
	}
}

// allowed is disruption.go's updatePdbStatus: never negative, and nothing while no pods are expected.
func allowed(st *policyv1.PodDisruptionBudgetStatus) int32 {
	if st.ExpectedPods <= 0 {
		return 0
	}
	return max(0, st.CurrentHealthy-st.DesiredHealthy)
}
