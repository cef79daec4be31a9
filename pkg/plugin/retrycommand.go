package plugin

import (
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// makeRetryCommand is the command that was typed, as it is typed again to continue: with its groups
// and its flags, but for secrets and for what was agreed to for once.
func makeRetryCommand(cmd *cobra.Command, args []string) string {
	words := append(strings.Fields(cmd.CommandPath()), args...)
	left := []string{"token", "password", "replan", "rebuild", "takeover", "dry-run"}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(left, f.Name) {
			words = append(words, formatFlag(f))
		}
	})
	for i := range words {
		words[i] = quoteShellWord(words[i])
	}
	return strings.Join(words, " ")
}

// formatFlag is a flag as it is typed.
func formatFlag(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return "--" + f.Name + "=" + strings.Join(list.GetSlice(), ",")
	}
	if f.Value.String() == f.NoOptDefVal {
		return "--" + f.Name
	}
	return "--" + f.Name + "=" + f.Value.String()
}

// quoteShellWord is the text as one word of a POSIX shell.
func quoteShellWord(text string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("@%+=:,./_-", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
