package drain

import "time"

// Controller is the scale of a workload, as its controller's object showed it.
type Controller struct {
	// Replicas is how many pods the workload should have; 0 if the controller was deleted.
	Replicas int
	// Ordered is true for a StatefulSet whose podManagementPolicy is OrderedReady, the default. It creates a
	// pod only after all pods with lower ordinals are ready.
	Ordered bool
	// First is the lowest ordinal of a StatefulSet (spec.ordinals.start), 0 by default.
	First int
	// Uncreated counts, for a DaemonSet, the nodes that should have one of its pods but for which none was created.
	Uncreated int
	// Refused is why the controller's pods cannot be created, as the server or the controller words it; "" if no
	// reason is known.
	Refused string
	// Unread is why Replicas is not known; "" if Replicas is known.
	Unread string
	// Read is when the object was read.
	Read time.Time
}
