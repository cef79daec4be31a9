// Package report turns plans, lists and statuses into tables, Markdown and documents. It makes no decisions
// and reads nothing from a cluster.
package report
