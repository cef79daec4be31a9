package nodegroup

import (
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// Prefix may stand before a group's name on this tool's command line, as -o name writes it. With it a name cannot be read as an
// option or as a verb.
const Prefix = "nodegroup/"

// verbs are the words that stand for a command of this tool in the place of a group's name.
func verbs() []string {
	return []string{"abort", "check", "complete", "completion", "help", "options", "pause", "resume", "rollback", "simulate", "status", "version"}
}

// Command returns the quoted command line that runs a verb of this tool on one group. Without a verb the command upgrades
// the group. The caller may append flags.
func Command(verb, group string) string {
	command := "kubectl nodeupgrade"
	if verb != "" {
		command += " " + verb
	}
	if verb == "" && slices.Contains(verbs(), group) || strings.HasPrefix(group, "-") || strings.HasPrefix(group, Prefix) {
		group = Prefix + group
	}
	return command + " " + shell.Quote(group)
}
