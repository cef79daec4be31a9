// Package cluster connects an upgrade to the API server. It watches everything that decisions need
// and provides it as a View, and it carries out the actions that concern the cluster. It also
// stores the state of an upgrade there: the Record and users' requests in a ConfigMap, and the
// right to write in a Lease.
//
// It contains no policy. Every write names the UID or the resourceVersion that it was decided on.
package cluster
