package nodegroup

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// Prefix may precede a group's name on this tool's command line, as in the output of -o name. With it, a name cannot
// be mistaken for an option or a verb.
const Prefix = "nodegroup/"

// verbs returns the words that are read as a command of this tool instead of a group's name.
func verbs() []string {
	return []string{"abort", "check", "complete", "completion", "help", "list", "options", "pause", "plan", "resume", "rollback", "simulate", "status", "upgrade", "version"}
}

// IsSelector reports whether the name is that of a group of labelled nodes, which is a label selector. A single word
// counts as a name, although it is a valid selector, too.
func IsSelector(group string) bool {
	if !strings.ContainsAny(group, "=!, ") {
		return false
	}
	_, err := labels.Parse(group)
	return err == nil
}

// Command returns the quoted command line that runs a verb of this tool on one group. Without a verb, the command
// upgrades the group. For a group of labelled nodes, the command contains the group's selector, because no command
// finds it by name. Such an upgrade also needs --current from the user. The caller may append flags.
func Command(verb, group string) string {
	command := "kubectl nodeupgrade"
	if verb != "" {
		command += " " + verb
	}
	if IsSelector(group) {
		command += " -l " + shell.Quote(group)
		if verb == "" {
			command += " --current KEY=VALUE"
		}
		return command
	}
	if verb == "" && slices.Contains(verbs(), group) || strings.HasPrefix(group, "-") || strings.HasPrefix(group, Prefix) {
		group = Prefix + group
	}
	return command + " " + shell.Quote(group)
}
