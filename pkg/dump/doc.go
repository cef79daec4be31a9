// Package dump reads a cluster from what kubectl get prints of it: JSON or YAML, packed with
// gzip or not, as one List, several documents or single objects. Whatever else it is given
// ends in one error that says what was found, where, and what to do.
//
// Of JSON only one object of the input is in memory at a time, beside what is kept of those
// before it. YAML is read whole, and so only up to a size.
//
//	reader ──▶ gzip ──▶ bounded ──▶ documents, JSON or YAML ──▶ items ──▶ trimmed objects
package dump
