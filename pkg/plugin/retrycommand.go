package plugin

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// makeRetryCommand returns the typed command as the user types it again to continue. It omits secrets and consents that
// are valid for one command only.
func makeRetryCommand(cmd *cobra.Command, args []string) string {
	return formatCommand(cmd, args, append([]string{"replan", "rebuild", "takeover", "dry-run", "report"}, secretFlags...))
}

// secretFlags are the flags whose values are not printed.
var secretFlags = []string{"token", "password"}

// formatCommand returns the typed command with its groups and flags, without the flags in left.
func formatCommand(cmd *cobra.Command, args, left []string) string {
	words := strings.Fields(cmd.CommandPath())
	for _, group := range args {
		isVerb := slices.ContainsFunc(cmd.Commands(), func(verb *cobra.Command) bool { return verb.Name() == group || verb.HasAlias(group) })
		if isVerb || strings.HasPrefix(group, "-") { // the group was typed after "--"
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

// typedClusterFlags returns the typed flags that kubectl also needs to connect to the same cluster. It omits secrets.
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

// typedGroupArguments returns the typed flags and arguments that name groups and their current nodes.
func typedGroupArguments(cmd *cobra.Command, groups []string) []string {
	var words []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains([]string{"selector", "node", "current"}, flag.Name) {
			words = append(words, formatFlag(flag)...)
		}
	})
	return append(words, groups...)
}

// noteMissingFlags returns a note with the cluster's flags if commands in the text lack them, else "".
func noteMissingFlags(text string, flags []string) string {
	if len(flags) == 0 || strings.Count(text, "kubectl ") <= strings.Count(text, shell.Quote(flags[0])) {
		return ""
	}
	return "note: add " + shell.Join(flags) + " to the commands above that do not have it"
}

// formatFlag returns the flag as it is typed. For a list it returns one flag for each value.
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
		if f.Value.Type() == "stringSlice" { // pflag splits such values at commas
			value = quoteListValue(value)
		}
		words = append(words, "--"+f.Name+"="+value)
	}
	return words
}

// quoteListValue returns a value as one CSV field, because pflag reads lists as CSV.
func quoteListValue(value string) string {
	if !strings.ContainsAny(value, ",\"\r\n") {
		return value
	}
	return `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
}
