// Package schedule decides which evictions are sent now, and which node is started next. It keeps the data that these
// decisions need: what earlier evictions have used of their budgets, the time between evictions of one budget, the
// number of evictions in flight, how long pods take, and which budgets decide when the upgrade ends.
//
//	nodes in drain ──▶ pods in turn ──▶ predicted ──▶ reserved ──▶ sorted ──▶ cut ──▶ Decide
//	                                      └──▶ Blocked
//	nodes that wait ──▶ which loses least at budgets, beside what is reserved ──▶ NextNode
//
// The order in which nodes were started determines the order of reservations: each eviction that could be sent
// reserves its place in its budget. The most urgent reserved evictions are sent. The others are reserved again in the
// next plan.
//
// Everything here is a pure function of Input. Nothing calls a server or reads a clock.
package schedule
