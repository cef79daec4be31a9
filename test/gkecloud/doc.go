// Package gkecloud simulates the part of GKE that upgrades node pools. This stand-in is an HTTP server on loopback that speaks
// container/v1. An unmodified program reaches it through CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER, with the key of a service account
// whose token server is the stand-in, too.
//
// Requests are compared with Google's discovery document: a field that the document does not have is an error. An upgrade takes time,
// and replaces Nodes: one zone after another, as many nodes at once as the pool's settings say. Each Node is cordoned and drained by
// kubectl's own drain. After DrainLimit, which stands for GKE's hour, the pods that are left are deleted. A cluster carries out one
// operation at a time. Each change of a pool changes its etag.
//
// If the behaviour of GKE is not documented, Options choose between two variants.
package gkecloud
