package plugin

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
)

// completionLimit keeps a shell from hanging on a cluster that does not answer.
const completionLimit = 2 * time.Second

// groupPrefix may stand before a group's name, as -o name writes it.
const groupPrefix = "nodegroup/"

// completeGroups offers the names of node groups; whatever goes wrong, it is silent.
func (o *options) completeGroups(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	o.ErrOut = io.Discard
	conn, err := o.connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	nodes, err := cluster.Nodes(ctx, conn.client)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	_, groups, err := o.findGroups(ctx, nodes)
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
