// Package house checks the project's own rules: which packages a package may import, what pure packages may use, that every cited rule
// is defined, and that the files that krew, k9s, kubectl and make read are valid. It contains only tests. For each rule, a function
// returns the faults of a text, and a test checks that the function finds a fault in a bad text.
package house
