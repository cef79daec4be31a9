package nodegroup

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// Prefix may stand before a group's name on this tool's command line, as -o name writes it. With it a name cannot be read as an
// option or as a verb.
const Prefix = "nodegroup/"

// verbs are the words that stand for a command of this tool in the place of a group's name.
func verbs() []string {
	return []string{"abort", "check", "complete", "completion", "help", "list", "options", "pause", "plan", "resume", "rollback", "simulate", "status", "upgrade", "version"}
}

// IsSelector reports whether the name is that of a group of labelled nodes: a label selector. A single word is
// a name, although it is a selector, too.
func IsSelector(group string) bool {
	if !strings.ContainsAny(group, "=!, ") {
		return false
	}
	_, err := labels.Parse(group)
	return err == nil
}

// Command returns the quoted command line that runs a verb of this tool on one group. Without a verb the command upgrades
// the group. A group of labelled nodes is named by its selector, since no command finds it by its name, and the user
// has to say which of its nodes are current. The caller may append flags.
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
