// Package runner is the loop of an upgrade: observe, decide, store, act, wait for a change.
//
//	View, Group ──▶ World ──▶ upgrade.Next ──▶ Save ──▶ Do … ──▶ ClassifyAnswer ──▶ World.Open
//	     ▲                                                                              │
//	     └─────────────────── watch events, cloud polls, Step.Wake ◀────────────────────┘
//
// It is the only writer of an upgrade and contains no policy: ClassifyAnswer maps an answer to an
// outcome, and package upgrade decides what to do about it.
package runner
