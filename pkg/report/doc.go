// Package report turns plans, lists and statuses into values that print as tables,
// Markdown or documents. It decides nothing and reads nothing.
package report
