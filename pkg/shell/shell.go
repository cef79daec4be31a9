// Package shell writes commands that a user can copy into a POSIX shell. Names of groups, objects and labels come from the
// cluster or from a file: each of them is one word of the command, whatever it contains.
package shell

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Quote returns the text as one word of a POSIX shell. The word is on one line unless the text ends with a line break. Characters
// that a terminal does not show, such as line breaks, are written as octal numbers for the shell's printf.
func Quote(text string) string {
	switch {
	case strings.ContainsFunc(text, isUnprintable) && !strings.HasSuffix(text, "\n"): // $(…) would remove a line break at the end
		return `"$(printf '` + escapeForPrintf(text) + `')"`
	case text == "" || strings.ContainsFunc(text, needsQuotes):
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	default:
		return text
	}
}

func isUnprintable(r rune) bool { return !unicode.IsPrint(r) }

func escapeForPrintf(text string) string {
	var out strings.Builder
	for i, r := range text {
		isOption := i == 0 && r == '-'
		if !isOption && !isUnprintable(r) && !strings.ContainsRune(`'\%`, r) {
			out.WriteRune(r)
			continue
		}
		for _, b := range []byte(string(r)) {
			fmt.Fprintf(&out, `\%03o`, b)
		}
	}
	return out.String()
}

func needsQuotes(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("@%+=:,./_-", r)
}

// Join returns the words, quoted and separated by spaces.
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}

// Command returns a command line: the program with its subcommands and options unchanged, and the operands quoted. An operand
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
