package drain

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Blocked is one obstacle in the way of one pod of a node that is being drained.
type Blocked struct {
	// Node is the name of the node that is being drained.
	Node string `json:"node"`
	// Pod is the blocked pod, and is zero if the obstacle is not about a pod. UID and Workload are the pod's.
	Pod      types.NamespacedName `json:"pod,omitzero"`
	UID      types.UID            `json:"-"`
	Workload Workload             `json:"-"`
	Obstacle
	// Since is when the pod was first seen as blocked.
	Since time.Time `json:"since,omitzero"`
	// Until is when the cloud stops trying to drain the node. It is zero if this tool drains the node, or if the time
	// is not known.
	Until time.Time `json:"until,omitzero"`
	// Unready is why pods of the workload do not become ready, which keeps the budget closed. It is "" if that is not
	// known.
	Unready string `json:"-"`
	// Forces is true if the pod is deleted in spite of the obstacle when the drain's time is over.
	Forces bool `json:"forces,omitempty"`
	// Passed is true if the cloud does not begin to drain the node because of the obstacle, or waits in the drain without end, and
	// continues with other nodes.
	Passed bool `json:"passed,omitempty"`
	// Lingers is true if the cloud goes on without the pod at Until, and deletes the pod with its node in the end (GKE G44).
	Lingers bool `json:"lingers,omitempty"`
}

// MarshalJSON writes the names of the pod and its budget with the keys namespace and name, as Kubernetes does.
// types.NamespacedName would write Namespace and Name.
func (b Blocked) MarshalJSON() ([]byte, error) {
	type name struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	type blocked Blocked // has no MarshalJSON
	return json.Marshal(struct {
		blocked
		Pod    name `json:"pod,omitzero"`
		Budget name `json:"budget,omitzero"`
	}{blocked(b), name(b.Pod), name(b.Budget)})
}

// Remedy returns the obstacle's remedy, without the advice to pass --on-timeout=force if that is already passed. If
// Unready is known, the remedy is to fix that.
func (b Blocked) Remedy() string {
	remedy := b.Obstacle.Remedy()
	if b.Unready != "" {
		remedy = "fix " + b.Unready
	}
	if b.Forces || b.Passed {
		return OmitForce(remedy)
	}
	return remedy
}

// String returns the obstacle in one line, without the remedy.
func (b Blocked) String() string {
	if b.Pod.Name == "" && b.Kind == Keeps {
		return "its annotation " + AnnotationDoNotDisrupt + " keeps it"
	}
	if b.Pod.Name == "" {
		return b.Detail
	}
	return fmt.Sprintf("pod %s: %s", b.Pod, b.Obstacle)
}
