package upgrade

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// mostWorkloads is of how many workloads it is kept by name what the upgrade cost them: each takes
// some 100 bytes of the record, which is written twice for each node.
const mostWorkloads = 500

// OtherWorkloads is the name under which the others are summed up that have recovered: those that
// were noticed least.
const OtherWorkloads = "others"

// WorkloadRecord is what is known of a workload whose pods left nodes.
type WorkloadRecord struct {
	// Ready counts the pods that were ready before the first of them left; 0 when there are as many
	// again.
	Ready int `json:"ready,omitempty"`
	// Usual is how long its pods take to become ready, 0 for not known.
	Usual Duration `json:"usual,omitzero"`
	Impact
}

// Impact is what an upgrade cost a workload, as its holders saw it.
type Impact struct {
	// Evictions counts the pods that were evicted.
	Evictions int `json:"evictions,omitempty"`
	// Below is for how long the workload had fewer ready pods than before the upgrade, None for how
	// long it had none.
	Below Duration `json:"below,omitzero"`
	None  Duration `json:"none,omitzero"`
}

// Unhealthy is a workload that has fewer ready pods than before the upgrade, and a pod that is late
// in making up for it.
type Unhealthy struct {
	Workload drain.Workload `json:"-"`
	// Name is the workload's, NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Pod is the late pod's name, Node where it is; "" for none that takes it. Why says what it
	// waits for.
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
	Why  string `json:"why"`
	// Ready counts the workload's ready pods, Before those that were before the upgrade.
	Ready  int       `json:"ready"`
	Before int       `json:"before"`
	Since  time.Time `json:"since"`
	// until is when the upgrade stops for it.
	until time.Time
}

// String says it in one line.
func (u Unhealthy) String() string {
	at := ""
	if u.Node != "" {
		at = " on node " + u.Node
	}
	return fmt.Sprintf("%s (%d of %d ready): pod %s%s: %s", u.Name, u.Ready, u.Before, u.Pod, at, u.Why)
}
