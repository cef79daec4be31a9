// Package drain decides, without touching anything, how the pods of a node leave it: which pods
// must go and which stay until the machine is gone, which of them the eviction API would admit now,
// and what blocks the rest.
//
// Everything here is a pure function over values. Nothing calls a server or reads a clock, and what
// is drawn at random is the same each time; the same code serves the live drain, the plan and the
// tests.
//
//	pod ──▶ Judge ──▶ stays | leaving | held | must go ──▶ Due ──▶ Predict ──▶ admitted | blocked by …
//	                                                        ▲         ▲
//	              Facts: who is needed by others, goes last ┘         └ PodDisruptionBudgets, minus what our own evictions have spent
//
// Which of the admitted evictions are sent now, and which node is started next, is decided in
// package schedule.
//
// Sources: the eviction handler of kube-apiserver (pkg/registry/core/pod/storage/eviction.go) and
// the disruption controller (pkg/controller/disruption/disruption.go).
package drain
