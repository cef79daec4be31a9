package worlds

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// restartDeployment changes the template, as kubectl rollout restart does, and records the pod for which it was restarted. It does
// nothing if the last restart was for the same pod.
func (c *cluster) restartDeployment(a schedule.Restart) error {
	m := c.controllers[a.Deployment]
	if m == nil || m.deployment == nil || c.namespaceEnding {
		return apierrors.NewNotFound(corev1.Resource("deployments"), a.Deployment)
	}
	o := m.deployment
	asRead := o.rollout.createsPodFirst() || o.rollout == OneNode // the volume claim is not part of the Deployment
	if o.uid != a.UID || !asRead {
		c.onRestart(m, a, changed)
		return nodegroup.ErrMoved
	}
	if o.moved == a.Pod {
		c.onRestart(m, a, repeated)
		return nil
	}
	o.moved, o.sets = a.Pod, append(o.sets, 0)
	c.onRestart(m, a, restarts)
	c.scheduleRoll(m)
	return nil
}

// rollDeployment simulates the Deployment controller (deployment/rolling.go). The newest ReplicaSet grows within maxSurge. The older
// ReplicaSets shrink within maxUnavailable, unready pods first.
func (c *cluster) rollDeployment(m *controller) {
	o := m.deployment
	if c.namespaceEnding || o.rollout == Halted {
		return
	}
	surge, missing := o.rollout.bounds(m.Replicas)
	newest := len(o.sets) - 1
	all, ready := 0, c.countReadyPerReplicaSet(m)
	available := 0
	for set, n := range o.sets {
		all, available = all+n, available+ready[set]
	}
	if more := min(m.Replicas+surge-all, m.Replicas-o.sets[newest]); more > 0 {
		o.sets[newest] += more
		all += more
	}
	least := m.Replicas - missing
	spare := all - least - (o.sets[newest] - ready[newest])
	for set := range newest {
		if unready := min(spare, o.sets[set]-ready[set]); unready > 0 {
			o.sets[set], spare = o.sets[set]-unready, spare-unready
		}
	}
	for set := range newest {
		if fewer := min(available-least, spare, o.sets[set]); fewer > 0 {
			o.sets[set], available, spare = o.sets[set]-fewer, available-fewer, spare-fewer
		}
	}
	c.scaleReplicaSets(m)
}

func (c *cluster) podsOfReplicaSet(m *controller, set int) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range c.pods {
		if pod.Labels["app"] == m.Name && pod.Labels[templateHash] == replicaSetHash(set) && pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (c *cluster) countReadyPerReplicaSet(m *controller) []int {
	ready := make([]int, len(m.deployment.sets))
	for set := range ready {
		ready[set] = countReady(c.podsOfReplicaSet(m, set))
	}
	return ready
}

// scaleReplicaSets simulates the ReplicaSet controller: it creates missing pods of each set, and deletes surplus pods in the order of
// compareUse.
func (c *cluster) scaleReplicaSets(m *controller) {
	for set, want := range m.deployment.sets {
		pods := c.podsOfReplicaSet(m, set)
		for range want - len(pods) {
			c.putPod(c.newPod(m, set))
		}
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Or(compareUse(a, b), cmp.Compare(b.UID, a.UID)) })
		for _, pod := range pods[:max(0, len(pods)-want)] {
			c.deletePod(pod.UID)
		}
	}
	c.scheduleBinding()
}

// compareUse sorts pods without a node first, then unready pods, then ready pods (controller_utils.go, ActivePodsWithRanks).
func compareUse(a, b *corev1.Pod) int {
	use := func(pod *corev1.Pod) int {
		switch {
		case pod.Spec.NodeName == "":
			return 0
		case !isPodReady(pod):
			return 1
		default:
			return 2
		}
	}
	return cmp.Compare(use(a), use(b))
}

// scheduleRoll schedules a run of the controller of a restarted Deployment.
func (c *cluster) scheduleRoll(m *controller) {
	if o := m.deployment; o != nil && len(o.sets) > 1 && !o.syncing {
		o.syncing = true
		c.after(20*time.Millisecond, func() {
			o.syncing = false
			c.rollDeployment(m)
		})
	}
}
