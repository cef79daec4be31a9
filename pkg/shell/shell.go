// Package shell writes commands that a user can copy into a POSIX shell. Names of groups, objects and labels come from the
// cluster or from a file: each of them is one word of the command, whatever it contains.
package shell

import (
	"slices"
	"strings"
	"unicode"
)

// Quote returns the text as one word of a POSIX shell.
func Quote(text string) string {
	if text != "" && !strings.ContainsFunc(text, needsQuotes) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func needsQuotes(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("@%+=:,./_-", r)
}

// Command returns a command line: the program with its subcommands and options as they are, and the operands quoted. An operand
// that begins with a dash is not read as an option.
func Command(program string, operands ...string) string {
	words := []string{program}
	if slices.ContainsFunc(operands, func(operand string) bool { return strings.HasPrefix(operand, "-") }) {
		words = append(words, "--")
	}
	for _, operand := range operands {
		words = append(words, Quote(operand))
	}
	return strings.Join(words, " ")
}

// Option returns an option with its value, quoted. A value that begins with a dash is not read as another option.
func Option(name, value string) string {
	if strings.HasPrefix(value, "-") {
		return Quote(name + "=" + value)
	}
	return name + " " + Quote(value)
}
