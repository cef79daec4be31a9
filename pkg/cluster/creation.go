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

// Creation is the API server's answer to a pod that a controller would create. The zero value means
// that the server would accept the pod.
type Creation struct {
	// Refused is the server's reason for refusing the pod. Unverified is why it is not known
	// whether the server would refuse it.
	Refused, Unverified string
}

// TryCreation asks the API server with dryRun=All to create a replacement for a pod, as the pod's
// controller would. The server runs admission, webhooks and quotas, and stores nothing. The request
// is the user's, so it also reports a refusal if admission allows the pod only to its controller.
// If the user may not create pods, the result is Unverified.
func TryCreation(ctx context.Context, client kubernetes.Interface, replaced *corev1.Pod) Creation {
	pod, isCopy, err := makeReplacement(ctx, client, replaced)
	if err != nil {
		return Creation{Unverified: fmt.Sprintf("reading what its controller creates: %v", err)}
	}
	_, err = client.CoreV1().Pods(replaced.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: FieldManager})
	if apierrors.IsForbidden(err) {
		if lack := explainMissingRight(ctx, client, replaced.Namespace); lack != "" {
			return Creation{Unverified: lack}
		}
	}
	return judgeCreation(err, isCopy)
}

// explainMissingRight returns a text if the user may not create pods in the namespace, or if the
// server does not answer whether the user may; otherwise "". It is needed because a refusal by
// authorization looks like a refusal by admission.
func explainMissingRight(ctx context.Context, client kubernetes.Interface, namespace string) string {
	right := []authorizationv1.ResourceAttributes{{Verb: "create", Resource: "pods", Namespace: namespace}}
	switch missing, err := findMissingRights(ctx, client, right); {
	case err != nil:
		return fmt.Sprintf("the server did not say whether you may %s: %v", describeRights(right), err)
	case len(missing) > 0:
		return "you may not " + missing[0]
	default:
		return ""
	}
}

// judgeCreation maps the server's answer. Admission plugins answer with Forbidden. A webhook
// answers with its own code, or cannot be reached. A copy of a running pod may be invalid just
// because it is a copy.
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

// makeReplacement returns the pod that the controller of replaced would create for it, from the
// controller's template. If the kind of the controller is not supported, it returns a copy of the
// pod.
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
	owner.BlockOwnerDeletion = nil // it needs a permission that only controllers have (gc_admission.go)
	meta := metav1.ObjectMeta{
		Namespace: replaced.Namespace, GenerateName: owner.Name + "-", OwnerReferences: []metav1.OwnerReference{*owner},
		Labels: template.Labels, Annotations: template.Annotations, Finalizers: template.Finalizers,
	}
	return &corev1.Pod{ObjectMeta: meta, Spec: template.Spec}, isCopy, nil
}

// readTemplate reads the controller's pod template. It returns nil if the kind is not supported.
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

// addClaims adds the volumes of a StatefulSet pod's claims (stateful_set_utils.go, updateStorage).
func addClaims(spec *corev1.PodSpec, claims []corev1.PersistentVolumeClaim, pod string) {
	for i := range claims {
		name := claims[i].Name
		spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + pod},
		}})
	}
}

// copyTemplate returns a template made from a running pod, without the fields that admission and
// the scheduler added.
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
	spec.Priority, spec.PreemptionPolicy, spec.Overhead = nil, nil, nil                      // admission sets them again from the classes
	isToken := func(name string) bool { return strings.HasPrefix(name, "kube-api-access-") } // serviceaccount/admission.go
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return isToken(v.Name) })
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1.VolumeMount) bool { return isToken(m.Name) })
		}
	}
	return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: running.Labels, Annotations: running.Annotations}, Spec: spec}, nil
}
