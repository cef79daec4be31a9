package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// Creation is what the API server answers to a pod that a controller would create. Its zero value
// means that it would create the pod.
type Creation struct {
	// Refused says in the server's words why it refuses the pod. Unverified says why that is not
	// known.
	Refused, Unverified string
}

// TryCreation asks the API server with dryRun=All to create a pod in the place of another, as the
// controller of that one would. It passes admission, webhooks and quotas, and is not stored. The
// request is the user's: a pod that admission allows to its controller only counts as refused.
// Without the right to create pods nothing is known.
func TryCreation(ctx context.Context, client kubernetes.Interface, replaced *corev1.Pod) Creation {
	pod, isCopy, err := makeReplacement(ctx, client, replaced)
	if err != nil {
		return Creation{Unverified: fmt.Sprintf("reading what its controller creates: %v", err)}
	}
	_, err = client.CoreV1().Pods(replaced.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: FieldManager})
	if apierrors.IsForbidden(err) {
		if lack := describeLackOfRight(ctx, client, replaced.Namespace); lack != "" {
			return Creation{Unverified: lack}
		}
	}
	return judgeCreation(err, isCopy)
}

// describeLackOfRight says that the user may not create pods in the namespace, or that the server
// does not say whether they may; "" where they may. Authorization and admission refuse a request in
// the same way.
func describeLackOfRight(ctx context.Context, client kubernetes.Interface, namespace string) string {
	right := []authorizationv1.ResourceAttributes{{Verb: "create", Resource: "pods", Namespace: namespace}}
	switch missing, err := askRights(ctx, client, right); {
	case err != nil:
		return fmt.Sprintf("the server did not say whether you may %s: %v", describeRights(right), err)
	case len(missing) > 0:
		return "you may not " + missing[0]
	default:
		return ""
	}
}

// judgeCreation sorts the answer. An admission plugin forbids. A webhook denies with a code of its
// own, or is not reached. A copy of a running pod may be invalid because it is a copy.
func judgeCreation(err error, isCopy bool) Creation {
	if err == nil {
		return Creation{}
	}
	text := err.Error()
	says := func(words string) bool { return strings.Contains(text, words) }
	switch {
	case says("does not support dry run"):
		return Creation{Unverified: text}
	case apierrors.IsForbidden(err), says("denied the request"), says("failed calling webhook"), apierrors.IsInvalid(err) && !isCopy:
		return Creation{Refused: text}
	default:
		return Creation{Unverified: text}
	}
}

// makeReplacement makes the pod that the controller of another would create in its place, from the
// controller's template. A controller of another kind is not read: its pod is copied.
func makeReplacement(ctx context.Context, client kubernetes.Interface, replaced *corev1.Pod) (pod *corev1.Pod, isCopy bool, err error) {
	owner := metav1.GetControllerOf(replaced)
	if owner == nil {
		return nil, false, fmt.Errorf("pod %s/%s has no controller", replaced.Namespace, replaced.Name)
	}
	template, err := readTemplate(ctx, client, replaced, owner)
	if isCopy = err == nil && template == nil; isCopy {
		template, err = copyTemplate(ctx, client, replaced)
	}
	if err != nil {
		return nil, false, err
	}
	owner.BlockOwnerDeletion = nil // setting it takes a right that controllers have (gc_admission.go)
	meta := metav1.ObjectMeta{
		Namespace: replaced.Namespace, GenerateName: owner.Name + "-", OwnerReferences: []metav1.OwnerReference{*owner},
		Labels: template.Labels, Annotations: template.Annotations, Finalizers: template.Finalizers,
	}
	return &corev1.Pod{ObjectMeta: meta, Spec: template.Spec}, isCopy, nil
}

// readTemplate reads the controller's template of pods. It returns nil for a kind that is not read.
func readTemplate(ctx context.Context, client kubernetes.Interface, replaced *corev1.Pod, owner *metav1.OwnerReference) (*corev1.PodTemplateSpec, error) {
	get := metav1.GetOptions{}
	switch owner.APIVersion + " " + owner.Kind {
	case "apps/v1 ReplicaSet":
		set, err := client.AppsV1().ReplicaSets(replaced.Namespace).Get(ctx, owner.Name, get)
		if err != nil {
			return nil, err
		}
		return &set.Spec.Template, nil
	case "apps/v1 StatefulSet":
		set, err := client.AppsV1().StatefulSets(replaced.Namespace).Get(ctx, owner.Name, get)
		if err != nil {
			return nil, err
		}
		addClaims(&set.Spec.Template.Spec, set.Spec.VolumeClaimTemplates, replaced.Name)
		return &set.Spec.Template, nil
	case "v1 ReplicationController":
		c, err := client.CoreV1().ReplicationControllers(replaced.Namespace).Get(ctx, owner.Name, get)
		if err != nil {
			return nil, err
		}
		return c.Spec.Template, nil
	default:
		return nil, nil
	}
}

// addClaims adds the volumes that a StatefulSet's pod has for its claims (stateful_set_utils.go,
// updateStorage).
func addClaims(spec *corev1.PodSpec, claims []corev1.PersistentVolumeClaim, pod string) {
	for i := range claims {
		name := claims[i].Name
		spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + pod},
		}})
	}
}

// copyTemplate makes a template of a running pod, without what admission and the scheduler added to
// it.
func copyTemplate(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (*corev1.PodTemplateSpec, error) {
	named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String()}
	list, err := client.CoreV1().Pods(pod.Namespace).List(ctx, named)
	switch {
	case err != nil:
		return nil, err
	case len(list.Items) != 1 || list.Items[0].UID != pod.UID:
		return nil, fmt.Errorf("pod %s/%s is gone", pod.Namespace, pod.Name)
	}
	running := &list.Items[0]
	spec := running.Spec
	spec.NodeName, spec.EphemeralContainers = "", nil
	spec.Priority, spec.PreemptionPolicy, spec.Overhead = nil, nil, nil                      // their classes set them
	isToken := func(name string) bool { return strings.HasPrefix(name, "kube-api-access-") } // serviceaccount/admission.go
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return isToken(v.Name) })
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1.VolumeMount) bool { return isToken(m.Name) })
		}
	}
	return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: running.Labels, Annotations: running.Annotations}, Spec: spec}, nil
}
