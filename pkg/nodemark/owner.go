package nodemark

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationOwner contains the upgrade that marked the node, as the JSON of Owner. It is written with the fence and
// with the hold. Nodes that an older version marked do not have it.
const AnnotationOwner = Domain + "/owner"

// Owner identifies the upgrade that marked a node: the name of its record, and the epoch of the lease holder that
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
	text, _ := json.Marshal(owner) // strings and a number can always be encoded as JSON
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationOwner, string(text))
}

// ReadOwner returns the owner that the node's annotation contains, or false if there is none.
func ReadOwner(node *corev1.Node) (Owner, bool) {
	owner, err := parseOwner(node.Annotations[AnnotationOwner])
	return owner, err == nil
}

// RunOf returns the run that marked the node, or "" if it has no mark.
func RunOf(node *corev1.Node) string {
	if run := node.Annotations[AnnotationRun]; run != "" {
		return run
	}
	return node.Annotations[AnnotationHeld]
}
