package schedule

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Deletion deletes one pod although its PodDisruptionBudget does not allow it. Only --on-timeout=force and the end of a blue-green
// upgrade decide that. It is a nodegroup.Action.
type Deletion struct {
	Namespace, Pod string
	UID            types.UID
	Node           string
	// Grace replaces the pod's grace period, in seconds; 0 keeps the pod's own.
	Grace int64
}

// Key implements nodegroup.Action.
func (a Deletion) Key() string { return "delete/" + string(a.UID) }

func (a Deletion) String() string { return fmt.Sprintf("delete pod %s/%s", a.Namespace, a.Pod) }
