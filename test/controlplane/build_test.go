package controlplane

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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

// helloModule is a folder with a module of one small program.
func helloModule(t *testing.T) (source string, builds []goBuild) {
	t.Helper()
	source = t.TempDir()
	writeFiles(t, source, map[string]string{
		"hello/go.mod":  "module example.com/hello\n\ngo 1.26.0\n",
		"hello/go.sum":  "",
		"hello/main.go": "package main\n\nfunc main() {}\n",
	})
	return source, []goBuild{{module: "hello", output: "hi", packages: []string{"example.com/hello"}}}
}

func TestCallsTogetherBuildOnce(t *testing.T) {
	source, builds := helloModule(t)
	dir := filepath.Join(t.TempDir(), "programs")
	var logs [4]bytes.Buffer
	var calls sync.WaitGroup
	for i := range logs {
		calls.Go(func() {
			if err := buildOnce(t.Context(), source, dir, builds, &logs[i]); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "hi")); err != nil {
				t.Errorf("call %d returned before the program was there: %v", i, err)
			}
		})
	}
	calls.Wait()
	built := 0
	for i := range logs {
		built += strings.Count(logs[i].String(), "building example.com/hello")
	}
	if built != 1 {
		t.Errorf("built %d times, want once", built)
	}
}

func TestFailedBuildIsNotKept(t *testing.T) {
	source, builds := helloModule(t)
	dir := filepath.Join(t.TempDir(), "programs")
	builds[0].packages = []string{"example.com/hello/missing"}
	err := buildOnce(t.Context(), source, dir, builds, new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got error %v, want the go command's word on the missing package", err)
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
		t.Errorf("log is %q: it does not say what was waited for", log.String())
	}
}

func TestCacheKeyChangesWith(t *testing.T) {
	source, builds := helloModule(t)
	key := func() string {
		t.Helper()
		key, err := cacheKey(source, builds)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	seen := map[string]string{key(): "nothing"}
	for _, change := range []struct {
		what string
		do   func()
	}{
		{"go.mod", func() { writeFiles(t, source, map[string]string{"hello/go.mod": "module example.com/hello\n"}) }},
		{"go.sum", func() { writeFiles(t, source, map[string]string{"hello/go.sum": "# other\n"}) }},
		{"the linker's flags", func() { builds[0].ldflags = "-s" }},
	} {
		before := key()
		change.do()
		if key() == before {
			t.Errorf("the key is the same after a change of %s", change.what)
		}
		if other, ok := seen[key()]; ok {
			t.Errorf("the key after a change of %s is the one after a change of %s", change.what, other)
		}
		seen[key()] = change.what
	}
}

func TestKubernetesVersion(t *testing.T) {
	for name, test := range map[string]struct{ goMod, want string }{
		"in a block":     {"require (\n\tk8s.io/kubernetes v1.36.3\n)\n", "v1.36.3"},
		"not a tool":     {"tool k8s.io/kubernetes/cmd/kubectl\n\nrequire (\n\tk8s.io/kubernetes v1.40.0-rc.1\n)\n", "v1.40.0-rc.1"},
		"none":           {"require (\n\tk8s.io/api v0.36.3\n)\n", ""},
		"only a comment": {"// k8s.io/kubernetes v1.2.3\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, map[string]string{"kubernetes/go.mod": test.goMod})
			got, err := kubernetesVersion(dir)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestVersionIsStamped(t *testing.T) {
	for _, b := range goBuilds("v1.36.3") {
		if b.module != "kubernetes" {
			continue
		}
		for _, want := range []string{"gitVersion=v1.36.3", "gitMajor=1", "gitMinor=36"} {
			if !strings.Contains(b.ldflags+" ", want+" ") {
				t.Errorf("ldflags %q do not set %s", b.ldflags, want)
			}
		}
	}
}

// BenchmarkBuildWarm measures what every test pays once the programs are built.
func BenchmarkBuildWarm(b *testing.B) {
	if testing.Short() {
		b.Skip("skipping: -short builds no control plane")
	}
	if _, err := Build(b.Context(), b.Output()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Build(b.Context(), b.Output()); err != nil {
			b.Fatal(err)
		}
	}
}
