package nodemark

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationOwner holds the upgrade that the marks are of, as the JSON of Owner. It comes with the
// fence and with the hold. Nodes that an older version marked have none.
const AnnotationOwner = Domain + "/owner"

// Owner is the upgrade that marks a node: under which name it is recorded, and by which of the
// lease's holders the mark was written.
type Owner struct {
	Namespace string `json:"namespace"`
	Group     string `json:"group"`
	Epoch     int64  `json:"epoch,omitempty"`
}

// SetOwner writes the owner on a node that has marks; on another it changes nothing.
func SetOwner(node *corev1.Node, owner Owner) {
	if RunOf(node) == "" {
		return
	}
	text, _ := json.Marshal(owner) // strings and a number have a form in JSON
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationOwner, string(text))
}

// ReadOwner returns the owner that the node's marks name; false where they name none.
func ReadOwner(node *corev1.Node) (Owner, bool) {
	owner, err := parseOwner(node.Annotations[AnnotationOwner])
	return owner, err == nil
}

// RunOf returns the run whose mark the node has, "" for none.
func RunOf(node *corev1.Node) string {
	if run := node.Annotations[AnnotationRun]; run != "" {
		return run
	}
	return node.Annotations[AnnotationHeld]
}
