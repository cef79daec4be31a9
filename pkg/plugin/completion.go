package plugin

import (
	"context"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// completionLimit keeps a shell from hanging on a cluster that does not answer.
const completionLimit = 2 * time.Second

// Arguments are a process's, without its name. Under the name by which kubectl asks for completions
// they ask for these, so that a link to the binary is enough.
func Arguments(process []string) []string {
	name := strings.TrimSuffix(filepath.Base(process[0]), ".exe")
	if name == "kubectl_complete-nodeupgrade" {
		return append([]string{cobra.ShellCompRequestCmd}, process[1:]...)
	}
	return process[1:]
}

// completeWords completes what is typed with those words of list that begin with it; whatever goes
// wrong, it is silent.
func completeWords(list func(ctx context.Context, args []string, typed string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		words := slices.DeleteFunc(list(ctx, args, typed), func(word string) bool { return !strings.HasPrefix(word, typed) })
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(words) == 1 && strings.HasSuffix(words[0], "=") { // a value follows
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return words, directive
	}
}

// suggestOneGroup lists node groups for the only argument of a command.
func (f *flags) suggestOneGroup(ctx context.Context, args []string, typed string) []string {
	if len(args) > 0 {
		return nil
	}
	return f.suggestGroups(ctx, args, typed)
}

// suggestGroups lists node groups that were not typed yet.
func (f *flags) suggestGroups(ctx context.Context, args []string, typed string) []string {
	conn, err := f.connectCluster(ctx, io.Discard)
	if err != nil {
		return nil
	}
	nodes, err := cluster.ListNodes(ctx, conn.Client)
	if err != nil {
		return nil
	}
	line := f.newCommandLine()
	found, err := line.findGroups(ctx, nodes)
	if err != nil {
		return nil
	}
	prefix := ""
	if strings.HasPrefix(typed, nodegroup.Prefix) {
		prefix = nodegroup.Prefix // the shell puts the whole word in place of what was typed
	}
	var words []string
	for _, name := range groupNames(found.groups) {
		if !slices.Contains(args, name) && !slices.Contains(args, nodegroup.Prefix+name) {
			words = append(words, prefix+name)
		}
	}
	return words
}

// suggestDumpGroups lists the groups of the dump that was named, or of the built-in example, for the only argument of a command.
func (f *flags) suggestDumpGroups(ctx context.Context, args []string, _ string) []string {
	if len(args) > 0 || f.dump == "-" { // what is on stdin is for the command
		return nil
	}
	line := f.newCommandLine()
	line.ErrOut = io.Discard
	s := &simulation{&line, f.dump}
	d, source, err := s.loadDump(ctx)
	if err != nil {
		return nil
	}
	groups, err := openDumpSession(&line, d, source).provider.Groups(ctx, d.Nodes)
	if err != nil {
		return nil
	}
	return groupNames(groups)
}

// suggestResumableGroups lists groups whose upgrade is not over, for the only argument of a command.
func (f *flags) suggestResumableGroups(ctx context.Context, args []string, _ string) []string {
	if len(args) > 0 {
		return nil
	}
	conn, err := f.connectCluster(ctx, io.Discard)
	if err != nil {
		return nil
	}
	records, _, _ := cluster.LoadRecords(ctx, conn.Client, f.stateNamespace)
	names := slices.Sorted(maps.Keys(records))
	return slices.DeleteFunc(names, func(name string) bool { record := records[name]; return !record.IsResumable() })
}
