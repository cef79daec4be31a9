package nodemark

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationGroupBaseline has the state of the group before the run, as the JSON of GroupBaseline. It is set with the
// fence and the hold. An upgrade whose record is lost continues with it.
const AnnotationGroupBaseline = Domain + "/before"

// GroupBaseline is the state of a group before its upgrade, which cannot be observed any more during the upgrade.
type GroupBaseline struct {
	// Desired, Min and Max are the group's size in nodes. Zones counts its nodes by zone.
	Desired int            `json:"desired"`
	Min     int            `json:"min"`
	Max     int            `json:"max"`
	Zones   map[string]int `json:"zones,omitempty"`
	// Suspended are the processes that the run suspended.
	Suspended []string `json:"suspended,omitempty"`
}

// Encode returns the baseline as the value of the annotation.
func (b GroupBaseline) Encode() string {
	text, _ := json.Marshal(b) // numbers and strings can always be encoded as JSON
	return string(text)
}

// SetGroupBaseline sets the node's annotation to text, an encoded GroupBaseline. If text is empty, the node does not
// change.
func SetGroupBaseline(node *corev1.Node, text string) {
	if text != "" {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationGroupBaseline, text)
	}
}

// ReadGroupBaseline returns the group's baseline that the run wrote on the node. It returns false if there is none.
func ReadGroupBaseline(node *corev1.Node, run string) (GroupBaseline, bool) {
	if node.Annotations[AnnotationRun] != run && node.Annotations[AnnotationHeld] != run {
		return GroupBaseline{}, false
	}
	b, err := parseGroupBaseline(node.Annotations[AnnotationGroupBaseline])
	return b, err == nil
}
