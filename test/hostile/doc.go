// Package hostile stands between a client and an API and does harm as a [Plan] says: answers that the server never gave,
// connections closed before or after the effect, delays, watches cut off, an API out of reach. [Cluster] stands before a
// Kubernetes API server and writes the kubeconfig that leads to the front, [AWS] before the cloud stand-in.
//
// Harm is seeded and falls on a request by what it asks for and by how many of the same came before it: how requests of
// different kinds interleave does not change which of them are disturbed. Every front counts what came and what it did to it.
package hostile
