// Package drain decides how the pods of a node leave it. It returns which pods must go, which stay until the machine
// is terminated, which evictions the eviction API would admit now, and what blocks the other pods.
//
// Everything here is a pure function over values. Nothing calls a server or reads a clock. The live drain, the plan and
// the tests use the same code.
//
//	pod ──▶ Judge ──▶ stays | leaving | held | must go ──▶ Due ──▶ Predict ──▶ admitted | blocked by …
//	                                                        ▲         ▲
//	              Facts: who is needed by others, goes last ┘         └ PodDisruptionBudgets, minus what our own evictions have spent
//
// Package schedule decides which of the admitted evictions are sent now, and which node is started next.
//
// Sources: the eviction handler of kube-apiserver (pkg/registry/core/pod/storage/eviction.go) and
// the disruption controller (pkg/controller/disruption/disruption.go).
package drain
