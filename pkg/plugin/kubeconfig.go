package plugin

import (
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// connectionFlags are kubectl's flags that choose a cluster and a user. They set client-go's options for reading a
// kubeconfig. cli-runtime's ConfigFlags are not used, because their package imports kustomize and, with it, Go's plugin
// package (docs/decisions/0050).
type connectionFlags struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides *clientcmd.ConfigOverrides
	// userExtra has a KEY=VALUE for each --as-user-extra.
	userExtra []string
	loader    clientcmd.ClientConfig
}

func newConnectionFlags() *connectionFlags {
	k := &connectionFlags{
		rules:     clientcmd.NewDefaultClientConfigLoadingRules(),
		overrides: &clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults},
	}
	k.rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	k.loader = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, k.overrides)
	return k
}

// addTo adds the flags. It must be called once because it sets each flag to its default.
func (k *connectionFlags) addTo(flags *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.ContextOverrideFlags.Namespace.LongName = "" // nodes have no namespace
	names.AuthOverrideFlags.Username.LongName = ""     // API servers have no basic authentication
	names.AuthOverrideFlags.Password.LongName = ""
	clientcmd.BindOverrideFlags(k.overrides, flags, names)
	flags.StringVar(&k.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "Path to the kubeconfig file to use for CLI requests.")
	flags.StringArrayVar(&k.userExtra, "as-user-extra", nil, "User extras to impersonate for the operation, KEY=VALUE; this flag can be repeated")
}

// clientConfig returns the kubeconfig with the flags applied. client-go reads the files on first use.
func (k *connectionFlags) clientConfig() clientcmd.ClientConfig {
	extra := map[string][]string{}
	for _, pair := range k.userExtra {
		if key, value, ok := strings.Cut(pair, "="); ok {
			extra[key] = append(extra[key], value)
		}
	}
	if len(extra) > 0 {
		k.overrides.AuthInfo.ImpersonateUserExtra = extra
	}
	return k.loader
}

// listConnectionFlags returns the connection flags with their default values.
func listConnectionFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	newConnectionFlags().addTo(flags)
	return flags
}
