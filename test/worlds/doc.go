// Package worlds upgrades node groups in random worlds and checks every moment of every upgrade against the invariants of the state
// machine.
//
//	seed ──▶ Generate ──▶ Plan ──▶ run ──▶ invariants ──▶ Verdict, Tally
//	                       ▲                   │ broken
//	                       └──── Shrink ◀──────┘
//
// A world is a pure function of its Plan, and a Plan is a pure function of its seed. A world contains a cluster and a cloud that
// change by themselves in virtual time. It also contains a process that works like package runner: it sees the cluster late, stores
// the record, has requests in flight, and crashes.
//
// This cluster is not the one of pkg/simulate. It implements the eviction API and the disruption controller independently, so that the
// simulator and this test do not share a mistake. It also implements what the simulator does not need: preconditions, lost answers,
// and watches that lag.
//
// Most files draw one kind of trouble and contain the rules for it:
//
//   - crashes.go: pods crash on new nodes. recovery.go has the rules for workloads that do not recover.
//   - refusals.go: new pods are not created, or no new node takes them, or they crash soon after they are ready.
//   - moves.go: the upgrade restarts Deployments instead of evicting their only ready pod (--move=surge). rollouts.go simulates the
//     Deployment controller, and restarts.go has the rules.
//   - starters.go: pods take minutes to start, also on old nodes.
//   - trust.go: a machine is on Standby, or an actor changes the record of the upgrade. The upgrade must not terminate the wrong
//     machine.
//   - balancers.go: an AWS group is behind a load balancer. No machine may be terminated while its targets still drain.
//   - lastready.go: the upgrade must keep the last ready pod of a workload.
//   - managed.go: the group's own cloud upgrades it. delegated.go draws these worlds and has their rules.
//
// cmd/mutants tests the rules: it plants the bugs of the archives in mutants in the state machine, one at a time. A rule must fail in
// some world with the bug, and must hold in that world without the bug. cmd/worlds fails if its worlds never reach a declared fault,
// actor, or word of the state machine.
package worlds
