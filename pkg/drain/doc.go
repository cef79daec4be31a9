// Package drain decides, without touching anything, how the pods of a node
// leave it: which pods must go and which stay until the machine is gone, which
// of them the eviction API would admit now, and what blocks the rest.
//
// Everything here is a pure function over Kubernetes objects. Nothing calls a
// server, reads a clock or draws a random number; the same code serves the
// live drain, the plan and the tests.
//
//	pod ──▶ Judge ──▶ stays | leaving | held | must go ──▶ Predict ──▶ admitted | blocked by …
//	                                                         ▲
//	                               PodDisruptionBudgets ─────┘  minus what our own evictions have spent
//
// Sources: the eviction handler of kube-apiserver (pkg/registry/core/pod/storage/eviction.go)
// and the disruption controller (pkg/controller/disruption/disruption.go).
package drain
