package programs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// buildJob is one run of go build: its directory, its flags and what it builds.
type buildJob struct {
	dir      string // of the module
	ldflags  string
	packages []string
	output   string // the folder that gets the programs
}

// buildEnv returns the environment of a build. It overrides the caller's workspace, flags and cross-compilation settings. CGO_ENABLED,
// -trimpath and -gcflags are the same as in the Makefile, so that packages that the product and the control plane share are compiled
// once.
func buildEnv() []string {
	return []string{
		"GOWORK=off", "CGO_ENABLED=0", "GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH,
		"GOFLAGS=-mod=readonly -trimpath -gcflags=all=-dwarf=false -buildvcs=false",
	}
}

func (g buildJob) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append(args, g.packages...)...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), buildEnv()...)
	return cmd
}

// build runs the jobs one after another, and shows one progress for all.
func build(ctx context.Context, log io.Writer, jobs ...buildJob) error {
	work, err := packagesToCompile(ctx, log, jobs)
	if err != nil {
		return err
	}
	if len(work) > 0 {
		fmt.Fprintf(log, "Compiling %s packages from source, once. All %s of them take about %s of CPU time and up to %s of memory.\n",
			thousands(len(work)), "2,900", "13 to 20 minutes", "3 GB")
	}
	progress := startProgress(log, "compiling", work)
	defer progress.stop()
	for _, g := range jobs {
		cmd := g.command(ctx, "build", "-v", "-ldflags="+g.ldflags, "-o", g.output+string(filepath.Separator))
		if err := runWithProgress(cmd, progress.noteCompiled); err != nil {
			return err
		}
	}
	return nil
}

// Plugin builds kubectl-nodeupgrade from this repository and returns its path. If nothing has changed since the last call of any
// process, it takes a second.
//
// Errors: the repository is not found, ctx ended, or go build failed. The last one contains the output of go build.
func Plugin(ctx context.Context) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	output := filepath.Join(root, Output)
	if err := os.MkdirAll(output, 0o755); err != nil {
		return "", fmt.Errorf("creating the folder of the plugin: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(output, "lock"), io.Discard)
	if err != nil {
		return "", err
	}
	defer unlock()
	g := buildJob{dir: root, packages: []string{"./cmd/kubectl-nodeupgrade"}}
	cmd := g.command(ctx, "build", "-o", output+string(filepath.Separator))
	if err := runWithProgress(cmd, func(string) bool { return false }); err != nil {
		return "", err
	}
	return filepath.Join(output, "kubectl-nodeupgrade"), nil
}

// Output is the repository's folder for programs that are built for tests and demos.
const Output = "bin/test"

// packagesToCompile downloads the modules of all jobs in parallel. It returns the packages that go build will compile, with the sizes
// of their sources in bytes.
func packagesToCompile(ctx context.Context, log io.Writer, jobs []buildJob) (map[string]int64, error) {
	downloads := startProgress(log, "downloading modules", nil)
	defer downloads.stop()
	works, errs := make([]map[string]int64, len(jobs)), make([]error, len(jobs))
	var lists sync.WaitGroup
	for i, g := range jobs {
		lists.Go(func() { works[i], errs[i] = g.packagesToCompile(ctx, downloads) })
	}
	lists.Wait()
	all := map[string]int64{}
	for _, work := range works {
		maps.Copy(all, work)
	}
	return all, errors.Join(errs...)
}

func (g buildJob) packagesToCompile(ctx context.Context, downloads *progress) (map[string]int64, error) {
	// go list also calls a package stale that is in the build cache and not installed.
	const format = `{{if and .Stale (ne .StaleReason "not installed but available in build cache")}}` +
		`{{.ImportPath}}{{"\t"}}{{.Dir}}{{"\t"}}{{join .GoFiles "\t"}}{{end}}`
	var list bytes.Buffer
	cmd := g.command(ctx, "list", "-deps", "-f", format)
	cmd.Stdout = &list
	if err := runWithProgress(cmd, downloads.noteDownloaded); err != nil {
		return nil, err
	}
	work := map[string]int64{}
	for line := range strings.Lines(list.String()) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		var size int64
		for _, file := range fields[min(2, len(fields)):] {
			if info, err := os.Stat(filepath.Join(fields[1], file)); err == nil {
				size += info.Size()
			}
		}
		if size > 0 {
			work[fields[0]] = size
		}
	}
	return work, nil
}

// runWithProgress runs the command and passes each line of its stderr to read. read returns true if the line shows progress. All other
// lines are added to the error if the command fails.
func runWithProgress(cmd *exec.Cmd, read func(line string) bool) error {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("running go: %w: install Go and put it on the PATH", err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !read(lines.Text()) {
			said.WriteString(lines.Text() + "\n")
		}
	}
	_, _ = io.Copy(io.Discard, stderr) // after a line that is too long
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("running %s in %s: %w\n%s", strings.Join(cmd.Args, " "), cmd.Dir, err, said.String())
	}
	return nil
}

// progress shows the progress of a task. On a terminal it overwrites one line. Elsewhere it writes one line a minute.
type progress struct {
	log      io.Writer
	what     string
	terminal bool
	start    time.Time
	done     chan struct{}
	ended    sync.WaitGroup

	mu             sync.Mutex
	work           map[string]int64 // bytes of source by package
	packages       int              // compiled packages, or downloaded modules
	bytes, ofBytes int64
	shown          bool
}

// startProgress shows the progress of a task until stop is called. work is nil if the amount of work is not known.
func startProgress(log io.Writer, what string, work map[string]int64) *progress {
	p := &progress{log: log, what: what, terminal: isTerminal(log), start: time.Now(), done: make(chan struct{}), work: work}
	for _, size := range work {
		p.ofBytes += size
	}
	interval := time.Minute
	if p.terminal {
		interval = 250 * time.Millisecond
	}
	p.ended.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-tick.C:
				p.show(time.Since(p.start))
			}
		}
	})
	return p
}

// stop ends the display and waits until nothing writes to log any more.
func (p *progress) stop() {
	close(p.done)
	p.ended.Wait()
	if p.terminal && p.shown {
		fmt.Fprint(p.log, "\r\x1b[K")
	}
}

// noteCompiled counts a package. It returns false if the line of go build -v names no package to compile.
func (p *progress) noteCompiled(line string) (counted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size, known := p.work[line]
	if !known {
		return false
	}
	p.packages++
	p.bytes += size
	return true
}

// noteDownloaded counts a module. It returns false if the line of the go command names no download.
func (p *progress) noteDownloaded(line string) (counted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.HasPrefix(line, "go: downloading ") {
		return false
	}
	p.packages++
	return true
}

func (p *progress) show(elapsed time.Duration) {
	p.mu.Lock()
	text := p.text(elapsed)
	p.shown = p.shown || text != ""
	p.mu.Unlock()
	switch {
	case text == "":
	case p.terminal:
		fmt.Fprintf(p.log, "\r\x1b[K  %s", text)
	default:
		fmt.Fprintf(p.log, "  %s\n", text)
	}
}

// text returns "compiling: 1,204 of 2,699 packages, about 4 min left", or "" before the first package.
func (p *progress) text(elapsed time.Duration) string {
	if p.packages == 0 {
		return ""
	}
	if p.ofBytes == 0 {
		return fmt.Sprintf("%s: %s", p.what, thousands(p.packages))
	}
	text := fmt.Sprintf("%s: %s of %s packages", p.what, thousands(p.packages), thousands(len(p.work)))
	switch left := time.Duration(float64(elapsed) * float64(p.ofBytes-p.bytes) / float64(max(p.bytes, 1))); {
	case p.packages == len(p.work):
		return text + ", linking"
	case elapsed < 10*time.Second: // too early to tell
		return text
	case left < time.Minute:
		return text + ", less than 1 min left"
	default:
		return fmt.Sprintf("%s, about %d min left", text, int(left.Minutes()+0.5))
	}
}

// thousands writes 2699 as "2,699".
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
