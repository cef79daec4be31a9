// Package simulate simulates a cluster in virtual time. It contains a scheduler, kubelets that start and stop pods,
// controllers that replace evicted pods, the disruption controller, the eviction API, and a cloud with zones. It
// answers the same requests and executes the same actions as the real ones. So upgrade.Next can run a whole upgrade
// in it within moments. The dry-run plan is such a run.
//
//	Spec ──▶ New ──▶ Cluster ──▶ World ──▶ upgrade.Next ──▶ Do ──▶ Advance to the next event ──┐
//	                    ▲                                                                       │
//	                    └───────────────────────────────────────────────────────────────────────┘
//
// Each part uses only the parts below it:
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
// Estimate derives how long things take from the history that objects in the cluster show. Predict runs an upgrade
// twice: once with pods that end as soon as possible, and once with pods that use their whole grace period. It
// combines the results.
//
// Nothing here reads a clock, nothing is random, and no order of a list or map matters: two
// runs of one Spec are equal.
package simulate
