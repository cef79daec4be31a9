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

// completionLimit is the timeout of a completion, so that the shell does not hang if the cluster does not answer.
const completionLimit = 2 * time.Second

// Arguments returns a process's arguments without the program's name. If the program's name is the one that kubectl
// runs for completions, it adds cobra's completion command. So a link to the binary is enough for completions.
func Arguments(process []string) []string {
	name := strings.TrimSuffix(filepath.Base(process[0]), ".exe")
	if name == "kubectl_complete-nodeupgrade" {
		return append([]string{cobra.ShellCompRequestCmd}, process[1:]...)
	}
	return process[1:]
}

// completeWords returns a completion function that offers the words of list that begin with the typed text. It prints
// no errors.
func completeWords(list func(ctx context.Context, args []string, typed string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		words := slices.DeleteFunc(list(ctx, args, typed), func(word string) bool { return !strings.HasPrefix(word, typed) })
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(words) == 1 && strings.HasSuffix(words[0], "=") { // the user types a value next
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return words, directive
	}
}

// suggestOneGroup returns the node groups for a command that takes one group.
func (f *flags) suggestOneGroup(ctx context.Context, args []string, typed string) []string {
	if len(args) > 0 {
		return nil
	}
	return f.suggestGroups(ctx, args, typed)
}

// suggestGroups returns the node groups that are not in args.
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
	found, err := line.findGroups(ctx, conn, nodes)
	if err != nil {
		return nil
	}
	prefix := ""
	if strings.HasPrefix(typed, nodegroup.Prefix) {
		prefix = nodegroup.Prefix // the shell replaces the whole typed word
	}
	var words []string
	for _, name := range groupNames(found.groups) {
		if !slices.Contains(args, name) && !slices.Contains(args, nodegroup.Prefix+name) {
			words = append(words, prefix+name)
		}
	}
	return words
}

// suggestDumpGroups returns the groups of the dump of -f, or of the built-in example.
func (f *flags) suggestDumpGroups(ctx context.Context, args []string, _ string) []string {
	if len(args) > 0 || f.dump == "-" { // the command itself must read stdin
		return nil
	}
	line := f.newCommandLine()
	line.ErrOut = io.Discard
	s := &simulation{&line, f.dump}
	d, source, err := s.loadDump(ctx)
	if err != nil {
		return nil
	}
	groups, err := openDumpSession(&line, d, source).listGroups(ctx, d.Nodes)
	if err != nil {
		return nil
	}
	return groupNames(groups)
}

// suggestResumableGroups returns the groups whose upgrade is not over.
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
