package plugin

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
)

// completionLimit keeps a shell from hanging on a cluster that does not answer.
const completionLimit = 2 * time.Second

// groupPrefix may stand before a group's name, as -o name writes it.
const groupPrefix = "nodegroup/"

// Arguments are a process's, without its name. Under the name by which kubectl asks for completions
// they ask for these, so that a link to the binary is enough.
func Arguments(process []string) []string {
	name := strings.TrimSuffix(filepath.Base(process[0]), ".exe")
	if name == "kubectl_complete-nodeupgrade" {
		return append([]string{cobra.ShellCompRequestCmd}, process[1:]...)
	}
	return process[1:]
}

// completeOneGroup offers the names of node groups for the only argument of a command.
func (f *flags) completeOneGroup(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.completeGroups(cmd, args, typed)
}

// completeGroups offers the names of node groups; whatever goes wrong, it is silent.
func (f *flags) completeGroups(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	conn, err := f.connectCluster(ctx, io.Discard)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	nodes, err := cluster.ListNodes(ctx, conn.Client)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	line := f.copyTyped()
	line.ErrOut = io.Discard
	_, groups, err := line.findGroups(ctx, nodes)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	given := map[string]bool{}
	for _, arg := range args {
		given[strings.TrimPrefix(arg, groupPrefix)] = true
	}
	prefix := ""
	if strings.HasPrefix(typed, groupPrefix) {
		prefix = groupPrefix // the shell puts the whole word in place of what was typed
	}
	var names []string
	for i := range groups {
		if name := prefix + groups[i].Name; strings.HasPrefix(name, typed) && !given[groups[i].Name] {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
