// Package simulate is a cluster that moves by itself in virtual time: kubelets that
// start and stop pods, controllers that bring evicted pods back, the arithmetic of
// PodDisruptionBudgets, and a cloud with zones. It answers the same questions and takes
// the same actions as the real ones, so that upgrade.Next can run a whole upgrade in it
// within milliseconds. The dry-run plan is such a run.
//
//	Spec ──▶ New ──▶ Cluster ──▶ World ──▶ upgrade.Next ──▶ Do ──▶ Advance to the next event ──┐
//	                    ▲                                                                       │
//	                    └───────────────────────────────────────────────────────────────────────┘
//
// Nothing here is random and nothing reads a clock: two runs of one Spec are equal.
package simulate
