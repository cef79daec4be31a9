// Package nodemark reads and writes an upgrade's marks on nodes: the fence, the hold against autoscalers, the
// deadline of a drain, and what node and group were like before.
package nodemark

import (
	"time"
)

// Domain is the prefix of all of this tool's annotations and labels.
const Domain = "kubectl-nodeupgrade"

// Annotations on nodes. They are written with the fence and at the start of a drain. They are removed at its end.
// AnnotationEpoch is written when another process takes over the upgrade.
const (
	// AnnotationRun contains the run that fenced the node.
	AnnotationRun = Domain + "/run"
	// AnnotationNodeBaseline contains what the node had before it was fenced, as the JSON of NodeBaseline.
	AnnotationNodeBaseline = Domain + "/prev"
	// AnnotationDeadline contains the drain's deadline, RFC 3339. It is set at the start of the drain.
	AnnotationDeadline = Domain + "/drain-deadline"
	// AnnotationEpoch contains the number of the lease holder that took over the upgrade while the node was in
	// flight.
	AnnotationEpoch = Domain + "/epoch"
)

// FormatTime returns the time in the format of the annotations.
func FormatTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }
