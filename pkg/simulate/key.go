package simulate

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// schedulingKey is what the scheduler has to know of a pod, shared by pods that are alike in it.
type schedulingKey struct {
	// sample is a pod of the key, kind and owner are its controller's.
	sample *corev1.Pod
	kind   string
	owner  types.UID
	// needs are what it takes up; what it asks of labels and taints is read with the rest.
	needs fit.Needs
	// counts have pods of this key among those they count, repelledBy keep it away from others.
	counts     []*podCounts
	repelledBy []*antiAffinityIndex

	// The rest is read off the pod, for pods without a controller not before one is to be placed or
	// repels others.
	read    bool
	filters *filterCache
	near    []affinityTerm
	apart   []affinityTerm
	// repels are its own against others, from apart.
	repels []*antiAffinityIndex
	spread []spreadConstraint
}

// affinityTerm is a required pod affinity or anti-affinity: the pods it means, and the label that
// makes nodes one place.
type affinityTerm struct {
	pods  *podCounts
	label string
}

// dependsOnPods reports whether it matters to the key where other pods are.
func (k *schedulingKey) dependsOnPods() bool {
	return len(k.near)+len(k.apart)+len(k.spread)+len(k.repelledBy) > 0
}

// toleratesTaints reports whether the key tolerates the node's taints. It may be cordoned: pods of
// DaemonSets are put there nevertheless.
func (k *schedulingKey) toleratesTaints(n *simNode) bool {
	return !slices.ContainsFunc(n.room.Taints, func(taint corev1.Taint) bool { return !fit.Tolerates(k.needs.Tolerations, &taint) })
}

// scoredRequests is what the scheduler takes a pod to use when it ranks nodes: a guess where it
// asks for nothing (kube-scheduler, util/pod_resources.go).
func (k *schedulingKey) scoredRequests() amount {
	a := k.requests()
	if a.cpu == 0 {
		a.cpu = 100
	}
	if a.memory == 0 {
		a.memory = 200 << 20
	}
	return a
}

// nodeAffinity is what all pods of the key ask of nodes: nil for a DaemonSet's, each of which names
// its own node.
func (k *schedulingKey) nodeAffinity() *corev1.NodeAffinity {
	if k.sample.Spec.Affinity == nil || k.kind == daemonSet {
		return nil
	}
	return k.sample.Spec.Affinity.NodeAffinity
}

// filterID is equal for keys that the same nodes refuse by their taints and labels; empty when
// there is no telling.
func (k *schedulingKey) filterID() string {
	spec := &k.sample.Spec
	id, err := json.Marshal([]any{spec.NodeSelector, k.nodeAffinity(), spec.Tolerations})
	if err != nil {
		return ""
	}
	return string(id)
}

// requests is the CPU and memory that the scheduler sets aside for a pod.
func (k *schedulingKey) requests() amount {
	return amount{k.needs.Requests.CPU, k.needs.Requests.Memory}
}

// scheduleAlike reports whether two pods of one controller may go to the same places. A DaemonSet's
// pods name their node in their affinity, which says nothing of the next.
func scheduleAlike(a, b *corev1.Pod, kind string) bool {
	if a.Namespace != b.Namespace || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Spec.NodeSelector, b.Spec.NodeSelector) {
		return false
	}
	if !reflect.DeepEqual(a.Spec.Tolerations, b.Spec.Tolerations) || !reflect.DeepEqual(a.Spec.TopologySpreadConstraints, b.Spec.TopologySpreadConstraints) {
		return false
	}
	return kind == daemonSet || reflect.DeepEqual(a.Spec.Affinity, b.Spec.Affinity)
}

// attachLimits are how many volumes each node may attach, by driver.
func attachLimits(all []*storagev1.CSINode) map[string]map[string]int64 {
	limits := make(map[string]map[string]int64, len(all))
	for _, csi := range all {
		limits[csi.Name] = fit.AttachLimits(csi)
	}
	return limits
}
