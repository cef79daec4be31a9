// Package dump reads a cluster from the output of kubectl get: JSON or YAML, with or without gzip,
// as one List, several documents or single objects. Any other input leads to one error that says
// what was found, where, and what to do.
//
// From JSON it reads one object at a time, and keeps only the trimmed objects in memory. It reads a
// YAML document as a whole, so the size of YAML is limited.
//
// reader ──▶ gzip ──▶ bounded ──▶ documents, JSON or YAML ──▶ items ──▶ trimmed objects
package dump
