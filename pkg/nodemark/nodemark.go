// Package nodemark writes on nodes what an upgrade has to say there, and reads it: the fence, the
// hold against autoscalers, the deadline of a drain, and what node and group were like before.
package nodemark

import (
	"time"
)

// Domain prefixes every annotation and label that is ours.
const Domain = "kubectl-nodeupgrade"

// Annotations on nodes. They are written with the fence, at the start of a drain and at its end,
// and at no other time.
const (
	// AnnotationRun holds the run that fenced the node.
	AnnotationRun = Domain + "/run"
	// AnnotationNodeBaseline holds what was there before us, as the JSON of Prev.
	AnnotationNodeBaseline = Domain + "/prev"
	// AnnotationDeadline holds the drain's deadline, RFC 3339; it is there from the start of the
	// drain.
	AnnotationDeadline = Domain + "/drain-deadline"
	// AnnotationEpoch holds the number of the holder that took the upgrade over while the node was
	// in flight.
	AnnotationEpoch = Domain + "/epoch"
)

// FormatTime writes a time as annotations hold it.
func FormatTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }
