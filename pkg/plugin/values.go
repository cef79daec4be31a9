package plugin

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// listFlagValues returns the possible values of a flag, nil if it has any number of them.
func listFlagValues(flag string) []string {
	return map[string][]string{
		"provider":        listProviderNames(),
		"progress":        {"auto", "live", "tty", "plain", "json", "quiet"},
		"color":           {"auto", "always", "never"},
		"output":          {"table", "wide", "json", "yaml", "name", "markdown", "jsonpath=", "go-template="},
		"dry-run":         {"none", "client", "server"},
		"strategy":        convertToStrings(record.Strategies()),
		"like":            {"eks", "gke"},
		"update-strategy": upgrade.UpdateStrategies(),
		"on-timeout":      {string(record.Fail), string(record.Force), string(record.Skip)},
		"unmanaged-pods":  {"refuse", "evict"},
		"explain":         listRuleIDs(),
		"skip-check":      listRuleIDs(),
		"fail-on":         append(convertToStrings(preflight.Severities()[1:]), neverFail),
	}[flag]
}

// listRuleIDs returns the ids of all rules, sorted.
func listRuleIDs() []string {
	var ids []string
	for _, rule := range append(preflight.Catalogue(), preflight.PlanRules()...) {
		ids = append(ids, rule.ID)
	}
	slices.Sort(ids)
	return ids
}

// convertToStrings converts the values to strings.
func convertToStrings[T ~string](values []T) []string {
	var plain []string
	for _, value := range values {
		plain = append(plain, string(value))
	}
	return plain
}

// registerValueCompletions registers shell completions for the values of all flags. Only flags for files complete file
// names.
func (f *flags) registerValueCompletions(cmd *cobra.Command) {
	files := []string{"filename", "kubeconfig", "certificate-authority", "client-certificate", "client-key"}
	offer := func(flag *pflag.Flag) {
		if flag.Name == "report" {
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(reportEndings, cobra.ShellCompDirectiveFilterFileExt)))
			return
		}
		if flag.Value.Type() != "bool" && !slices.Contains(files, flag.Name) {
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag.Name, func(of *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				return completeWords(func(ctx context.Context, _ []string, typed string) []string {
					return f.suggestFlagValues(ctx, of, flag.Name, typed)
				})(of, args, typed)
			}))
		}
	}
	cmd.Flags().VisitAll(offer) // only own flags: cobra adds those of the parents to the command that it executes
	cmd.PersistentFlags().VisitAll(offer)
	for _, sub := range cmd.Commands() {
		f.registerValueCompletions(sub)
	}
}

// suggestFlagValues returns completions for a flag: its possible values, or names from the kubeconfig or the cluster.
func (f *flags) suggestFlagValues(ctx context.Context, cmd *cobra.Command, flag, typed string) []string {
	switch flag {
	case "context", "cluster", "user":
		return f.suggestKubeconfigNames(flag)
	case "selector", "current":
		return f.suggestLabels(ctx, typed)
	case "output":
		if values := listFlagValues(flag); cmd.Name() == "check" {
			return append(values, formatsOfCheck()...)
		}
		return listFlagValues(flag)
	case "node", "state-namespace":
		return f.suggestObjectNames(ctx, flag)
	default:
		return listFlagValues(flag)
	}
}

func (f *flags) suggestKubeconfigNames(flag string) []string {
	config, err := f.kube.clientConfig().RawConfig()
	if err != nil {
		return nil
	}
	return map[string][]string{
		"context": slices.Sorted(maps.Keys(config.Contexts)),
		"cluster": slices.Sorted(maps.Keys(config.Clusters)),
		"user":    slices.Sorted(maps.Keys(config.AuthInfos)),
	}[flag]
}

// suggestLabels returns completions for labels of nodes: keys or, after a key, its values. In a list it completes the
// last pair.
func (f *flags) suggestLabels(ctx context.Context, typed string) []string {
	conn, err := f.connectCluster(ctx, io.Discard)
	if err != nil {
		return nil
	}
	nodes, _ := cluster.ListNodes(ctx, conn.Client) // without nodes there are no completions
	before, last := "", typed
	if i := strings.LastIndex(typed, ",") + 1; i > 0 {
		before, last = typed[:i], typed[i:]
	}
	key, _, keyed := strings.Cut(last, "=")
	words := map[string]bool{}
	for _, node := range nodes {
		for k, v := range node.Labels {
			switch {
			case !keyed:
				words[before+k+"="] = true
			case k == key:
				words[before+k+"="+v] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(words))
}

func (f *flags) suggestObjectNames(ctx context.Context, flag string) []string {
	conn, err := f.connectCluster(ctx, io.Discard)
	if err != nil {
		return nil
	}
	var names []string
	if flag == "node" {
		nodes, _ := cluster.ListNodes(ctx, conn.Client) // without nodes there are no completions
		for _, node := range nodes {
			names = append(names, node.Name) // a watch cache lists them unsorted
		}
		slices.Sort(names)
		return names
	}
	if list, err := conn.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err == nil {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}
