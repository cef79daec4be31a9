// Package manifest makes a cluster from manifests as users write them. Controllers get pods, pods get a node and a status, and
// budgets get the status that the disruption controller would compute.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/dump"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// Annotations of a controller about its pods.
const (
	// AnnotationNodes lists the nodes of its pods in order, "-" for a pod without a node.
	AnnotationNodes = "test/nodes"
	// AnnotationUnready is how many of its pods are not ready. The first pods are not ready.
	AnnotationUnready = "test/unready"
	// AnnotationWaiting is the reason why the containers of these pods wait, such as "CrashLoopBackOff".
	AnnotationWaiting = "test/waiting"
)

// Nodes are the nodes of a cluster if its manifest lists none: two outdated ones, with the label image=v1, and two current ones,
// in zones a and b.
const Nodes = "old-a old-b new-a new-b"

// Read makes a cluster from YAML documents. It reads them as if kubectl get had written them.
func Read(text []byte) (*dump.Dump, error) {
	objects, err := decode(text)
	if err != nil {
		return nil, err
	}
	c := newCluster(objects)
	var list struct {
		Kind       string            `json:"kind"`
		APIVersion string            `json:"apiVersion"`
		Items      []json.RawMessage `json:"items"`
	}
	list.Kind, list.APIVersion = "List", "v1"
	for _, object := range c.objects() {
		raw, err := encode(object)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, raw)
	}
	whole, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	d, err := dump.Read(bytes.NewReader(whole), dump.Limits{}, trim.ForChecks)
	if err != nil {
		return nil, err
	}
	d.Unread, d.IsDump = nil, false // a manifest describes a whole cluster
	return d, nil
}

// unknown is an object of a kind that client-go does not know, in its original form.
type unknown struct {
	runtime.Object
	raw json.RawMessage
}

func decode(text []byte) ([]runtime.Object, error) {
	var objects []runtime.Object
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var raw json.RawMessage
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading a manifest: %w", err)
		}
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		switch {
		case runtime.IsNotRegisteredError(err):
			object = unknown{raw: raw}
		case err != nil:
			return nil, fmt.Errorf("reading a manifest: %w: %.200s", err, raw)
		}
		objects = append(objects, object)
	}
}

func encode(object runtime.Object) (json.RawMessage, error) {
	if u, ok := object.(unknown); ok {
		return u.raw, nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	return json.Marshal(object)
}

// statusOf returns the status of a pod.
func statusOf(pod *corev1.Pod, ready bool, waiting string) corev1.PodStatus {
	condition := corev1.ConditionFalse
	if ready {
		condition = corev1.ConditionTrue
	}
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.9", StartTime: &pod.CreationTimestamp}
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: pod.CreationTimestamp})
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: condition, LastTransitionTime: pod.CreationTimestamp})
	for _, gate := range pod.Spec.ReadinessGates {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: gate.ConditionType, Status: condition, LastTransitionTime: pod.CreationTimestamp})
	}
	for i := range pod.Spec.Containers {
		c := corev1.ContainerStatus{Name: pod.Spec.Containers[i].Name, Ready: ready}
		if waiting != "" {
			c.RestartCount, c.State.Waiting = 7, &corev1.ContainerStateWaiting{Reason: waiting}
		}
		status.ContainerStatuses = append(status.ContainerStatuses, c)
	}
	return status
}

// splitNodes returns the nodes in an annotation.
func splitNodes(annotation string) []string { return strings.Fields(annotation) }
