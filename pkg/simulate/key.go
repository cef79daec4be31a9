package simulate

import (
	"encoding/json"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// schedulingKey is what the scheduler has to know of a pod, shared by pods that are alike in it.
type schedulingKey struct {
	// sample is a pod of the key, kind and owner are its controller's.
	sample   *corev1.Pod
	kind     string
	owner    types.UID
	requests amount
	// counts have pods of this key among those they count, repelledBy keep it away from others.
	counts     []*podCounts
	repelledBy []*antiAffinityIndex

	// The rest is read off the pod, for pods without a controller not before one is to be placed or
	// repels others.
	read     bool
	filters  *filterCache
	affinity nodeaffinity.RequiredNodeAffinity
	// anyNode is a pod that asks for no particular nodes.
	anyNode         bool
	toleratesCordon bool
	near            []affinityTerm
	apart           []affinityTerm
	// repels are its own against others, from apart.
	repels  []*antiAffinityIndex
	spread  []spreadConstraint
	volumes []*nodeaffinity.NodeSelector
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

// scoredRequests is what the scheduler takes a pod to use when it ranks nodes: a guess where it
// asks for nothing (kube-scheduler, util/pod_resources.go).
func (k *schedulingKey) scoredRequests() amount {
	a := k.requests
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

// requestsOf is what the scheduler sets aside for the pod.
func requestsOf(pod *corev1.Pod) amount {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	return amount{requests.Cpu().MilliValue(), requests.Memory().Value()}
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
	return kind == daemonSet || (reflect.DeepEqual(a.Spec.Affinity, b.Spec.Affinity) && reflect.DeepEqual(claimNames(a), claimNames(b)))
}

func claimNames(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// termNamespaces are those whose pods the term means, nil for all. A selector of namespaces by
// their labels, which are not known here, is taken to select all: the stricter reading for pods
// that keep apart.
func termNamespaces(pod *corev1.Pod, t *corev1.PodAffinityTerm) []string {
	switch {
	case t.NamespaceSelector != nil:
		return nil
	case len(t.Namespaces) > 0:
		return t.Namespaces
	default:
		return []string{pod.Namespace}
	}
}

// volumeSelectors are the nodes that each claim's volume is reachable from, by namespace/name.
func volumeSelectors(spec *Spec) map[string]*nodeaffinity.NodeSelector {
	byName := make(map[string]*corev1.PersistentVolume, len(spec.Volumes))
	for _, volume := range spec.Volumes {
		byName[volume.Name] = volume
	}
	selectors := map[string]*nodeaffinity.NodeSelector{}
	for _, claim := range spec.Claims {
		volume := byName[claim.Spec.VolumeName]
		if volume != nil && volume.Spec.NodeAffinity != nil && volume.Spec.NodeAffinity.Required != nil {
			if selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required); err == nil {
				selectors[claim.Namespace+"/"+claim.Name] = selector
			}
		}
	}
	return selectors
}
