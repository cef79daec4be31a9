package drain

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Movable says which pods a rolling restart of their Deployment moves without a gap: another pod becomes ready before the
// old one ends. The zero value knows no Deployment.
type Movable struct {
	deployments map[Workload]restartable
	// shared has the claims that pods on two nodes may use together.
	shared map[types.NamespacedName]bool
}

// restartable is a Deployment, how many pods it should have, and why a rolling restart would leave a gap, or "".
type restartable struct {
	uid      types.UID
	replicas int
	why      string
}

// NewMovable returns which pods can be moved, from the Deployments and claims of a cluster.
func NewMovable(deployments []*appsv1.Deployment, claims []*corev1.PersistentVolumeClaim) Movable {
	m := Movable{deployments: make(map[Workload]restartable, len(deployments)), shared: map[types.NamespacedName]bool{}}
	for _, d := range deployments {
		m.deployments[Workload{Namespace: d.Namespace, Kind: "Deployment", Name: d.Name}] = restartable{d.UID, replicasOf(d), WhyRestartGap(d)}
	}
	for _, c := range claims {
		for _, mode := range c.Spec.AccessModes {
			if mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany {
				m.shared[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = true
			}
		}
	}
	return m
}

// IsKnown reports whether Deployments were read.
func (m Movable) IsKnown() bool { return m.deployments != nil }

// FindDeployment returns the UID of the pod's Deployment. If its restart would leave a gap, it returns the reason
// instead.
func (m Movable) FindDeployment(pod *corev1.Pod) (uid types.UID, why string) {
	w := WorkloadOf(pod)
	d, known := m.deployments[w]
	switch {
	case w.Kind != "Deployment":
		return "", "only a Deployment can start another pod first"
	case !known:
		return "", "its Deployment is unknown"
	case d.why != "":
		return "", d.why
	}
	for i := range pod.Spec.Volumes {
		claim := pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim != nil && !m.shared[types.NamespacedName{Namespace: pod.Namespace, Name: claim.ClaimName}] {
			return "", "its volume " + claim.ClaimName + " can be used on only one node at a time"
		}
	}
	return d.uid, ""
}

// CanMoveWithoutEviction reports whether a restart moves the pod, whatever its budgets allow. The pod is ready, its
// Deployment should have only one pod, and the restart leaves no gap.
func (m Movable) CanMoveWithoutEviction(pod *corev1.Pod) bool {
	_, why := m.FindDeployment(pod)
	return why == "" && Ready(pod) && m.deployments[WorkloadOf(pod)].replicas == 1
}

// replicasOf returns how many pods the Deployment should have; the default is 1 (apps/v1 defaults.go).
func replicasOf(d *appsv1.Deployment) int {
	if d.Spec.Replicas == nil {
		return 1
	}
	return int(*d.Spec.Replicas)
}

// WhyRestartGap returns why a rolling restart would leave the Deployment without a ready pod, or "" if it would not. A
// percentage in maxSurge is rounded up, one in maxUnavailable down (deployment/util/deployment_util.go,
// ResolveFenceposts).
func WhyRestartGap(d *appsv1.Deployment) string {
	replicas := replicasOf(d)
	switch strategy := d.Spec.Strategy; {
	case d.Spec.Paused:
		return "its rollout is paused"
	case strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return "its strategy is Recreate"
	case strategy.RollingUpdate == nil: // both default to 25 %
		return ""
	case scaledValue(strategy.RollingUpdate.MaxSurge, replicas, true) < 1:
		return "its maxSurge is 0"
	case scaledValue(strategy.RollingUpdate.MaxUnavailable, replicas, false) >= replicas:
		return "its maxUnavailable allows all of its pods to be missing"
	}
	return ""
}

// scaledValue returns the number of pods for the value; the default is 25 % (apps/v1 defaults.go).
func scaledValue(value *intstr.IntOrString, of int, up bool) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(value, intstr.FromString("25%")), of, up)
	if err != nil {
		return 0
	}
	return n
}
