// Package nodemark reads and writes an upgrade's marks on nodes: the fence, the hold against autoscalers, the
// deadline of a drain, and what node and group were like before.
package nodemark

import (
	"time"
)

// Domain is the prefix of all our annotations and labels.
const Domain = "kubectl-nodeupgrade"

// Annotations on nodes. They are only written with the fence, and at the start and the end of a drain.
const (
	// AnnotationRun has the run that fenced the node.
	AnnotationRun = Domain + "/run"
	// AnnotationNodeBaseline has what the node had before the fence, as the JSON of NodeBaseline.
	AnnotationNodeBaseline = Domain + "/prev"
	// AnnotationDeadline has the drain's deadline in RFC 3339. It exists from the start of the drain.
	AnnotationDeadline = Domain + "/drain-deadline"
	// AnnotationEpoch has the number of the lease holder that took over the upgrade while the node was in flight.
	AnnotationEpoch = Domain + "/epoch"
)

// FormatTime formats a time for an annotation.
func FormatTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }
