// Package gke is the provider for node pools of GKE Standard clusters. GKE upgrades a pool itself: it adds nodes, drains the old
// ones and deletes them. This package reads pools and operations, and starts and cancels upgrades. It changes no node.
//
// The API lists no machines, so the nodes of the cluster are the members of a pool, by their label. A node is outdated if its
// kubelet has another version than the target.
//
// GKE carries out one operation of a cluster at a time. It has no tokens that make requests idempotent. Instead, each request that
// starts an upgrade contains the etag of the pool as it was observed, and GKE refuses it if the pool has changed since.
package gke
