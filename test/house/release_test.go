package house

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// goreleaser is the part of .goreleaser.yaml on which krew.yaml relies.
type goreleaser struct {
	Builds []struct {
		Goos    []string `json:"goos"`
		Goarch  []string `json:"goarch"`
		Ldflags []string `json:"ldflags"`
	} `json:"builds"`
	Archives []struct {
		Name  string        `json:"name_template"`
		Built fileInfo      `json:"builds_info"`
		Files []archiveFile `json:"files"`
	} `json:"archives"`
}

// archiveFile is a file that an archive contains in addition to the binary.
type archiveFile struct {
	Src  string   `json:"src"`
	Info fileInfo `json:"info"`
}

// fileInfo is the metadata of a file in an archive. An empty field means the value in the checkout, which differs between machines.
type fileInfo struct {
	Owner string `json:"owner"`
	Group string `json:"group"`
	Mtime string `json:"mtime"`
	Mode  int    `json:"mode"`
}

// isFixed reports whether no field is taken from the checkout.
func (i fileInfo) isFixed() bool {
	return i.Owner != "" && i.Group != "" && i.Mtime == "{{ .CommitDate }}" && i.Mode != 0
}

// releaseFaults lists the faults that prevent krew from installing the archives of a release.
func releaseFaults(config, krew string) []string {
	var release goreleaser
	if err := yaml.Unmarshal([]byte(config), &release); err != nil {
		return []string{err.Error()}
	}
	var m manifest
	if err := yaml.Unmarshal([]byte(krew), &m); err != nil {
		return []string{err.Error()}
	}
	if len(release.Builds) != 1 || len(release.Archives) != 1 {
		return []string{"a release has one build and one archive a platform"}
	}
	build, archive := release.Builds[0], release.Archives[0]
	holds := func(name string) bool {
		return slices.ContainsFunc(archive.Files, func(f archiveFile) bool { return f.Src == name })
	}
	varies := slices.ContainsFunc(archive.Files, func(f archiveFile) bool { return !f.Info.isFixed() })
	return failedChecks(
		check{slices.Equal(builtPlatforms(build.Goos, build.Goarch), offeredPlatforms(m)), "a release builds other platforms than krew.yaml offers"},
		check{archive.Name == "{{ .ProjectName }}_{{ .Tag }}_{{ .Os }}_{{ .Arch }}", "a release names archives otherwise than krew.yaml"},
		check{holds("LICENSE"), "krew refuses an archive without a licence"},
		check{holds("kubectl_complete-nodeupgrade"), "the archive lacks the completion script"},
		check{holds("plugins.yaml"), "the archive lacks the k9s plugins"},
		check{archive.Built.isFixed() && !varies, "an archive differs between machines: fix the owner, group, mtime and mode of each file"},
	)
}

func builtPlatforms(goos, goarch []string) []string {
	var all []string
	for _, system := range goos {
		for _, arch := range goarch {
			all = append(all, system+"/"+arch)
		}
	}
	slices.Sort(all)
	return all
}

func offeredPlatforms(m manifest) []string {
	var all []string
	for _, p := range m.Spec.Platforms {
		all = append(all, p.name())
	}
	slices.Sort(all)
	return all
}

func TestReleaseMatchesKrewManifest(t *testing.T) {
	reportFaults(t, releaseFaults(readFile(t, ".goreleaser.yaml"), readFile(t, "krew.yaml")))
}

func TestReleaseThatDoesNotMatchKrewManifestIsFound(t *testing.T) {
	const config = `builds: [{goos: [linux], goarch: [amd64, arm64]}]
archives:
- name_template: "{{ .ProjectName }}_{{ .Tag }}_{{ .Os }}_{{ .Arch }}"
  builds_info: &info {owner: root, group: root, mtime: "{{ .CommitDate }}", mode: 0755}
  files:
  - {src: LICENSE, info: *info}
  - {src: plugins.yaml, info: *info}
  - {src: kubectl_complete-nodeupgrade, info: *info}
`
	const krew = `spec:
  platforms:
  - selector: {matchLabels: {os: linux, arch: arm64}}
  - selector: {matchLabels: {os: linux, arch: amd64}}
`
	cases := map[string]struct{ old, new, want string }{
		"good":                   {"", "", ""},
		"a platform more":        {"[linux]", "[linux, darwin]", "other platforms"},
		"a platform less":        {"amd64, ", "", "other platforms"},
		"another archive name":   {".Tag", ".Version", "names archives otherwise"},
		"no licence":             {"src: LICENSE", "src: README.md", "without a licence"},
		"no completion":          {"src: kubectl_complete-nodeupgrade", "src: README.md", "lacks the completion script"},
		"no k9s plugins":         {"src: plugins.yaml", "src: README.md", "lacks the k9s plugins"},
		"the time of a checkout": {"plugins.yaml, info: *info", "plugins.yaml", "differs between machines"},
		"the mode of a checkout": {", mode: 0755", "", "differs between machines"},
		"no build":               {"builds", "build", "one build"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(config, c.old) {
				t.Fatalf("the case replaces %q, which the text does not contain", c.old)
			}
			checkFaults(t, releaseFaults(strings.Replace(config, c.old, c.new, 1), krew), c.want)
		})
	}
}

// TestKrewBotTemplateProducesKrewManifest fills .krew.yaml in as krew-release-bot does.
func TestKrewBotTemplateProducesKrewManifest(t *testing.T) {
	krew := readFile(t, "krew.yaml")
	var m manifest
	if err := yaml.Unmarshal([]byte(krew), &m); err != nil {
		t.Fatal(err)
	}
	template := strings.ReplaceAll(readFile(t, ".krew.yaml"), "{{ .TagName }}", m.Spec.Version)
	call := regexp.MustCompile(`\{\{addURIAndSha "(\S+)" \.TagName \}\}`)
	got := call.ReplaceAllString(template, "uri: $1\n    sha256: SUM")
	want := regexp.MustCompile(`sha256: "[0-9a-f]*"`).ReplaceAllString(krew, "sha256: SUM")
	if got, want := withoutComments(got), withoutComments(want); got != want {
		t.Errorf(".krew.yaml gives\n%s\nand krew.yaml is\n%s", got, want)
	}
}

func withoutComments(text string) string {
	return strings.TrimSpace(regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, ""))
}

// versionFlagFaults lists the files whose -X flag sets no variable of pkg/plugin. The linker ignores a name that does not exist, so
// the version would stay empty.
func versionFlagFaults(builds map[string]string, plugin []source) []string {
	stamp := regexp.MustCompile(`-X \S+/pkg/plugin\.(\w+)=`)
	var faults []string
	for name, text := range builds {
		m := stamp.FindStringSubmatch(text)
		switch {
		case m == nil:
			faults = append(faults, name+" stamps no version into pkg/plugin")
		case !declares(plugin, m[1]):
			faults = append(faults, fmt.Sprintf("%s stamps %s, and pkg/plugin declares no such variable", name, m[1]))
		}
	}
	slices.Sort(faults)
	return faults
}

// declares reports whether one of the files declares the package variable.
func declares(srcs []source, name string) bool {
	return slices.ContainsFunc(srcs, func(src source) bool {
		return slices.ContainsFunc(src.file.Decls, func(decl ast.Decl) bool {
			gen, ok := decl.(*ast.GenDecl)
			return ok && slices.ContainsFunc(gen.Specs, func(spec ast.Spec) bool {
				value, ok := spec.(*ast.ValueSpec)
				return ok && gen.Tok.String() == "var" && value.Names[0].Name == name
			})
		})
	})
}

func TestMakefileAndReleaseSetPluginVersion(t *testing.T) {
	plugin := slices.DeleteFunc(sources(t), func(src source) bool { return src.dir() != "pkg/plugin" })
	reportFaults(t, versionFlagFaults(map[string]string{
		"Makefile":         strings.ReplaceAll(readFile(t, "Makefile"), "$(MODULE)", module),
		".goreleaser.yaml": readFile(t, ".goreleaser.yaml"),
	}, plugin))
}

func TestMissingVersionVariablesAreFound(t *testing.T) {
	cases := map[string]struct{ flag, code, want string }{
		"declared":     {"-X m/pkg/plugin.version=v1", "var version string", ""},
		"not declared": {"-X m/pkg/plugin.version=v1", "var release string", "declares no such variable"},
		"a constant":   {"-X m/pkg/plugin.version=v1", `const version = ""`, "declares no such variable"},
		"no stamp":     {"-s -w", "var version string", "stamps no version"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			src := mustParse(t, "pkg/plugin/version.go", "package plugin\n\n"+c.code)
			checkFaults(t, versionFlagFaults(map[string]string{"Makefile": c.flag}, []source{src}), c.want)
		})
	}
}
