package preflight

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

const (
	// mergePatch is a JSON merge patch, in which null removes a field.
	mergePatch     = "merge"
	strategicPatch = "strategic"
)

// patchCommand returns the kubectl command that merges a body into an object, by mergePatch or
// strategicPatch.
func patchCommand(how, kind, namespace, name string, body any) string {
	text, err := json.Marshal(body)
	if err != nil {
		return "" // cannot happen: every body is valid JSON
	}
	program := "kubectl patch"
	if namespace != "" {
		program += " " + shell.Option("-n", namespace)
	}
	object := []string{strings.ToLower(kind), name}
	if strings.HasPrefix(name, "-") { // kubectl would read it as an option
		object = []string{object[0] + "/" + name}
	}
	return shell.Command(program, object...) + " --type=" + how + " " + shell.Option("-p", string(text))
}

// labelCommand returns the kubectl command that sets a label of a pod and overwrites an old value.
func labelCommand(pod *corev1.Pod, label string) string {
	return shell.Command("kubectl label pod "+shell.Option("-n", pod.Namespace)+" --overwrite", pod.Name, label)
}

// fields is a JSON object of a patch.
type fields map[string]any

// patchTemplateCommand returns the command that changes the workload's pod template, "" if it has none.
func (w *Workload) patchTemplateCommand(podSpec fields) string {
	if w.Deployment == nil && w.StatefulSet == nil {
		return ""
	}
	return patchCommand(strategicPatch, w.Kind, w.Namespace, w.Name, fields{"spec": fields{"template": fields{"spec": podSpec}}})
}

// patchReplicasCommand returns the command that changes the workload's replicas, or its autoscaler's
// minReplicas; "" if it has neither.
func (w *Workload) patchReplicasCommand(replicas int) string {
	switch {
	case w.Scaler != nil:
		return patchCommand(mergePatch, "hpa", w.Namespace, w.Scaler.Name, fields{"spec": fields{"minReplicas": replicas}})
	case w.Deployment == nil && w.StatefulSet == nil:
		return ""
	default:
		return patchCommand(mergePatch, w.Kind, w.Namespace, w.Name, fields{"spec": fields{"replicas": replicas}})
	}
}
