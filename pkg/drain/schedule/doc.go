// Package schedule decides which evictions are sent now, and which node is started next. It holds
// all that the two rest on: what earlier evictions have taken from their budgets, how far apart
// those of one budget are, how many are in flight, how long pods take, and which budgets decide
// when the upgrade ends.
//
//	nodes in drain ──▶ pods in turn ──▶ predicted ──▶ reserved ──▶ sorted ──▶ cut ──▶ Decide
//	                                      └──▶ Blocked
//	nodes that wait ──▶ which loses least at budgets, beside what is reserved ──▶ NextNode
//
// An eviction that could be sent has its place in its budget reserved, in the order in which nodes
// were started. Of the reserved ones the most urgent are sent. Nothing is taken back: the others
// are reserved again by the next plan.
//
// Everything here is a pure function of Input. Nothing calls a server or reads a clock.
package schedule
