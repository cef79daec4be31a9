package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// seededFolder is the only pure folder that may draw random numbers. It draws them from a seed.
const seededFolder = "pkg/drain"

// pureFolders lists the folders whose packages are pure: they only compute decisions.
func pureFolders() []string {
	return []string{seededFolder, "pkg/nodegroup", "pkg/nodemark", "pkg/nodepool", "pkg/preflight", "pkg/report", "pkg/shell", "pkg/simulate", "pkg/trim", "pkg/upgrade"}
}

// serverLibraries lists the libraries that connect to a server. Neither a pure package nor its dependencies may import them.
func serverLibraries() []string {
	return []string{"k8s.io/client-go", "github.com/aws", "google.golang.org/api", "cloud.google.com/go", "golang.org/x/oauth2"}
}

// forbiddenImports lists the packages that a pure file may not import. The list includes all packages below them, except net/netip,
// whose addresses are values.
func forbiddenImports() []string {
	return append(serverLibraries(), "net", "os", "syscall", "math/rand", "crypto/rand")
}

// allowedNames maps an import to the only names of it that a pure file may use. From math/rand/v2, these are generators with a seed.
// From klog, it is the type that functions of k8s.io/api need. Its zero value logs nothing, but klog.Background writes to stderr.
func allowedNames() map[string][]string {
	return map[string][]string{
		"math/rand/v2":   {"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Zipf", "Source"},
		"k8s.io/klog/v2": {"Logger"},
	}
}

// forbiddenNames maps an import to the names of it that a pure file may not use, because a decision would depend on the current time.
func forbiddenNames() map[string][]string {
	return map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	}
}

// mayName reports whether a pure file may use a name of an import.
func mayName(imported, name string) bool {
	only, limited := allowedNames()[imported]
	if limited {
		return slices.Contains(only, name)
	}
	return !slices.Contains(forbiddenNames()[imported], name)
}

// pureFaults lists what a file of a pure package may not contain: a forbidden import, a use of the clock, random numbers without a
// seed, a logger, or a goroutine.
func pureFaults(src source) []string {
	faults := impureImports(src)
	names := importNames(src)
	ast.Inspect(src.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			faults = append(faults, src.fault(n.Pos(), "a pure package starts no goroutine"))
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if ok && !mayName(names[pkg.Name], n.Sel.Name) {
				faults = append(faults, src.fault(n.Pos(), "a pure package does not name %s.%s", names[pkg.Name], n.Sel.Name))
			}
		}
		return true
	})
	return faults
}

func impureImports(src source) []string {
	var faults []string
	for imported, pos := range src.imports() {
		if imported == "math/rand/v2" && isUnder(src.dir(), seededFolder) {
			continue
		}
		if imported != "net/netip" && slices.ContainsFunc(forbiddenImports(), func(tree string) bool { return isUnder(imported, tree) }) {
			faults = append(faults, src.fault(pos, "a pure package does not import %s", imported))
		}
	}
	slices.Sort(faults)
	for _, spec := range src.file.Imports {
		if spec.Name != nil && spec.Name.Name == "." {
			faults = append(faults, src.fault(spec.Pos(), "a pure package imports nothing under no name"))
		}
	}
	return faults
}

// importNames maps the names of a file's imports to their paths.
func importNames(src source) map[string]string {
	names := map[string]string{}
	for _, spec := range src.file.Imports {
		imported := unquote(spec)
		name := path.Base(strings.TrimSuffix(imported, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}

// goPackage is the output of "go list" for a package.
type goPackage struct {
	ImportPath string
	Deps       []string
}

// closureFaults lists the direct and indirect dependencies of a package that connect to a server.
func closureFaults(pkg goPackage) []string {
	var faults []string
	for _, dep := range pkg.Deps {
		if slices.ContainsFunc(serverLibraries(), func(tree string) bool { return isUnder(dep, tree) }) {
			faults = append(faults, pkg.ImportPath+" depends on "+dep)
		}
	}
	return faults
}

// listPackages runs go list for the packages of the folders that exist.
func listPackages(t *testing.T, folders []string) []goPackage {
	t.Helper()
	args := []string{"list", "-json=ImportPath,Deps"}
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(repoRoot(t), folder)); err == nil {
			args = append(args, "./"+folder+"/...")
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = repoRoot(t), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("running %v: %v", cmd.Args, err)
	}
	return decodePackages(t, out)
}

func decodePackages(t *testing.T, out []byte) []goPackage {
	t.Helper()
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg goPackage
		err := dec.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, pkg)
	}
}

func TestPurePackagesHaveNoSideEffects(t *testing.T) {
	for _, src := range sources(t) {
		if !src.isTest() && slices.ContainsFunc(pureFolders(), func(tree string) bool { return isUnder(src.dir(), tree) }) {
			reportFaults(t, pureFaults(src))
		}
	}
}

func TestPurePackagesReachNoServer(t *testing.T) {
	pkgs := listPackages(t, pureFolders())
	if len(pkgs) == 0 {
		t.Fatal("no pure package found: nothing would be checked")
	}
	for _, pkg := range pkgs {
		reportFaults(t, closureFaults(pkg))
	}
}

func TestImpureCodeInPurePackagesIsFound(t *testing.T) {
	cases := map[string]struct{ dir, text, want string }{
		"durations are values":          {"pkg/drain", `import "time"; var d = time.Second`, ""},
		"client-go":                     {"pkg/drain", `import _ "k8s.io/client-go/kubernetes"`, "does not import k8s.io/client-go/kubernetes"},
		"a cloud SDK":                   {"pkg/upgrade", `import _ "github.com/aws/smithy-go"`, "does not import github.com/aws/smithy-go"},
		"net":                           {"pkg/upgrade", `import _ "net"`, "does not import net"},
		"addresses":                     {"pkg/nodegroup", `import _ "net/netip"`, ""},
		"net/http":                      {"pkg/preflight", `import _ "net/http"`, "does not import net/http"},
		"os":                            {"pkg/report", `import _ "os"`, "does not import os"},
		"math/rand":                     {"pkg/simulate", `import _ "math/rand"`, "does not import math/rand"},
		"math/rand/v2 in a decision":    {"pkg/upgrade", `import _ "math/rand/v2"`, "does not import math/rand/v2"},
		"a dot import":                  {"pkg/drain", `import . "time"`, "under no name"},
		"the clock":                     {"pkg/drain", `import "time"; var now = time.Now()`, "does not name time.Now"},
		"the clock as a value":          {"pkg/drain", `import "time"; var now = time.Now`, "does not name time.Now"},
		"the clock under another name":  {"pkg/drain", `import clock "time"; var now = clock.Now()`, "does not name time.Now"},
		"the clock through a duration":  {"pkg/drain", `import "time"; var d = time.Since(start)`, "does not name time.Since"},
		"sleeping":                      {"pkg/simulate", `import "time"; func f() { time.Sleep(1) }`, "does not name time.Sleep"},
		"a timer":                       {"pkg/upgrade", `import "time"; var t = time.NewTimer(1)`, "does not name time.NewTimer"},
		"waiting on a channel":          {"pkg/upgrade", `import "time"; var c = time.After(1)`, "does not name time.After"},
		"a method called Now":           {"pkg/upgrade", `var now = world.Now()`, ""},
		"the type of a logger":          {"pkg/drain", `import "k8s.io/klog/v2"; var l = klog.Logger{}`, ""},
		"a logger that writes":          {"pkg/drain", `import "k8s.io/klog/v2"; var l = klog.Background()`, "does not name k8s.io/klog/v2.Background"},
		"a goroutine":                   {"pkg/upgrade", `func f() { go f() }`, "no goroutine"},
		"seeded random numbers":         {"pkg/drain", `import "math/rand/v2"; var r = rand.New(rand.NewPCG(1, 2))`, ""},
		"random numbers without a seed": {"pkg/drain", `import "math/rand/v2"; var n = rand.IntN(6)`, "does not name math/rand/v2.IntN"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			checkFaults(t, pureFaults(mustParse(t, c.dir+"/x.go", "package x; "+c.text)), c.want)
		})
	}
}

func TestIndirectDependenciesOnServersAreFound(t *testing.T) {
	cases := map[string]struct{ dep, want string }{
		"values":                       {"k8s.io/api/core/v1", ""},
		"client-go":                    {"k8s.io/client-go/rest", "a depends on k8s.io/client-go/rest"},
		"a cloud SDK":                  {"github.com/aws/aws-sdk-go-v2/aws", "a depends on github.com/aws/aws-sdk-go-v2/aws"},
		"a name that only starts so":   {"github.com/awslabs/x", ""},
		"the standard library is ours": {"net/http", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			checkFaults(t, closureFaults(goPackage{ImportPath: "a", Deps: []string{"fmt", c.dep}}), c.want)
		})
	}
}
