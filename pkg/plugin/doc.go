// Package plugin is the command line: a file for each command, which turns flags into a
// typed request, runs it and prints the answer. Answers go to stdout, everything else to stderr.
package plugin
