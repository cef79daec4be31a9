package preflight

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// mergePatch is a JSON merge patch, in which null takes a field away.
	mergePatch     = "merge"
	strategicPatch = "strategic"
)

// patchCommand is the kubectl command that merges a body into an object, by mergePatch or
// strategicPatch.
func patchCommand(how, kind, namespace, name string, body any) string {
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
	return patchCommand(strategicPatch, w.Kind, w.Namespace, w.Name, fields{"spec": fields{"template": fields{"spec": podSpec}}})
}

// patchReplicas changes the scale of a workload, or the least of its autoscaler; "" for one without
// a scale.
func (w *Workload) patchReplicas(replicas int) string {
	switch {
	case w.Scaler != nil:
		return patchCommand(mergePatch, "hpa", w.Namespace, w.Scaler.Name, fields{"spec": fields{"minReplicas": replicas}})
	case w.Deployment == nil && w.StatefulSet == nil:
		return ""
	default:
		return patchCommand(mergePatch, w.Kind, w.Namespace, w.Name, fields{"spec": fields{"replicas": replicas}})
	}
}
