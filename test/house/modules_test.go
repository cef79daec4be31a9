package house

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// requiredVersions returns the versions of the modules that a go.mod requires. It omits requirements at v0.0.0, because a replace line
// overrides them.
func requiredVersions(goMod string) map[string]string {
	versions := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^(?:require )?\t?([a-z0-9.-]+\.[a-z]+/\S+) (v\S+)`).FindAllStringSubmatch(goMod, -1) {
		if line[2] != "v0.0.0" {
			versions[line[1]] = line[2]
		}
	}
	return versions
}

// versionFaults lists the modules that both files require in different versions. Packages of such a module, and all packages that
// import them, would be compiled twice.
func versionFaults(product, controlPlane string) []string {
	var faults []string
	ours, theirs := requiredVersions(product), requiredVersions(controlPlane)
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if version := theirs[name]; version != "" && version != ours[name] {
			faults = append(faults, fmt.Sprintf("%s is %s in go.mod and %s in test/controlplane/kubernetes/go.mod: use the newer one in both", name, ours[name], version))
		}
	}
	return faults
}

func TestControlPlaneUsesSameModuleVersions(t *testing.T) {
	reportFaults(t, versionFaults(readFile(t, "go.mod"), readFile(t, "test/controlplane/kubernetes/go.mod")))
}

func TestDifferentModuleVersionsAreFound(t *testing.T) {
	cases := map[string]struct{ ours, theirs, want string }{
		"the same":           {"require (\n\tk8s.io/api v0.37.2\n)", "require (\n\tk8s.io/api v0.37.2 // indirect\n)", ""},
		"others":             {"require (\n\tk8s.io/api v0.37.2\n)", "require k8s.io/api v0.36.3", "k8s.io/api is v0.37.2 in go.mod and v0.36.3"},
		"only in the second": {"require a.b/c v1.0.0", "require (\n\ta.b/d v2.0.0\n)", ""},
		"replaced":           {"require a.b/c v1.0.0", "require a.b/c v0.0.0", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkFaults(t, versionFaults(c.ours, c.theirs), c.want) })
	}
}

// dependencyFaults lists the modules that are only in go.mod or only in docs/dependencies.md. Indirect requirements do not count.
func dependencyFaults(goMod, page string) []string {
	var direct, described []string
	for line := range strings.Lines(goMod) {
		if !strings.Contains(line, "// indirect") {
			direct = slices.AppendSeq(direct, maps.Keys(requiredVersions(line)))
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+/[^`]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(page, -1) {
		described = append(described, row[1])
	}
	var faults []string
	for _, name := range direct {
		if !slices.Contains(described, name) {
			faults = append(faults, "docs/dependencies.md has no row for "+name)
		}
	}
	for _, name := range described {
		if !slices.Contains(direct, name) {
			faults = append(faults, "docs/dependencies.md has a row for "+name+", which go.mod does not require directly")
		}
	}
	slices.Sort(faults)
	return faults
}

func TestDependenciesAreDescribed(t *testing.T) {
	reportFaults(t, dependencyFaults(readFile(t, "go.mod"), readFile(t, "docs/dependencies.md")))
}

func TestUndescribedDependenciesAreFound(t *testing.T) {
	const goMod = "require (\n\ta.b/c v1.0.0\n\ta.b/d v1.0.0 // indirect\n\tgithub.com/aws/aws-sdk-go-v2/service/iam v1.9.0\n)\n"
	const page = "| `a.b/c` | reads |\n| `github.com/aws/aws-sdk-go-v2/service/iam` | asks |\n"
	cases := map[string]struct{ old, new, want string }{
		"good":              {"", "", ""},
		"no row":            {"| `a.b/c` | reads |\n", "", "no row for a.b/c"},
		"an indirect one":   {"| `a.b/c` | reads |\n", "| `a.b/c` | reads |\n| `a.b/d` | writes |\n", "a row for a.b/d"},
		"a row of no words": {"| reads |", "| |", "no row for a.b/c"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			checkFaults(t, dependencyFaults(goMod, strings.Replace(page, c.old, c.new, 1)), c.want)
		})
	}
}
