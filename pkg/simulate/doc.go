// Package simulate is a cluster that moves by itself in virtual time: a scheduler, kubelets
// that start and stop pods, controllers that bring evicted pods back, the disruption
// controller and the eviction API, and a cloud with zones. It answers the same questions
// and takes the same actions as the real ones, so that upgrade.Next can run a whole upgrade
// in it within moments. The dry-run plan is such a run.
//
//	Spec ──▶ New ──▶ Cluster ──▶ World ──▶ upgrade.Next ──▶ Do ──▶ Advance to the next event ──┐
//	                    ▲                                                                       │
//	                    └───────────────────────────────────────────────────────────────────────┘
//
// Its parts know only those further down:
//
//	Cluster            what an upgrade sees, and its actions
//	cloud              launches and terminates instances
//	nodeLifecycle      nodes come, change and go
//	podLifecycle       pods start, become ready and end; their controllers replace them
//	scheduler          finds nodes for pods, keeps those that wait
//	disruption         budgets, evictions
//	podIndex           pods and nodes, counted for the scheduler's rules
//	simGroup           the group and its members
//	actionLog, clock   what was done, what is to happen
//
// Estimate says how long things take, from what the cluster tells of its own past; Predict
// runs an upgrade with pods that leave as soon as they may, and again with pods that take
// as long as they may, and tells what both show.
//
// Nothing here reads a clock, nothing is random, and no order of a list or map matters: two
// runs of one Spec are equal.
package simulate
