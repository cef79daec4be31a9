// Package worlds upgrades node groups in random worlds and holds every moment of
// every upgrade to the invariants of the state machine.
//
//	seed ──▶ Generate ──▶ Plan ──▶ run ──▶ invariants ──▶ Verdict, Tally
//	                       ▲                   │ broken
//	                       └──── Shrink ◀──────┘
//
// A world is a pure function of its Plan, and a Plan of its seed. A world holds a
// cluster and a cloud that move by themselves in virtual time, a process that does
// what package runner does – it sees the cluster late, stores the record, has
// requests in flight, dies – and everything that may go wrong between the two.
//
// The cluster here is not pkg/simulate's. It answers evictions from its own reading
// of the eviction API and of the disruption controller, so that a mistake in the
// predictor cannot stand on both sides and hide; and it honours what the simulator
// of a plan has no need of: preconditions, lost answers, watches that lag.
//
// In some worlds pods crash on new nodes: crashes.go draws and keeps them so, recovery.go has the rules of what an upgrade does about it.
//
// In others they are not created any more, or no new node takes them, or they are ready for a moment between two crashes: refusals.go.
//
// In one of five worlds restarts of Deployments are asked for instead of evictions of only ready pods (--move=surge): moves.go draws these
// Deployments, rollouts.go is what brings up and ends their pods, restarts.go has the rules.
//
// In others pods take minutes to start, as they always did (starters.go). In some a machine is on Standby, or another actor changes the
// record of the upgrade (trust.go): neither ends a machine that is not to be replaced.
//
// Some groups of AWS are behind a load balancer (balancers.go): no machine may end while its targets still drain.
//
// What happens to last ready pods is drawn and held in lastready.go: workloads that only a later target cures, pods that take minutes to end, and
// pods that were never ready beside the one that is.
//
// In one of ten worlds the group's own cloud upgrades it: managed.go is such a cloud, delegated.go draws these worlds and has
// their rules.
//
// Rules that cannot be broken prove nothing. cmd/mutants plants the bugs of the archives in mutants in the state
// machine, one at a time, and each must be found by a world that breaks no rule without it; cmd/worlds
// returns an error when its worlds do not lead to something that is declared – a fault, an actor, a word of the state machine.
package worlds
