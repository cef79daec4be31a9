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

// schedulingKey is what the scheduler needs to know of a pod. Pods with the same requirements share one.
type schedulingKey struct {
	// sample is a pod of the key. kind and owner are its controller's kind and UID.
	sample *corev1.Pod
	kind   string
	owner  types.UID
	// needs are the resources that the pod takes. Its requirements on labels and taints are read later; see read.
	needs fit.Needs
	// counts are the podCounts that count pods of this key. repelledBy are the terms of other pods that keep it away.
	counts     []*podCounts
	repelledBy []*antiAffinityIndex

	// The fields below are read from the sample. For pods without a controller, they are read only when such a pod is
	// placed, or when its anti-affinity keeps others away.
	read    bool
	filters *filterCache
	// near are the key's affinity terms. apart are its anti-affinity terms.
	near  []affinityTerm
	apart []affinityTerm
	// repels are the indexes of the terms in apart.
	repels []*antiAffinityIndex
	spread []spreadConstraint
}

// affinityTerm is a required pod affinity or anti-affinity term: the pods that it selects, and its topology key.
type affinityTerm struct {
	pods  *podCounts
	label string
}

// dependsOnPods reports whether the scheduling of the key depends on where other pods are.
func (k *schedulingKey) dependsOnPods() bool {
	return len(k.near)+len(k.apart)+len(k.spread)+len(k.repelledBy) > 0
}

// toleratesTaints reports whether the key tolerates the node's taints. It ignores a cordon, because DaemonSet pods
// tolerate one.
func (k *schedulingKey) toleratesTaints(n *simNode) bool {
	return !slices.ContainsFunc(n.room.Taints, func(taint corev1.Taint) bool { return !fit.Tolerates(k.needs.Tolerations, &taint) })
}

// scoredRequests returns the requests that the scheduler assumes when it ranks nodes. For a pod that requests
// nothing, these are default values (kube-scheduler, util/pod_resources.go).
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

// nodeAffinity returns the node affinity that all pods of the key share. It returns nil for a DaemonSet, because each
// of its pods names its own node.
func (k *schedulingKey) nodeAffinity() *corev1.NodeAffinity {
	if k.sample.Spec.Affinity == nil || k.kind == daemonSet {
		return nil
	}
	return k.sample.Spec.Affinity.NodeAffinity
}

// filterID returns a string that is equal for keys that the same nodes refuse by their taints and labels. It returns
// "" if that cannot be determined.
func (k *schedulingKey) filterID() string {
	spec := &k.sample.Spec
	id, err := json.Marshal([]any{spec.NodeSelector, k.nodeAffinity(), spec.Tolerations})
	if err != nil {
		return ""
	}
	return string(id)
}

// requests returns the CPU and memory that the scheduler reserves for a pod.
func (k *schedulingKey) requests() amount {
	return amount{k.needs.Requests.CPU, k.needs.Requests.Memory}
}

// areScheduledAlike reports whether two pods of one controller can be scheduled to the same nodes. It ignores the
// affinity of DaemonSet pods, because that names the node of one pod.
func areScheduledAlike(a, b *corev1.Pod, kind string) bool {
	if a.Namespace != b.Namespace || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Spec.NodeSelector, b.Spec.NodeSelector) {
		return false
	}
	if !reflect.DeepEqual(a.Spec.Tolerations, b.Spec.Tolerations) || !reflect.DeepEqual(a.Spec.TopologySpreadConstraints, b.Spec.TopologySpreadConstraints) {
		return false
	}
	return kind == daemonSet || reflect.DeepEqual(a.Spec.Affinity, b.Spec.Affinity)
}

// attachLimits returns how many volumes each node may attach, by driver.
func attachLimits(all []*storagev1.CSINode) map[string]map[string]int64 {
	limits := make(map[string]map[string]int64, len(all))
	for _, csi := range all {
		limits[csi.Name] = fit.AttachLimits(csi)
	}
	return limits
}
