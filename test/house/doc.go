// Package house checks the rules that the project sets itself: which package may import which, what the
// pure packages may use, that every cited rule is defined, and that the files that krew, k9s, kubectl and
// make read are valid. It has only tests. Each rule is a function from a text to its faults, and a test
// shows that it finds a fault in a bad text.
package house
