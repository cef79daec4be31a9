package plugin

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

// twoContexts is a kubeconfig with two clusters, users and contexts.
const twoContexts = `apiVersion: v1
kind: Config
current-context: blue
clusters:
- {name: blue, cluster: {server: "https://blue.example.com"}}
- {name: green, cluster: {server: "https://green.example.com", proxy-url: "http://proxy.example.com"}}
users:
- {name: blue, user: {token: of-blue}}
- {name: green, user: {token: of-green, as: boss}}
contexts:
- {name: blue, context: {cluster: blue, user: blue}}
- {name: green, context: {cluster: green, user: green}}
`

// TestConnectionFlagsWorkAsInKubectl parses flags with this program's and kubectl's code, and compares the client
// configurations.
func TestConnectionFlagsWorkAsInKubectl(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(twoContexts), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	cases := map[string][]string{
		"no flag":               nil,
		"a context":             {"--context=green"},
		"a context that is not": {"--context=red"},
		"a cluster and a user":  {"--cluster=green", "--user=blue"},
		"a server":              {"-s", "https://other.example.com", "--insecure-skip-tls-verify"},
		"a token":               {"--token=secret", "--tls-server-name=api", "--disable-compression"},
		"certificates":          {"--client-certificate=a.crt", "--client-key=a.key", "--certificate-authority=ca.crt"},
		"another user":          {"--as=ann", "--as-uid=7", "--as-group=dev", "--as-group=ops", "--as-user-extra=k=v", "--as-user-extra=k=w=x"},
		"a proxy and a timeout": {"--proxy-url=http://other.example.com", "--request-timeout=7s"},
		"a bad timeout":         {"--request-timeout=seven"},
		"a file":                {"--kubeconfig=" + file, "--context=green"},
		"a file that is not":    {"--kubeconfig=" + file + ".none"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			mine, theirs := newConnectionFlags(), genericclioptions.NewConfigFlags(true)
			parse := func(addTo func(*pflag.FlagSet)) {
				flags := pflag.NewFlagSet("", pflag.ContinueOnError)
				addTo(flags)
				if err := flags.Parse(args); err != nil {
					t.Fatal(err)
				}
			}
			parse(mine.addTo)
			parse(theirs.AddFlags)
			got, gotErr := mine.clientConfig().ClientConfig()
			want, wantErr := theirs.ToRESTConfig()
			if (gotErr == nil) != (wantErr == nil) {
				t.Fatalf("got error %v, kubectl %v", gotErr, wantErr)
			}
			if gotErr != nil {
				return
			}
			if !reflect.DeepEqual(comparableConfig(got), comparableConfig(want)) {
				t.Errorf("got  %+v\nwant %+v", comparableConfig(got), comparableConfig(want))
			}
		})
	}
}

// comparableConfig returns the configuration with the proxy's address in place of the function that returns it.
func comparableConfig(config *rest.Config) rest.Config {
	c := *config
	if c.Proxy != nil {
		address, err := c.Proxy(nil)
		c.Proxy, c.UserAgent = nil, address.String()
		if err != nil {
			c.UserAgent = err.Error()
		}
	}
	return c
}

// TestNoConnectionFlagIsMissing compares the flags' names with kubectl's. It ignores the flags for namespaces and for
// the cache on disk, which no command uses.
func TestNoConnectionFlagIsMissing(t *testing.T) {
	kubectls := pflag.NewFlagSet("", pflag.ContinueOnError)
	genericclioptions.NewConfigFlags(true).AddFlags(kubectls)
	if got, want := listNames(listConnectionFlags()), listNames(kubectls, "namespace", "cache-dir"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// listNames returns the sorted names and short names of the flags, without some.
func listNames(flags *pflag.FlagSet, without ...string) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(without, f.Name) {
			names = append(names, f.Name+" "+f.Shorthand)
		}
	})
	return names
}
