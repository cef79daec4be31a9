package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Binaries are the programs of a control plane.
type Binaries struct {
	Dir     string // holds the programs, by their own names
	Version string // of Kubernetes, "v1.36.3"
}

func (b Binaries) path(name string) string { return filepath.Join(b.Dir, name) }

// Kubectl is the path of a kubectl of the control plane's version.
func (b Binaries) Kubectl() string { return b.path("kubectl") }

// Build compiles etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok into the user's cache
// folder, unless a former call did: then it returns within milliseconds. Processes that call it together build once.
// Progress goes to log, which may be nil.
//
// Errors: this package's folder or the cache folder is not found, ctx ended, or a "go build" failed, with its output.
func Build(ctx context.Context, log io.Writer) (Binaries, error) {
	if log == nil {
		log = io.Discard
	}
	source, err := sourceDir(ctx)
	if err != nil {
		return Binaries{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Binaries{}, fmt.Errorf("looking for the cache folder: %w: set HOME or XDG_CACHE_HOME", err)
	}
	version, err := kubernetesVersion(source)
	if err != nil {
		return Binaries{}, err
	}
	builds := goBuilds(version)
	key, err := cacheKey(source, builds)
	if err != nil {
		return Binaries{}, err
	}
	bin := Binaries{Dir: filepath.Join(cache, "kubectl-nodeupgrade", key), Version: version}
	// The folder appears by a rename once everything in it is built, so that it is its own stamp.
	if isDir(bin.Dir) {
		return bin, nil
	}
	return bin, buildOnce(ctx, source, bin.Dir, builds, log)
}

// buildOnce builds the programs into dir, or waits until the process that is building them is done.
func buildOnce(ctx context.Context, source, dir string, builds []goBuild, log io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("creating the cache folder: %w", err)
	}
	unlock, err := lockFile(ctx, dir+".lock", log)
	if err != nil {
		return err
	}
	defer unlock()
	if isDir(dir) {
		return nil
	}
	start, unfinished := time.Now(), dir+".unfinished"
	// What is there is left from a build that was killed.
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("emptying the build folder: %w", err)
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return fmt.Errorf("creating the build folder: %w", err)
	}
	for _, b := range builds {
		if err := b.run(ctx, source, unfinished, log); err != nil {
			return err
		}
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return fmt.Errorf("moving the programs into place: %w", err)
	}
	fmt.Fprintf(log, "control plane: built into %s in %s\n", dir, time.Since(start).Round(time.Second))
	return nil
}

// goBuild is one "go build" in a nested module.
type goBuild struct {
	module   string // its folder below this package's
	output   string // the program's name, or "" where the package paths end in it
	ldflags  string
	packages []string
}

// goBuilds stamps the version into the programs: without it, clients cannot parse what the server says its version is.
func goBuilds(version string) []goBuild {
	const variable = " -X k8s.io/component-base/version."
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	stamp := variable + "gitVersion=" + version + variable + "gitMajor=" + parts[0] + variable + "gitMinor=" + parts[1]
	return []goBuild{
		{module: "etcd", output: "etcd", ldflags: "-s -w", packages: []string{"go.etcd.io/etcd/server/v3"}},
		{module: "kubernetes", ldflags: "-s -w" + stamp, packages: []string{
			"k8s.io/kubernetes/cmd/kube-apiserver",
			"k8s.io/kubernetes/cmd/kube-controller-manager",
			"k8s.io/kubernetes/cmd/kube-scheduler",
			"k8s.io/kubernetes/cmd/kubectl",
			"sigs.k8s.io/kwok/cmd/kwok",
		}},
	}
}

func (b goBuild) run(ctx context.Context, source, dir string, log io.Writer) error {
	fmt.Fprintf(log, "control plane: building %s (minutes, the first time)\n", strings.Join(b.packages, " "))
	args := []string{"build", "-ldflags=" + b.ldflags, "-o", filepath.Join(dir, b.output)}
	cmd := exec.CommandContext(ctx, "go", append(args, b.packages...)...)
	cmd.Dir = filepath.Join(source, b.module)
	cmd.Env = append(os.Environ(), buildEnv()...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s in %s: %w\n%s", strings.Join(b.packages, " "), cmd.Dir, err, out)
	}
	return nil
}

// buildEnv shields the build from the caller's workspace, flags and cross-compilation settings.
func buildEnv() []string {
	return []string{
		"GOWORK=off", "CGO_ENABLED=0", "GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH,
		"GOFLAGS=-mod=readonly -trimpath -buildvcs=false",
	}
}

// kubernetesVersion reads the version that the nested module requires.
func kubernetesVersion(source string) (string, error) {
	path := filepath.Join(source, "kubernetes", "go.mod")
	goMod, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the version of Kubernetes: %w", err)
	}
	match := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\d+\.\d+\.\S+)`).FindSubmatch(goMod)
	if match == nil {
		return "", fmt.Errorf("reading the version of Kubernetes: %s requires none", path)
	}
	return string(match[1]), nil
}

// cacheKey names a set of programs: what they are built from, how, by which compiler and for what.
func cacheKey(source string, builds []goBuild) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), buildEnv(), builds)
	for _, b := range builds {
		for _, name := range []string{"go.mod", "go.sum"} {
			data, err := os.ReadFile(filepath.Join(source, b.module, name))
			if err != nil {
				return "", fmt.Errorf("reading the module of %s: %w", b.module, err)
			}
			h.Write(data)
		}
	}
	return "controlplane-" + hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// sourceDir finds this package's folder: from the compiler's record of where it read this file, or, in a binary built
// with -trimpath, from the module around the working directory.
func sourceDir(ctx context.Context) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if ok && isDir(filepath.Join(filepath.Dir(file), "kubernetes")) {
		return filepath.Dir(file), nil
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("running go env GOMOD: %w: install Go and put it on the PATH", err)
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "test", "controlplane")
	if !isDir(filepath.Join(dir, "kubernetes")) {
		return "", fmt.Errorf("looking for the modules of the control plane in %s: not there: run this inside the repository", dir)
	}
	return dir, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
