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
)

// listFlagValues are the values that a flag takes, none where they cannot be counted.
func listFlagValues(flag string) []string {
	switch flag {
	case "provider":
		return listProviderNames()
	case "progress":
		return []string{"auto", "tty", "plain", "json", "quiet"}
	case "output":
		return []string{"table", "wide", "json", "yaml", "name", "markdown", "jsonpath=", "go-template="}
	case "dry-run":
		return []string{"none", "client", "server"}
	case "strategy":
		return convertToStrings(upgrade.Strategies())
	case "like":
		return []string{"eks", "gke"}
	case "update-strategy":
		return upgrade.UpdateStrategies()
	case "on-timeout":
		return []string{string(upgrade.Fail), string(upgrade.Force), string(upgrade.Skip)}
	case "unmanaged-pods":
		return []string{"refuse", "evict"}
	default:
		return listCheckValues(flag)
	}
}

// listCheckValues are the values of the flags that are about rules.
func listCheckValues(flag string) []string {
	switch flag {
	case "explain", "skip-check":
		return listRuleIDs()
	case "fail-on":
		return append(convertToStrings(preflight.Severities()[1:]), neverFail)
	default:
		return nil
	}
}

// listRuleIDs are the ids of all rules.
func listRuleIDs() []string {
	var ids []string
	for _, rule := range preflight.Catalogue() {
		ids = append(ids, rule.ID)
	}
	return ids
}

// convertToStrings are the values as plain text.
func convertToStrings[T ~string](values []T) []string {
	var plain []string
	for _, value := range values {
		plain = append(plain, string(value))
	}
	return plain
}

// offerValues has the shell offer the values of flags, and file names for those alone that name a
// file.
func (f *flags) offerValues(cmd *cobra.Command) {
	files := []string{"filename", "kubeconfig", "cache-dir", "certificate-authority", "client-certificate", "client-key"}
	offer := func(flag *pflag.Flag) {
		if flag.Value.Type() != "bool" && !slices.Contains(files, flag.Name) {
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag.Name, f.completeValue(flag.Name)))
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(offer)
	cmd.PersistentFlags().VisitAll(offer)
	for _, sub := range cmd.Commands() {
		f.offerValues(sub)
	}
}

// completeValue completes the value of a flag; whatever goes wrong, it is silent.
func (f *flags) completeValue(flag string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		values := slices.DeleteFunc(f.listValues(ctx, flag), func(v string) bool { return !strings.HasPrefix(v, typed) })
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(values) == 1 && strings.HasSuffix(values[0], "=") { // its value follows
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return values, directive
	}
}

// listValues are the values of a flag that there are: its own, or names in the kubeconfig or the
// cluster.
func (f *flags) listValues(ctx context.Context, flag string) []string {
	switch flag {
	case "context", "cluster", "user":
		return f.listConfigured(flag)
	case "node", "state-namespace":
		return f.listExisting(ctx, flag)
	default:
		return listFlagValues(flag)
	}
}

func (f *flags) listConfigured(flag string) []string {
	config, err := f.config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil
	}
	switch flag {
	case "context":
		return slices.Sorted(maps.Keys(config.Contexts))
	case "cluster":
		return slices.Sorted(maps.Keys(config.Clusters))
	default:
		return slices.Sorted(maps.Keys(config.AuthInfos))
	}
}

func (f *flags) listExisting(ctx context.Context, flag string) []string {
	conn, err := f.connectCluster(ctx, io.Discard)
	if err != nil {
		return nil
	}
	var names []string
	if flag == "node" {
		nodes, _ := cluster.ListNodes(ctx, conn.Client) // none is offered then
		for _, node := range nodes {
			names = append(names, node.Name) // a watch lists them in no order
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
