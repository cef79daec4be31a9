package house

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// manifest is a krew plugin manifest, without the parts that this project does not use.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels struct {
			OS   string `json:"os"`
			Arch string `json:"arch"`
		} `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	Sha256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

// name returns the platform as GOOS/GOARCH.
func (p krewPlatform) name() string {
	return p.Selector.MatchLabels.OS + "/" + p.Selector.MatchLabels.Arch
}

// krewPlatforms lists the platforms that krew's validate-krew-manifest knows.
func krewPlatforms() []string {
	return []string{
		"darwin/386", "darwin/amd64", "darwin/arm64",
		"linux/386", "linux/amd64", "linux/arm", "linux/arm64", "linux/ppc64le",
		"windows/386", "windows/amd64", "windows/arm64",
	}
}

// krewFaults lists the faults of a manifest that krew's validator (internal/index/validation/validate.go) or the reviewers of its
// index (the plugin naming and review guides) would find.
func krewFaults(text []byte) []string {
	var m manifest
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return []string{err.Error()}
	}
	faults := append(headFaults(m), wordingFaults(m)...)
	seen := map[string]bool{}
	for _, p := range m.Spec.Platforms {
		faults = append(faults, failedChecks(check{!seen[p.name()], p.name() + " is there twice"})...)
		seen[p.name()] = true
		for _, fault := range platformFaults(m, p) {
			faults = append(faults, p.name()+": "+fault)
		}
	}
	return faults
}

func headFaults(m manifest) []string {
	semver := regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
	return failedChecks(
		check{m.APIVersion == "krew.googlecontainertools.github.com/v1alpha2", "apiVersion is " + m.APIVersion},
		check{m.Kind == "Plugin", "kind is " + m.Kind},
		check{m.Metadata.Name == "nodeupgrade", "the plugin is called " + m.Metadata.Name},
		check{semver.MatchString(m.Spec.Version), "version is " + m.Spec.Version},
		check{m.Spec.Homepage == "https://"+module, "homepage is " + m.Spec.Homepage},
		check{len(m.Spec.Platforms) > 0, "there is no platform"},
	)
}

func wordingFaults(m manifest) []string {
	short, long := m.Spec.ShortDescription, m.Spec.Description
	wide := slices.ContainsFunc(strings.Split(long, "\n"), func(line string) bool { return len(line) > 80 })
	return failedChecks(
		check{short != "", "there is no shortDescription"},
		check{len(short) <= 50, fmt.Sprintf("shortDescription has %d characters, at most 50", len(short))},
		check{!strings.ContainsAny(short, "\r\n"), "shortDescription has more than one line"},
		check{!strings.HasSuffix(short, "."), "shortDescription ends in a full stop"},
		check{long != "", "there is no description"},
		check{!wide, "description has lines of more than 80 characters"},
		check{!strings.Contains(long, "kubectl nodeupgrade") && !strings.Contains(long, "--"), "description gives usage examples"},
	)
}

// platformFaults lists the faults of a platform. It also checks that the archive has the name that .goreleaser.yaml gives it.
func platformFaults(m manifest, p krewPlatform) []string {
	ext, exe := ".tar.gz", ""
	if p.Selector.MatchLabels.OS == "windows" {
		ext, exe = ".zip", ".exe"
	}
	archive := fmt.Sprintf("kubectl-nodeupgrade_%s_%s%s", m.Spec.Version, strings.ReplaceAll(p.name(), "/", "_"), ext)
	uri := m.Spec.Homepage + "/releases/download/" + m.Spec.Version + "/" + archive
	return failedChecks(
		check{slices.Contains(krewPlatforms(), p.name()), "krew knows no such platform"},
		check{p.URI == uri, "uri names " + path.Base(p.URI) + ", not " + uri},
		check{regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(p.Sha256), "sha256 is not 64 lower-case hex digits"},
		check{p.Bin == "kubectl-nodeupgrade"+exe, "bin is " + p.Bin},
	)
}

func TestKrewManifestPassesChecksOfKrewIndex(t *testing.T) {
	reportFaults(t, krewFaults([]byte(readFile(t, "krew.yaml"))))
}

func TestFaultyKrewManifestsAreFound(t *testing.T) {
	good := strings.NewReplacer("SUM", strings.Repeat("0a", 32), "HOME", "https://"+module).Replace(`
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: nodeupgrade
spec:
  version: v1.2.3
  homepage: HOME
  shortDescription: Roll nodes
  description: |
    Rolls nodes.
  platforms:
  - selector: {matchLabels: {os: windows, arch: arm64}}
    uri: HOME/releases/download/v1.2.3/kubectl-nodeupgrade_v1.2.3_windows_arm64.zip
    sha256: SUM
    bin: kubectl-nodeupgrade.exe
  - selector: {matchLabels: {os: linux, arch: amd64}}
    uri: HOME/releases/download/v1.2.3/kubectl-nodeupgrade_v1.2.3_linux_amd64.tar.gz
    sha256: SUM
    bin: kubectl-nodeupgrade
`)
	_, all, _ := strings.Cut(good, "  platforms:\n")
	linux := all[strings.LastIndex(all, "  - selector"):]
	cases := map[string]struct{ old, new, want string }{
		"good":                       {"", "", ""},
		"an unknown key":             {"  homepage:", "  website:", `unknown field "website"`},
		"another API":                {"v1alpha2", "v1alpha1", "apiVersion is"},
		"another kind":               {"Plugin", "Index", "kind is Index"},
		"another name":               {"name: nodeupgrade", "name: krew", "called krew"},
		"another homepage":           {"homepage: https", "homepage: http", "homepage is http:"},
		"no short description":       {"Roll nodes", "", "no shortDescription"},
		"a long short description":   {"Roll nodes", strings.Repeat("x", 51), "51 characters, at most 50"},
		"a short description of two": {"Roll nodes", `"Roll\nnodes"`, "more than one line"},
		"a full stop":                {"Roll nodes", "Roll nodes.", "full stop"},
		"no description":             {"description: |\n    Rolls nodes.", "", "no description"},
		"a wide description":         {"Rolls nodes.", strings.Repeat("x", 81), "more than 80"},
		"a usage example":            {"Rolls nodes.", "Run kubectl nodeupgrade.", "usage examples"},
		"a flag":                     {"Rolls nodes.", "With --yes.", "usage examples"},
		"a platform twice":           {linux, linux + linux, "linux/amd64 is there twice"},
		"an unknown platform":        {linux, strings.ReplaceAll(linux, "amd64", "riscv64"), "knows no such platform"},
		"another selector":           {"arch: amd64", "arch: amd64, distro: x", `unknown field`},
		"an archive of last time":    {"1.2.3_linux", "1.2.2_linux", "uri names kubectl-nodeupgrade_v1.2.2_linux_amd64.tar.gz"},
		"a zip for Linux":            {".tar.gz", ".zip", "uri names"},
		"a sum in capitals":          {"0a0a", "0A0A", "64 lower-case hex"},
		"no .exe":                    {".exe", "", "windows/arm64: bin is kubectl-nodeupgrade"},
		"no platform":                {all, "", "no platform"},
		"no version":                 {"version: v1.2.3", "version: v1.2", "version is v1.2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(good, c.old) {
				t.Fatalf("the case replaces %q, which the text does not contain", c.old)
			}
			faults := krewFaults([]byte(strings.Replace(good, c.old, c.new, 1)))
			if len(faults) > 1 { // every archive's address contains the version and the homepage
				faults = faults[:1]
			}
			checkFaults(t, faults, c.want)
		})
	}
}
