package house

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// room is a row of the table of rooms. It lists what the packages of a folder may import in addition to the standard library. own
// lists folders of this module: "/..." includes the folders below. libs lists libraries with all their packages.
type room struct {
	own  []string
	libs []string
}

// rooms returns the table by folder. A package belongs to the longest folder that contains it.
func rooms() map[string]room {
	// klog is for the type that k8s.io/api's functions need. See allowedNames.
	values := []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/klog/v2"}
	scheduling := append(slices.Clone(values), "k8s.io/component-helpers")
	ground := []string{"pkg/nodegroup", "pkg/nodemark", "pkg/drain/...", "pkg/fit", "pkg/shell"}
	decisions := append(slices.Clone(ground), "pkg/upgrade/...", "pkg/preflight/...", "pkg/inventory", "pkg/nodepool")
	cloud := []string{"pkg/cloud", "pkg/nodegroup", "pkg/deadline", "pkg/shell"}

	return map[string]room{
		"cmd/kubectl-nodeupgrade": {own: []string{"pkg/plugin"}},

		"pkg/nodemark":  {libs: values, own: []string{"pkg/shell"}},
		"pkg/nodegroup": {libs: values, own: []string{"pkg/nodemark", "pkg/shell"}},
		"pkg/shell":     {},
		"pkg/fit":       {libs: scheduling},
		"pkg/drain":     {libs: scheduling, own: []string{"pkg/fit"}},
		// It decides about nodes with their pods, and does not know World.
		"pkg/drain/schedule": {libs: values, own: []string{"pkg/drain", "pkg/nodegroup"}},
		"pkg/upgrade":        {libs: values, own: append(slices.Clone(ground), "pkg/upgrade/...")},
		// The data of an upgrade that is stored, requested and reported. It does not know World and decides nothing.
		"pkg/upgrade/record": {libs: values, own: append(slices.Clone(ground), "pkg/upgrade/ledger")},
		"pkg/preflight":      {libs: append(slices.Clone(scheduling), "k8s.io/pod-security-admission", "k8s.io/kubectl/pkg/util/qos"), own: decisions},
		"pkg/simulate":       {libs: append(slices.Clone(scheduling), "golang.org/x/sync"), own: decisions},
		// Its inputs are passed to it. It does not know World or drain.
		"pkg/upgrade/ledger": {own: []string{"pkg/nodegroup"}},
		"pkg/report": {
			libs: append(slices.Clone(values), "github.com/olekukonko/tablewriter"),
			own:  append(slices.Clone(decisions), "pkg/simulate/..."),
		},

		"pkg/trim":      {libs: scheduling},
		"pkg/inventory": {libs: values, own: []string{"pkg/drain", "pkg/nodepool"}}, // it derives drain.Facts
		// Karpenter reads the schedules of budgets with this library.
		"pkg/nodepool": {libs: append(slices.Clone(values), "github.com/robfig/cron")},
		"pkg/deadline": {},
		"pkg/dump":     {libs: append(slices.Clone(values), "sigs.k8s.io/yaml", "go.yaml.in/yaml"), own: []string{"pkg/inventory", "pkg/shell"}},

		"pkg/runner":  {libs: values, own: append(slices.Clone(decisions), "pkg/cloud")},
		"pkg/cluster": {libs: append(slices.Clone(scheduling), "k8s.io/client-go", "golang.org/x/sync", "google.golang.org/protobuf"), own: append(slices.Clone(decisions), "pkg/trim", "pkg/deadline")},

		"pkg/cloud":     {libs: values, own: cloud},
		"pkg/cloud/aws": {libs: append(slices.Clone(values), "github.com/aws", "golang.org/x/sync"), own: cloud},
		"pkg/cloud/gke": {libs: append(slices.Clone(values), "k8s.io/client-go/rest"), own: cloud},
		// Credentials come from the kubeconfig's plugin, by client-go, or from default credentials, by oauth2.
		"pkg/cloud/gke/container": {libs: []string{"k8s.io/client-go/rest", "golang.org/x/oauth2"}, own: cloud},
		"pkg/cloud/manual":        {libs: values, own: cloud},
		"pkg/cloud/karpenter":     {libs: values, own: append(slices.Clone(cloud), "pkg/nodepool")},
		// Recorded clusters have only groups by labels.
		"pkg/cloud/recorded": {libs: values, own: append(slices.Clone(cloud), "pkg/cloud/manual")},

		"pkg/plugin": {libs: []string{""}, own: []string{"pkg/..."}},
		"test":       {libs: []string{""}, own: []string{"pkg/...", "test/..."}},
	}
}

// roomOf returns the folder of the room to which a package's folder belongs, or "" if the table has none.
func roomOf(dir string, table map[string]room) string {
	best := ""
	for folder := range table {
		if isUnder(dir, folder) && len(folder) > len(best) {
			best = folder
		}
	}
	return best
}

// mayImport reports whether the room in the given folder may import a path.
func (r room) mayImport(folder, imported string) bool {
	if own, ok := strings.CutPrefix(imported, module+"/"); ok {
		return isUnder(own, folder) || slices.ContainsFunc(r.own, func(allowed string) bool {
			tree, whole := strings.CutSuffix(allowed, "/...")
			return own == allowed || whole && isUnder(own, tree)
		})
	}
	first, _, _ := strings.Cut(imported, "/")
	standard := !strings.Contains(first, ".")
	return standard || slices.ContainsFunc(r.libs, func(lib string) bool {
		return lib == "" || isUnder(imported, lib)
	})
}

// roomFaults lists the imports of a file that its room does not allow.
func roomFaults(src source, table map[string]room) []string {
	folder := roomOf(src.dir(), table)
	if folder == "" {
		return []string{src.fault(src.file.Package, "%s is in no room: give it a row in the table first", src.dir())}
	}
	var faults []string
	for imported, pos := range src.imports() {
		if !table[folder].mayImport(folder, imported) {
			faults = append(faults, src.fault(pos, "%s may not import %s", folder, imported))
		}
	}
	slices.Sort(faults)
	return faults
}

func TestPackagesImportOnlyAllowedPackages(t *testing.T) {
	for _, src := range sources(t) {
		if !src.isTest() {
			reportFaults(t, roomFaults(src, rooms()))
		}
	}
}

func TestForbiddenImportsAreFound(t *testing.T) {
	cases := map[string]struct{ dir, imported, want string }{
		"standard library":                     {"pkg/upgrade", "slices", ""},
		"a library the room has":               {"pkg/upgrade", "k8s.io/api/core/v1", ""},
		"a library whose name only starts so":  {"pkg/upgrade", "k8s.io/apiserver/pkg/server", "may not import"},
		"a library of another room":            {"pkg/upgrade", "k8s.io/component-helpers/scheduling/corev1", "may not import"},
		"a room below":                         {"pkg/upgrade", module + "/pkg/drain", ""},
		"a room above":                         {"pkg/drain", module + "/pkg/upgrade", "pkg/drain may not import"},
		"the books know no upgrade":            {"pkg/upgrade/ledger", module + "/pkg/upgrade", "pkg/upgrade/ledger may not import"},
		"the books know no pods":               {"pkg/upgrade/ledger", module + "/pkg/drain", "pkg/upgrade/ledger may not import"},
		"a package inside the room":            {"pkg/drain", module + "/pkg/drain/internal/budget", ""},
		"a folder inside the room is the room": {"pkg/drain/internal/budget", module + "/pkg/upgrade", "pkg/drain may not import"},
		"the runner knows the interface":       {"pkg/runner", module + "/pkg/cloud", ""},
		"the runner knows no cloud":            {"pkg/runner", module + "/pkg/cloud/aws", "pkg/runner may not import"},
		"one cloud's SDK stays in its room":    {"pkg/cloud/manual", "github.com/aws/aws-sdk-go-v2/aws", "may not import"},
		"that cloud has it":                    {"pkg/cloud/aws", "github.com/aws/aws-sdk-go-v2/aws", ""},
		"main knows the commands only":         {"cmd/kubectl-nodeupgrade", module + "/pkg/cluster", "may not import"},
		"the commands know everything":         {"pkg/plugin", "github.com/spf13/cobra", ""},
		"the product knows no test":            {"pkg/plugin", module + "/test/awscloud", "may not import"},
		"tests know everything":                {"test/awscloud", module + "/pkg/cloud/aws", ""},
		"a folder without a room":              {"pkg/extra", "slices", "in no room"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			src := mustParse(t, c.dir+"/x.go", fmt.Sprintf("package x\n\nimport _ %q\n", c.imported))
			checkFaults(t, roomFaults(src, rooms()), c.want)
		})
	}
}
