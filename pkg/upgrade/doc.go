// Package upgrade is the state machine of a node group upgrade, as one pure function.
//
//	        observe                                persist            act
//	World ───────────▶ Next(World) Step ──▶ Step.Record ──▶ Step.Actions ──▶ servers
//	  ▲                                                                         │
//	  └──────────────── watch events, cloud polls, outcomes ◀───────────────────┘
//
// Next takes the whole world as a value and returns what to do about it now. It holds no client, no clock, no goroutine
// and no random source; given the same World it returns the same Step. The live upgrade, the dry-run plan and the tests
// call the same function with three kinds of worlds.
//
// The caller's contract (package runner keeps it):
//
//  1. Build a World from what is observed. Observations take precedence over the record.
//  2. Call Next.
//  3. If Step.Persist is true, store Step.Record before anything else happens.
//  4. Start each of Step.Actions that is not in flight already, independently of the others. An
//     action is a value about one object. Its result comes back in World.Open and in later
//     observations, never as a return value that a decision depends on.
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
//   - delegated: setup → follow → soak → delete blue → expire → done, of a group that its own
//     cloud upgrades; only the cloud's blue-green upgrades soak, and only its short-lived ones expire
//
// Each node goes Pending → Fenced → Draining → Empty → Removing → Gone. A node whose drain timeout is over is Forcing
// or Quarantined. A node that blue-green keeps is Parked. A node whose machine its owner removes is Drained. Package
// ledger keeps how many nodes the group has during the upgrade, and in which zones.
//
// The process that carries the upgrade out follows user requests (World.Asked). For a pause, it finishes the nodes that
// were started, then stops. For a rollback or an abort, it only stops, and the process that asked continues with the
// record. AsRollback begins an upgrade the other way, with the added nodes still in the ledger. Record.Aborting gives
// back what the upgrade added and moves no pod. Record.Undoing returns which of the two is under way.
package upgrade
