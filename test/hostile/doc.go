// Package hostile is a proxy between a client and an API that disturbs requests according to a [Plan]. It can answer in place of
// the server, close connections before or after the effect, delay requests, cut off watches and make an API unreachable.
// [Cluster] starts a front before a Kubernetes API server and writes a kubeconfig for the front. [AWS] and
// [GKE] start a front before a cloud stand-in.
//
// The disturbances are seeded. They depend only on the content of a request and on the number of earlier equal requests. So the
// order of different requests does not change which of them are disturbed. Every front counts its requests and disturbances.
package hostile
