package programs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// writeFiles writes files below dir, by their paths.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// helloJob returns a job that builds a small program of a new module.
func helloJob(t *testing.T) buildJob {
	t.Helper()
	source := t.TempDir()
	writeFiles(t, source, map[string]string{
		"go.mod":  "module example.com/hello\n\ngo 1.26.0\n",
		"go.sum":  "",
		"main.go": "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.com/hello/text\"\n)\n\nfunc main() { fmt.Println(text.Hello) }\n",
		// The folder has a new name in each run, so that the package is not in the build cache.
		"text/text.go": "package text\n\nconst Hello = " + `"` + source + `"` + "\n",
	})
	return buildJob{dir: source, packages: []string{"example.com/hello"}, output: t.TempDir()}
}

func TestProcessesThatCallTogetherBuildOnce(t *testing.T) {
	g := helloJob(t)
	dir := filepath.Join(t.TempDir(), "programs")
	var mu sync.Mutex
	built := 0
	var calls sync.WaitGroup
	for i := range 4 {
		calls.Go(func() {
			err := fillFolder(t.Context(), dir, new(bytes.Buffer), func(unfinished string) error {
				mu.Lock()
				built++
				mu.Unlock()
				mine := g
				mine.output = unfinished
				return build(t.Context(), new(bytes.Buffer), mine)
			})
			if err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "hello")); err != nil {
				t.Errorf("call %d returned before the program existed: %v", i, err)
			}
		})
	}
	calls.Wait()
	if built != 1 {
		t.Errorf("built %d times, want once", built)
	}
}

func TestFailedBuildIsNotKept(t *testing.T) {
	g := helloJob(t)
	g.packages = []string{"example.com/hello/missing"}
	dir := filepath.Join(t.TempDir(), "programs")
	err := fillFolder(t.Context(), dir, new(bytes.Buffer), func(string) error { return build(t.Context(), new(bytes.Buffer), g) })
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got error %v, want the go command's message about the missing package", err)
	}
	if isDir(dir) {
		t.Error("the folder of the programs exists although the build failed")
	}
}

func TestBuildLockWaitsNoLongerThanItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var log bytes.Buffer
	unlock, err := lockFile(t.Context(), path, &log)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockFile(ctx, path, &log); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	if !strings.Contains(log.String(), "waiting for another process") {
		t.Errorf("log is %q: it does not name the lock", log.String())
	}
}

func TestCacheKeyChangesWithTheModule(t *testing.T) {
	source := helloJob(t).dir
	key := func() string {
		t.Helper()
		key, err := cacheKey(source)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	seen := map[string]string{key(): "nothing"}
	for name, text := range map[string]string{"go.mod": "module example.com/hello\n", "go.sum": "# other\n"} {
		writeFiles(t, source, map[string]string{name: text})
		if other, ok := seen[key()]; ok {
			t.Errorf("changes of %s and of %s give the same key", name, other)
		}
		seen[key()] = name
	}
}

func TestKubernetesVersionIsReadFromGoMod(t *testing.T) {
	for name, test := range map[string]struct{ goMod, want string }{
		"in a block":     {"require (\n\tk8s.io/kubernetes v1.37.2\n)\n", "v1.37.2"},
		"not a tool":     {"tool k8s.io/kubernetes/cmd/kubectl\n\nrequire (\n\tk8s.io/kubernetes v1.40.0-rc.1\n)\n", "v1.40.0-rc.1"},
		"none":           {"require (\n\tk8s.io/api v0.37.2\n)\n", ""},
		"only a comment": {"// k8s.io/kubernetes v1.2.3\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, map[string]string{"go.mod": test.goMod})
			got, err := kubernetesVersion(dir)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestLinkerFlagsSetKubernetesVersion(t *testing.T) {
	for _, want := range []string{"gitVersion=v1.37.2", "gitMajor=1", "gitMinor=37"} {
		if flags := versionFlags("v1.37.2"); !strings.Contains(flags+" ", want+" ") {
			t.Errorf("ldflags %q do not set %s", flags, want)
		}
	}
}

// TestBuildUsesGoFlagsOfMakefile: with other flags, packages that the product and the control plane share would be
// compiled twice.
func TestBuildUsesGoFlagsOfMakefile(t *testing.T) {
	root, err := Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(makefile), "export GOFLAGS     ?= ")
	flags, _, found := strings.Cut(after, "\n")
	if want := "GOFLAGS=-mod=readonly " + flags + " -buildvcs=false"; !found || !slices.Contains(buildEnv(), want) {
		t.Errorf("programs are built with %q, the Makefile's flags are %q", buildEnv(), flags)
	}
}

// TestPackagesToCompileAreListed checks that packages are listed before a build, and not after it.
func TestPackagesToCompileAreListed(t *testing.T) {
	g := helloJob(t)
	left := func() map[string]int64 {
		t.Helper()
		work, err := packagesToCompile(t.Context(), new(bytes.Buffer), []buildJob{g})
		if err != nil {
			t.Fatal(err)
		}
		return work
	}
	before := left()
	if before["example.com/hello"] == 0 || before["example.com/hello/text"] == 0 {
		t.Errorf("packages to compile are %v, want both packages of the module", before)
	}
	var log bytes.Buffer
	if err := build(t.Context(), &log, g); err != nil {
		t.Fatal(err)
	}
	if after := left(); after["example.com/hello/text"] != 0 {
		t.Errorf("packages to compile after the build are %v, want none", after)
	}
	if !strings.Contains(log.String(), "packages from source, once") {
		t.Errorf("log %q does not announce the work", log.String())
	}
}

func TestProgressShowsCompiledPackagesAndTimeLeft(t *testing.T) {
	work := map[string]int64{"a": 100, "b": 100, "c": 200}
	for name, test := range map[string]struct {
		work     map[string]int64
		compiled []string
		elapsed  time.Duration
		want     string
	}{
		"nothing yet":       {work, nil, time.Minute, ""},
		"too early to tell": {work, []string{"a"}, time.Second, "compiling: 1 of 3 packages"},
		"by source, not by count": {
			work, []string{"a"}, time.Minute, "compiling: 1 of 3 packages, about 3 min left",
		},
		"soon":    {work, []string{"a", "c"}, time.Minute, "compiling: 2 of 3 packages, less than 1 min left"},
		"linking": {work, []string{"a", "b", "c"}, time.Minute, "compiling: 3 of 3 packages, linking"},
		"unknown": {work, []string{"d"}, time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProgress(new(bytes.Buffer), "compiling", test.work)
			defer p.stop()
			for _, line := range test.compiled {
				p.noteCompiled(line)
			}
			if got := p.text(test.elapsed); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if got := thousands(1234567); got != "1,234,567" {
		t.Errorf("got %s", got)
	}
}
