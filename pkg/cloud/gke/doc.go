// Package gke is the provider for node pools of GKE Standard clusters. GKE upgrades a pool itself: it adds nodes, drains the old
// ones and deletes them. This package reads pools and operations, and starts and cancels upgrades. It changes no node.
//
// The API lists no machines, so the nodes of the cluster are the members of a pool, by their label. A node is outdated if its
// kubelet has another version than the target.
//
// The API has no request tokens, so a repeated request could start a second upgrade. To prevent that, a request that starts an upgrade
// contains the etag that the pool had when it was observed. GKE refuses the request if the pool has changed since. GKE also refuses to
// start some operations while another one runs.
package gke
