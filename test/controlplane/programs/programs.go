// Package programs builds or downloads the programs of the test control plane: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubectl and kwok. It builds them from the modules that test/controlplane/kubernetes/go.mod pins. It downloads
// them only if the user asks for it.
//
// The package imports only the standard library, because the command that shows the progress of the build must itself compile
// within seconds.
package programs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Set is a folder with all programs of a control plane.
type Set struct {
	Dir     string
	Version string // of Kubernetes, "v1.37.2"
}

// Path returns the path of a program: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl or kwok.
func (s Set) Path(name string) string { return filepath.Join(s.Dir, name) }

// mainPackages lists the main packages. Only etcd's path does not end in the program's name.
func mainPackages() []string {
	return []string{
		etcdPackage,
		"k8s.io/kubernetes/cmd/kube-apiserver",
		"k8s.io/kubernetes/cmd/kube-controller-manager",
		"k8s.io/kubernetes/cmd/kube-scheduler",
		"k8s.io/kubernetes/cmd/kubectl",
		"sigs.k8s.io/kwok/cmd/kwok",
	}
}

const (
	etcdPackage = "go.etcd.io/etcd/server/v3"
	etcdBuilt   = "server" // the name that go build gives to etcd
)

// programNames lists the files of a complete set.
func programNames() []string {
	files := []string{"etcd"}
	for _, p := range mainPackages() {
		if p != etcdPackage {
			files = append(files, path.Base(p))
		}
	}
	return files
}

// Get returns the programs. The first call on a machine builds them into the user's cache folder, which takes minutes. Later calls
// return within milliseconds. If NODEUPGRADE_DOWNLOAD is 1, the first call downloads the files that pins.json lists, and builds only
// if that fails. If several processes call Get at the same time, only one builds. Get writes its progress to log, which may be nil.
//
// Errors: the repository or the cache folder is not found, ctx ended, or go build failed. The last one contains the output of go
// build.
func Get(ctx context.Context, log io.Writer) (Set, error) {
	if log == nil {
		log = io.Discard
	}
	return buildOrDownload(ctx, log)
}

// GetWith does what [Get] does, and also builds packages of this repository, such as ./test/demo, into [Output]. It shows one
// progress for both.
func GetWith(ctx context.Context, log io.Writer, packages ...string) (Set, error) {
	root, err := Root(ctx)
	if err != nil {
		return Set{}, err
	}
	return buildOrDownload(ctx, log, buildJob{dir: root, packages: packages, output: Output})
}

func buildOrDownload(ctx context.Context, log io.Writer, also ...buildJob) (Set, error) {
	root, err := Root(ctx)
	if err != nil {
		return Set{}, err
	}
	module := filepath.Join(root, "test", "controlplane", "kubernetes")
	version, err := kubernetesVersion(module)
	if err != nil {
		return Set{}, err
	}
	key, err := cacheKey(module)
	if err != nil {
		return Set{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Set{}, fmt.Errorf("looking for the cache folder: %w: set HOME or XDG_CACHE_HOME", err)
	}
	set := Set{Dir: filepath.Join(cache, "kubectl-nodeupgrade", key), Version: version}
	err = fillFolder(ctx, set.Dir, log, func(dir string) error {
		control := buildJob{dir: module, ldflags: versionFlags(version), packages: mainPackages(), output: dir}
		if os.Getenv("NODEUPGRADE_DOWNLOAD") == "1" {
			return downloadOrBuild(ctx, pinnedFiles(version), set.Dir+".parts", log, control)
		}
		jobs := append([]buildJob{control}, also...)
		also = nil // these jobs are built with the control plane
		return build(ctx, log, jobs...)
	})
	if err == nil && len(also) > 0 {
		err = build(ctx, log, also...)
	}
	return set, err
}

// downloadOrBuild downloads the files into the job's output folder, and runs the job if that fails.
func downloadOrBuild(ctx context.Context, files []pin, parts string, log io.Writer, g buildJob) error {
	err := downloadAll(ctx, files, parts, g.output, log)
	if err == nil || ctx.Err() != nil {
		return err
	}
	fmt.Fprintf(log, "%v\nbuilding the control plane instead\n", err)
	return build(ctx, log, g)
}

// fillFolder creates the folder and calls put to fill it, unless the folder exists. put fills a folder with another name, which is
// renamed after put has returned nil. An existing folder is therefore complete. Only one process at a time fills the folder, and
// others wait.
func fillFolder(ctx context.Context, dir string, log io.Writer, put func(dir string) error) error {
	if isDir(dir) {
		return nil
	}
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
	// A killed process may have left the folder.
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("emptying the build folder: %w", err)
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return fmt.Errorf("creating the build folder: %w", err)
	}
	if err := put(unfinished); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(unfinished, etcdBuilt), filepath.Join(unfinished, "etcd")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("naming etcd: %w", err)
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return fmt.Errorf("moving the programs into place: %w", err)
	}
	fmt.Fprintf(log, "control plane: programs ready in %s after %s\n", dir, time.Since(start).Round(time.Second))
	return nil
}

// versionFlags returns the linker flags that set the version of the programs. Without them, clients cannot parse the version that the
// server reports.
func versionFlags(version string) string {
	const variable = " -X k8s.io/component-base/version."
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return "-s -w" + variable + "gitVersion=" + version + variable + "gitMajor=" + parts[0] + variable + "gitMinor=" + parts[1]
}

// kubernetesVersion reads the version that the nested module requires.
func kubernetesVersion(module string) (string, error) {
	file := filepath.Join(module, "go.mod")
	goMod, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the version of Kubernetes: %w", err)
	}
	match := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\d+\.\d+\.\S+)`).FindSubmatch(goMod)
	if match == nil {
		return "", fmt.Errorf("reading the version of Kubernetes: %s requires none", file)
	}
	return string(match[1]), nil
}

// cacheKey returns a key for a set of programs. It depends on the modules, the flags and the compiler.
func cacheKey(module string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildEnv(), mainPackages())
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("reading the modules of the control plane: %w", err)
		}
		h.Write(data)
	}
	return "controlplane-" + hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// Root returns the top folder of the repository that contains the working directory, which may be in a nested module.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("running go env GOMOD: %w: install Go and put it on the PATH", err)
	}
	module := filepath.Dir(strings.TrimSpace(string(out)))
	for root := module; ; root = filepath.Dir(root) {
		if isDir(filepath.Join(root, "test", "controlplane", "kubernetes")) {
			return root, nil
		}
		if root == filepath.Dir(root) {
			return "", fmt.Errorf("looking for test/controlplane in %q and above: no such folder: run the command in the repository", module)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
