package nodemark

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationOwner has the upgrade that set the marks, as the JSON of Owner. It is set with the fence and the hold. Older
// versions did not set it.
const AnnotationOwner = Domain + "/owner"

// Owner is the upgrade that marks a node: the namespace and group of its record, and the epoch of the lease holder that
// wrote the mark.
type Owner struct {
	Namespace string `json:"namespace"`
	Group     string `json:"group"`
	Epoch     int64  `json:"epoch,omitempty"`
}

// SetOwner writes the owner on a node that has marks. It does not change other nodes.
func SetOwner(node *corev1.Node, owner Owner) {
	if RunOf(node) == "" {
		return
	}
	text, _ := json.Marshal(owner) // strings and numbers can always be encoded
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationOwner, string(text))
}

// ReadOwner returns the owner of the node's marks, or false.
func ReadOwner(node *corev1.Node) (Owner, bool) {
	owner, err := parseOwner(node.Annotations[AnnotationOwner])
	return owner, err == nil
}

// RunOf returns the run that marked the node, or "".
func RunOf(node *corev1.Node) string {
	if run := node.Annotations[AnnotationRun]; run != "" {
		return run
	}
	return node.Annotations[AnnotationHeld]
}
