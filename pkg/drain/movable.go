package drain

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Movable tells which pods a rolling restart of their Deployment moves without a gap: another pod
// comes up before the one that is there goes. The zero value knows of none.
type Movable struct {
	deployments map[Workload]restartable
	// shared are the claims that pods on two nodes may use at once.
	shared map[types.NamespacedName]bool
}

// restartable is a Deployment, how many pods it should have, and why its rolling restart would
// leave a gap; "" when it would not.
type restartable struct {
	uid      types.UID
	replicas int
	why      string
}

// NewMovable looks at the Deployments and claims of a cluster.
func NewMovable(deployments []*appsv1.Deployment, claims []*corev1.PersistentVolumeClaim) Movable {
	m := Movable{deployments: make(map[Workload]restartable, len(deployments)), shared: map[types.NamespacedName]bool{}}
	for _, d := range deployments {
		m.deployments[Workload{Namespace: d.Namespace, Kind: "Deployment", Name: d.Name}] = restartable{d.UID, replicasOf(d), WhyGap(d)}
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

// IsKnown reports whether Deployments were looked at.
func (m Movable) IsKnown() bool { return m.deployments != nil }

// FindDeployment is the UID of the pod's Deployment, and why its restart would leave a gap; "" when
// it would not.
func (m Movable) FindDeployment(pod *corev1.Pod) (uid types.UID, why string) {
	w := WorkloadOf(pod)
	d, known := m.deployments[w]
	switch {
	case w.Kind != "Deployment":
		return "", "only a Deployment brings another pod up first"
	case !known:
		return "", "its Deployment is not known"
	case d.why != "":
		return "", d.why
	}
	for i := range pod.Spec.Volumes {
		claim := pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim != nil && !m.shared[types.NamespacedName{Namespace: pod.Namespace, Name: claim.ClaimName}] {
			return "", "its volume " + claim.ClaimName + " can be used on one node at a time"
		}
	}
	return d.uid, ""
}

// MovesOnly reports whether a restart moves the pod without an eviction, whatever its budgets say:
// it is ready, its Deployment should have no other, and the restart leaves no gap.
func (m Movable) MovesOnly(pod *corev1.Pod) bool {
	_, why := m.FindDeployment(pod)
	return why == "" && Ready(pod) && m.deployments[WorkloadOf(pod)].replicas == 1
}

// replicasOf is how many pods the Deployment should have, 1 where nothing is written (apps/v1
// defaults.go).
func replicasOf(d *appsv1.Deployment) int {
	if d.Spec.Replicas == nil {
		return 1
	}
	return int(*d.Spec.Replicas)
}

// WhyGap says why a rolling restart of the Deployment would leave it without a ready pod; "" when
// it would not. Percentages of the surge are rounded up, those of what may be missing down
// (deployment/util/deployment_util.go, ResolveFenceposts).
func WhyGap(d *appsv1.Deployment) string {
	replicas := replicasOf(d)
	switch strategy := d.Spec.Strategy; {
	case d.Spec.Paused:
		return "its rollout is paused"
	case strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return "its strategy is Recreate"
	case strategy.RollingUpdate == nil: // 25 % of both
		return ""
	case scaledValue(strategy.RollingUpdate.MaxSurge, replicas, true) < 1:
		return "its maxSurge is 0"
	case scaledValue(strategy.RollingUpdate.MaxUnavailable, replicas, false) >= replicas:
		return "its maxUnavailable lets all of its pods be missing"
	}
	return ""
}

// scaledValue is 25 % where nothing is written, as the API server has it (apps/v1 defaults.go).
func scaledValue(value *intstr.IntOrString, of int, up bool) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(value, intstr.FromString("25%")), of, up)
	if err != nil {
		return 0
	}
	return n
}
