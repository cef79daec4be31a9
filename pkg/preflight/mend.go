package preflight

import (
	"encoding/json"
	"fmt"
	"strings"
)

// patchCommand is the kubectl command that merges a body into an object, as a strategic merge
// patch.
func patchCommand(kind, namespace, name string, body any) string {
	return formatPatch(kind, namespace, name, "strategic", body)
}

// mergePatchCommand does it as a JSON merge patch, in which null takes a field away.
func mergePatchCommand(kind, namespace, name string, body any) string {
	return formatPatch(kind, namespace, name, "merge", body)
}

func formatPatch(kind, namespace, name, how string, body any) string {
	text, err := json.Marshal(body)
	if err != nil {
		return "" // no body of a rule is one that JSON lacks
	}
	place := ""
	if namespace != "" {
		place = " -n " + namespace
	}
	return fmt.Sprintf("kubectl patch%s %s %s --type=%s -p %s", place, strings.ToLower(kind), name, how, quoteForShell(string(text)))
}

// quoteForShell writes a text as one word of a POSIX shell.
func quoteForShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// fields is a JSON object of a patch.
type fields = map[string]any

// patchTemplate changes the pod template of a workload, "" for one that has none.
func (w *Workload) patchTemplate(podSpec fields) string {
	if w.Deployment == nil && w.StatefulSet == nil {
		return ""
	}
	return patchCommand(w.Kind, w.Namespace, w.Name, fields{"spec": fields{"template": fields{"spec": podSpec}}})
}

// patchReplicas changes the scale of a workload, or the least of its autoscaler; "" for one without
// a scale.
func (w *Workload) patchReplicas(replicas int) string {
	switch {
	case w.Scaler != nil:
		return mergePatchCommand("hpa", w.Namespace, w.Scaler.Name, fields{"spec": fields{"minReplicas": replicas}})
	case w.Deployment == nil && w.StatefulSet == nil:
		return ""
	default:
		return mergePatchCommand(w.Kind, w.Namespace, w.Name, fields{"spec": fields{"replicas": replicas}})
	}
}
