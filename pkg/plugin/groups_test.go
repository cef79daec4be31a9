package plugin

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/manual"
)

// TestSelectorIsAcceptedAsGroupNameWithoutCloud: if the user chose a cloud, the selector is rejected, because the nodes would be upgraded
// without the cloud.
func TestSelectorIsAcceptedAsGroupNameWithoutCloud(t *testing.T) {
	cases := map[string]struct{ name, provider, opens, says string }{
		"no provider":            {"image=v1", providerAuto, "image=v1", ""},
		"by labels":              {"image=v1", providerManual, "image=v1", ""},
		"a cloud":                {"image=v1", "aws", "", `no node group "image=v1"`},
		"a name":                 {"blue", "aws", "blue", ""},
		"no group and no labels": {"red", providerAuto, "", `no node group "red"; groups: blue, green`},
		"labels of no node":      {"image=v9", providerAuto, "", "no node matches --selector=image=v9"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := twoGroups()
			server.serve(t)
			conn, err := newFlags(genericiooptions.NewTestIOStreamsDiscard()).connectCluster(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			line := &commandLine{choices: choices{stateNamespace: "kube-system", providerName: providerManual}}
			s, err := (&command{line, conn}).openSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			line.providerName, s.main = c.provider, manual.New(manual.Options{})
			_, names, err := s.openNamedGroups(t.Context(), groupSelection{names: []string{c.name}}, suggestNoCommand)
			switch {
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("names %q, error %v; want one that says %q", names, err, c.says)
			case c.says == "" && (err != nil || strings.Join(names, ",") != c.opens):
				t.Errorf("names %q, error %v; want %q", names, err, c.opens)
			}
		})
	}
}
