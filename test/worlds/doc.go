// Package worlds upgrades node groups in random worlds and checks every moment of every upgrade against the invariants of the state
// machine.
//
//	seed ──▶ Generate ──▶ Plan ──▶ run ──▶ invariants ──▶ Verdict, Tally
//	                       ▲                   │ broken
//	                       └──── Shrink ◀──────┘
//
// A world is a pure function of its Plan, and a Plan is a pure function of its seed. A world contains a cluster and a cloud that
// change by themselves in virtual time, and a process that does what package runner does: it sees the cluster late, stores the record,
// has requests in flight, and crashes. Everything that can go wrong between cluster and process can go wrong here.
//
// This cluster is not pkg/simulate's. It answers evictions from its own reading of the eviction API and of the disruption controller.
// A mistake in the predictor therefore cannot hide by being made on both sides. It also implements what the simulator of a plan does
// not need: preconditions, lost answers, and watches that lag.
//
// In some worlds pods crash on new nodes: crashes.go draws these worlds, and recovery.go has the rules for what an upgrade must do
// then.
//
// In others, new pods are not created, or no new node takes them, or they are ready only for a moment between two crashes:
// refusals.go.
//
// In one of five worlds, the upgrade asks for restarts of Deployments instead of evictions of only ready pods (--move=surge). moves.go
// draws these Deployments, rollouts.go creates and ends their pods, and restarts.go has the rules.
//
// In others, pods take minutes to start, and always did (starters.go). In some, a machine is on Standby, or another actor changes the
// record of the upgrade (trust.go). Neither may end a machine that must not be replaced.
//
// Some AWS groups are behind a load balancer (balancers.go): no machine may end while its targets still drain.
//
// lastready.go draws and checks what happens to last ready pods: workloads that only a later target cures, pods that take minutes to
// end, and pods that were never ready beside the one that is.
//
// In one of ten worlds, the group's own cloud upgrades it: managed.go is such a cloud, delegated.go draws these worlds and has their
// rules.
//
// Rules that cannot be broken prove nothing. cmd/mutants plants the bugs of the archives in mutants in the state machine, one at a
// time. A world that breaks no rule without the bug must find it. cmd/worlds returns an error when its worlds never reach something
// that is declared: a fault, an actor, or a word of the state machine.
package worlds
