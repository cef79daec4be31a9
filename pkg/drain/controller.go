package drain

import "time"

// Controller is the scale of a workload's controller when it was read.
type Controller struct {
	// Replicas is how many pods the workload should have; 0 if the controller is gone.
	Replicas int
	// Ordered is true for a StatefulSet whose podManagementPolicy is OrderedReady, the default. It creates a
	// pod only after all pods with lower ordinals are ready.
	Ordered bool
	// First is the lowest ordinal of a StatefulSet (spec.ordinals.start), 0 by default.
	First int
	// Uncreated counts, for a DaemonSet, the nodes that should have a pod of it and have none.
	Uncreated int
	// Refused is the error of the server or the controller because of which its pods cannot be created; "" if none is
	// known.
	Refused string
	// Unread is why Replicas is not known; "" if it is.
	Unread string
	// Read is when the controller was read.
	Read time.Time
}
