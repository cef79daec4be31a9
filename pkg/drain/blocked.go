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
	// Pod is zero where no pod is in the way. UID and Workload are the pod's.
	Pod      types.NamespacedName `json:"pod,omitzero"`
	UID      types.UID            `json:"-"`
	Workload Workload             `json:"-"`
	Obstacle
	// Since is when the pod was first seen to be blocked.
	Since time.Time `json:"since,omitzero"`
	// Until is when the cloud that drains the node gives up on it; zero where this tool does, or
	// when that is not known.
	Until time.Time `json:"until,omitzero"`
	// Unready says why pods of the workload that the pod is of do not become ready, "" where that is not
	// known: its budget is closed for that.
	Unready string `json:"-"`
	// Forces is true where the pod is deleted, whatever is in its way, when its node's time is over.
	Forces bool `json:"forces,omitempty"`
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

// Remedy is Obstacle's, without the advice to force what is forced. Where it is known why the workload's
// pods do not become ready, that is what is to be mended.
func (b Blocked) Remedy() string {
	remedy := b.Obstacle.Remedy()
	if b.Unready != "" {
		remedy = "mend " + b.Unready
	}
	if b.Forces {
		return OmitForce(remedy)
	}
	return remedy
}

// String says the obstacle in one line, without the remedy.
func (b Blocked) String() string {
	if b.Pod.Name == "" {
		return b.Detail
	}
	return fmt.Sprintf("pod %s: %s", b.Pod, b.Obstacle)
}
