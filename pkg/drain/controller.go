package drain

import "time"

// Controller is what the controller of a workload says of its scale, as it was read.
type Controller struct {
	// Replicas is how many pods the workload should have; 0 for a controller that is gone.
	Replicas int
	// Ordered is true for a StatefulSet whose podManagementPolicy is OrderedReady, the default. It creates a
	// pod only after all pods with lower ordinals are ready.
	Ordered bool
	// First is the lowest ordinal of a StatefulSet (spec.ordinals.start), 0 by default.
	First int
	// Uncreated counts, for a DaemonSet, the nodes that should have a pod of it and for which none is
	// created.
	Uncreated int
	// Refused is why its pods cannot be created, in the words of the server or of the controller;
	// "" when nothing is known.
	Refused string
	// Unread is why Replicas is not known; "" when it is.
	Unread string
	// Read is when it was asked for.
	Read time.Time
}
