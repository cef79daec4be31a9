// Package house holds the project to the rules it sets itself: which room may
// import which, what the pure packages may name, how long a function and how
// large a type may be, that every rule that is cited is defined, and what krew,
// k9s, kubectl and make expect of the files at the top. There is nothing here but tests; each rule is a function from a
// text to its faults, and is shown to fail on a bad text before it is believed on
// ours. Package measure below it counts what some of the rules limit.
package house
