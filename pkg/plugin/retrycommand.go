package plugin

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// makeRetryCommand is the command that was typed, as it is typed again to continue: with its groups
// and its flags, but for secrets and for what was agreed to for once.
func makeRetryCommand(cmd *cobra.Command, args []string) string {
	return formatCommand(cmd, args, append([]string{"replan", "rebuild", "takeover", "dry-run", "report"}, secretFlags...))
}

// secretFlags are the flags whose values are not printed.
var secretFlags = []string{"token", "password"}

// formatCommand returns the command that was typed, with its groups and its flags except those named in left.
func formatCommand(cmd *cobra.Command, args, left []string) string {
	words := strings.Fields(cmd.CommandPath())
	for _, group := range args {
		isVerb := slices.ContainsFunc(cmd.Commands(), func(verb *cobra.Command) bool { return verb.Name() == group || verb.HasAlias(group) })
		if isVerb || strings.HasPrefix(group, "-") { // it was typed behind "--"
			group = nodegroup.Prefix + group
		}
		words = append(words, group)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(left, f.Name) {
			words = append(words, formatFlag(f)...)
		}
	})
	return shell.Join(words)
}

// typedClusterFlags are the flags that were typed of those by which kubectl, too, chooses a cluster and a user; without secrets.
func typedClusterFlags(cmd *cobra.Command) []string {
	kubectls := listConnectionFlags()
	left := []string{"token", "password", "username", "namespace", "request-timeout"}
	var words []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if kubectls.Lookup(flag.Name) != nil && !slices.Contains(left, flag.Name) {
			words = append(words, formatFlag(flag)...)
		}
	})
	return words
}

// typedGroupArguments are the words that were typed to name groups and their current nodes.
func typedGroupArguments(cmd *cobra.Command, groups []string) []string {
	var words []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains([]string{"selector", "node", "current"}, flag.Name) {
			words = append(words, formatFlag(flag)...)
		}
	})
	return append(words, groups...)
}

// noteMissingFlags says which flags the commands of a text lack that have to reach the same cluster; "" where none does.
func noteMissingFlags(text string, flags []string) string {
	if len(flags) == 0 || strings.Count(text, "kubectl ") <= strings.Count(text, shell.Quote(flags[0])) {
		return ""
	}
	return "note: add " + shell.Join(flags) + " to the commands that lack it"
}

// formatFlag returns the flag as it is typed: a list as one flag for each of its values.
func formatFlag(f *pflag.Flag) []string {
	list, ok := f.Value.(pflag.SliceValue)
	switch {
	case !ok && f.NoOptDefVal != "" && f.Value.String() == f.NoOptDefVal:
		return []string{"--" + f.Name}
	case !ok:
		return []string{"--" + f.Name + "=" + f.Value.String()}
	}
	var words []string
	for _, value := range list.GetSlice() {
		if f.Value.Type() == "stringSlice" { // its flag takes values that are separated by commas
			value = quoteListValue(value)
		}
		words = append(words, "--"+f.Name+"="+value)
	}
	return words
}

// quoteListValue returns a value as one field of CSV, as lists of pflag are read.
func quoteListValue(value string) string {
	if !strings.ContainsAny(value, ",\"\r\n") {
		return value
	}
	return `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
}
