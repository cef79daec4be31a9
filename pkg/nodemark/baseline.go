package nodemark

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationGroupBaseline holds what the group was like before the run, as the JSON of Before. It
// comes with the fence and with the hold, and is what an upgrade whose record is lost continues
// with.
const AnnotationGroupBaseline = Domain + "/before"

// GroupBaseline is what cannot be seen of a group any more once its upgrade is under way.
type GroupBaseline struct {
	// Desired, Min and Max are the group's size in nodes, Zones its nodes by zone.
	Desired int            `json:"desired"`
	Min     int            `json:"min"`
	Max     int            `json:"max"`
	Zones   map[string]int `json:"zones,omitempty"`
	// Suspended are the processes that the run suspended.
	Suspended []string `json:"suspended,omitempty"`
}

// Text is the baseline as the annotation holds it.
func (b GroupBaseline) Text() string {
	text, _ := json.Marshal(b) // numbers and strings have a form in JSON
	return string(text)
}

// SetGroupBaseline writes down on a node what its group was like before the run; an empty text
// changes nothing.
func SetGroupBaseline(node *corev1.Node, text string) {
	if text != "" {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationGroupBaseline, text)
	}
}

// ReadGroupBaseline is what the run wrote on the node about its group; false when it says nothing.
func ReadGroupBaseline(node *corev1.Node, run string) (GroupBaseline, bool) {
	if node.Annotations[AnnotationRun] != run && node.Annotations[AnnotationHeld] != run {
		return GroupBaseline{}, false
	}
	b, err := parseGroupBaseline(node.Annotations[AnnotationGroupBaseline])
	return b, err == nil
}
