// Package upgrade is the state machine of a node group upgrade, as one pure function.
//
//	        observe                                persist            act
//	World ───────────▶ Next(World) Step ──▶ Step.Record ──▶ Step.Actions ──▶ servers
//	  ▲                                                                         │
//	  └──────────────── watch events, cloud polls, outcomes ◀───────────────────┘
//
// Next looks at the whole world as a value and says what to do about it now. It
// holds no client, no clock, no goroutine and no random source; given the same
// World it gives the same Step. The live upgrade, the dry-run plan and the tests
// are the same function in three worlds.
//
// The caller's contract (package runner keeps it):
//
//  1. Build a World from what is observed. What was observed beats what was written down.
//  2. Call Next.
//  3. If Step.Persist is true, store Step.Record before anything else happens.
//  4. Start each of Step.Actions that is not in flight already, each on its own. An
//     action is a value about one object; its result comes back in World.Open and in
//     what is observed, never as a return value that a decision hangs on.
//  5. Wait for a change, an outcome or Step.Wake, and begin again.
//
// A group goes through the phases of a strategy:
//
//   - surge: setup → scale up → upgrade → scale down → done (EKS E01)
//   - blue-green: setup → create green → cordon blue → drain blue → soak → delete blue →
//     scale down → done (GKE G40)
//   - autoscaled-blue-green: setup → cordon blue → wait → drain blue → delete blue →
//     scale down → done (GKE G70)
//   - short-lived: setup → expire → done (GKE G90)
//   - delegated: setup → follow → done, of a group that its own cloud upgrades
//
// A node of it goes Pending → Fenced → Draining → Empty → Removing → Gone. A node whose
// time is over is Forcing or Quarantined, one that blue-green keeps is Parked, and one
// whose machine its owner takes away is Drained. How many nodes the group has meanwhile,
// and where, is kept by package ledger.
//
// What others ask of an upgrade (World.Asked) is heeded by whoever carries it out: a pause
// lets the nodes that were started finish, then it stops; for a rollback or an abort it
// only gives way. Who asked continues with the record: RollingBack begins an upgrade
// the other way, with what was added still on the books, and Record.Aborting takes away
// what is ours and moves no pod. Record.Undoing tells which of the two is under way.
package upgrade
