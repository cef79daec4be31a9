// Package runner is the loop of an upgrade: observe, decide, store, act, wait for a change.
//
//	View, Group ──▶ World ──▶ upgrade.Next ──▶ Save ──▶ Do … ──▶ Sort ──▶ World.Open
//	     ▲                                                                    │
//	     └────────────── watch events, cloud polls, Step.Wake ◀───────────────┘
//
// It is the only writer of an upgrade, and knows no policy: what an answer means is decided
// in Sort, what to do about it in package upgrade.
package runner
