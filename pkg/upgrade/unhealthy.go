package upgrade

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Unhealthy is a workload that has fewer ready pods than it should have, and a pod that is late in
// making up for it, or was never created; or one whose last ready pod has to leave while no other can
// become ready.
type Unhealthy struct {
	Workload drain.Workload `json:"-"`
	// Name is the workload's, NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Pod is the late pod's name, "" for one that is not there; Node is where it is, "" where no node
	// takes it. Why says what it waits for.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	Why  string `json:"why"`
	// Ready counts the workload's ready pods, Before those that were before the upgrade, less what
	// its owner scaled away since.
	Ready  int       `json:"ready"`
	Before int       `json:"before"`
	Since  time.Time `json:"since"`
	// refused is true if the API server refuses its pods. uncreated is true if some pods are not created while
	// another pod is late.
	refused, uncreated bool
	// until is when the upgrade stops for it. first is the one of its pods that has been late for longest;
	// zero where none is.
	until time.Time
	first latePod
}

// latePod is a pod that is late to be ready, and since when it has been.
type latePod struct {
	uid   types.UID
	since time.Time
}

// String says it in one line.
func (u Unhealthy) String() string {
	if u.Pod == "" {
		return fmt.Sprintf("%s (%d of %d ready): %s", u.Name, u.Ready, u.Before, u.Why)
	}
	at := ""
	if u.Node != "" {
		at = " on node " + u.Node
	}
	return fmt.Sprintf("%s (%d of %d ready): pod %s%s: %s", u.Name, u.Ready, u.Before, u.Pod, at, u.Why)
}
