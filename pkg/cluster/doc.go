// Package cluster is the thin side of an upgrade towards the API server: it watches what a decision
// needs into a View, and carries out the actions that concern the cluster. It also keeps the memory
// of an upgrade there: the Record in a ConfigMap, and beside it what others ask, the right to write
// in a Lease.
//
// It knows no policy. Every write names the UID or the resourceVersion it was decided on.
package cluster
