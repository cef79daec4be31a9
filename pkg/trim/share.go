package trim

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Sharer lets the pods of one controller share equal parts: labels, owners, requests, placement
// rules. Of fifty trimmed pods of a Deployment, forty-nine then need a third of their memory. The
// pods must not be changed after that, as no object in an informer's store may be. A Sharer is not
// safe for concurrent use.
type Sharer struct {
	models map[types.UID]*corev1.Pod
	texts  map[string]string
}

// NewSharer returns a Sharer without pods.
func NewSharer() *Sharer {
	return &Sharer{models: map[types.UID]*corev1.Pod{}, texts: map[string]string{}}
}

// Pod replaces parts of a trimmed pod by equal parts of earlier pods. The pod's content stays the
// same.
func (s *Sharer) Pod(pod *corev1.Pod) {
	shareString(s, &pod.Namespace)
	shareString(s, &pod.Spec.NodeName)
	shareString(s, &pod.Status.Phase)
	for i := range pod.Status.Conditions {
		shareString(s, &pod.Status.Conditions[i].Type)
		shareString(s, &pod.Status.Conditions[i].Status)
		shareString(s, &pod.Status.Conditions[i].Reason)
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	model := s.models[owner.UID]
	if model == nil {
		model = &corev1.Pod{}
		s.models[owner.UID] = model
	}
	shareEqualPart(&pod.GenerateName, &model.GenerateName)
	shareEqualPart(&pod.Labels, &model.Labels)
	shareEqualPart(&pod.Annotations, &model.Annotations)
	shareEqualPart(&pod.OwnerReferences, &model.OwnerReferences)
	shareEqualPart(&pod.Spec.NodeSelector, &model.Spec.NodeSelector)
	shareEqualPart(&pod.Spec.Affinity, &model.Spec.Affinity)
	shareEqualPart(&pod.Spec.Tolerations, &model.Spec.Tolerations)
	shareEqualPart(&pod.Spec.TopologySpreadConstraints, &model.Spec.TopologySpreadConstraints)
	shareEqualPart(&pod.Spec.Containers, &model.Spec.Containers)
	shareEqualPart(&pod.Spec.InitContainers, &model.Spec.InitContainers)
	shareEqualPart(&pod.Spec.ReadinessGates, &model.Spec.ReadinessGates)
	shareEqualPart(&pod.Spec.Volumes, &model.Spec.Volumes)
	shareEqualPart(&pod.Status.ContainerStatuses, &model.Status.ContainerStatuses)
	shareEqualPart(&pod.Spec.TerminationGracePeriodSeconds, &model.Spec.TerminationGracePeriodSeconds)
	shareEqualPart(&pod.Spec.Priority, &model.Spec.Priority)
}

// shareEqualPart sets a part to the model's value if both are equal. Otherwise it sets the model to
// the part, because the next pods are likely to be of the same, newer revision.
func shareEqualPart[T any](part, model *T) {
	if reflect.DeepEqual(*part, *model) {
		*part = *model
	} else {
		*model = *part
	}
}

// shareString shares a text that pods of all controllers repeat. There are few such texts.
func shareString[T ~string](s *Sharer, text *T) {
	known, ok := s.texts[string(*text)]
	if !ok {
		known = string(*text)
		s.texts[known] = known
	}
	*text = T(known)
}
