// Package house checks the project's own rules: which package may import which, what the pure packages may use, that every cited
// rule is defined, and that the files that krew, k9s, kubectl and make read are valid. It contains only tests. Each rule is a
// function that returns the faults of a text, and a test shows that it finds a fault in a bad text.
package house
