package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// reading is a benchmark of reading a large cluster: a plan for a few nodes reads the whole cluster, and kubectl reads it for comparison.
type reading struct {
	// name is matched against -run.
	name  string
	nodes int
	rival string
	// timeShare and memoryShare are the targets for the plan's time and memory, relative to the rival's. mib is the target for the
	// plan's memory in MiB. 0 means no target.
	timeShare, memoryShare float64
	mib                    int
	// heavy is true if the reading runs only with -all.
	heavy bool
}

func allReadings() []reading {
	return []reading{
		{name: "read-30000", nodes: 1000, rival: "kubectl get nodes,pods,pdb -A -o json", timeShare: 0.06, memoryShare: 0.04},
		{name: "read-150000", nodes: 5000, rival: "kubectl get --raw /api/v1/pods", timeShare: 0.7, mib: 650, heavy: true},
	}
}

// planCommand plans an upgrade. planWithoutForecast only reads the cluster for the plan, and does not simulate.
const (
	planCommand         = "kubectl nodeupgrade -l pool=bench --current image=new --dry-run"
	planWithoutForecast = planCommand + " --forecast=false"
	// checkCommand checks all nodes. readerCommand only reads the same objects.
	checkCommand  = "kubectl nodeupgrade check -l kubernetes.io/os=linux --current image=new --fail-on=never"
	readerCommand = "kubectl benchreader"
	// checkTimeShare and checkMemoryShare are the targets for checkCommand, relative to readerCommand.
	checkTimeShare, checkMemoryShare = 1.3, 1.5
)

// read is the measurement of one way to read a cluster.
type read struct {
	way string
	ended
	requests
	// received is the size of the API server's answers to lists, in bytes. The size of compressed answers is the compressed size.
	received int64
}

func (b *bench) runReadings(ctx context.Context) error {
	for _, r := range allReadings() {
		if !b.run.MatchString(r.name) || (r.heavy && !b.all) {
			continue
		}
		reads, err := b.measureReading(ctx, &r)
		if err != nil {
			return fmt.Errorf("measuring %q: %w", r.name, err)
		}
		if err := r.write(os.Stdout, reads); err != nil {
			return err
		}
	}
	return nil
}

// measureReading measures all ways on one control plane. Of several runs of a way, it returns the one with the median time.
func (b *bench) measureReading(ctx context.Context, r *reading) ([]read, error) {
	s, err := fixture.New(ctx, fixture.Options{Log: os.Stderr, Cluster: controlplane.Options{OnlyAPIServer: true, Seed: newLargeCluster(r.nodes).seedObjects}})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := awaitWatchCache(ctx, s); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(s.Dir, "kubectl-benchreader"), "./test/bench/reader").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the reader: %w: %s", err, out)
	}
	ways := []string{planWithoutForecast, planCommand, checkCommand, readerCommand}
	if !b.alone {
		ways = append(ways, r.rival)
	}
	var reads []read
	for _, way := range ways {
		var runs []read
		for range b.runs {
			one, err := measureRead(ctx, s, way)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", way, err)
			}
			runs = append(runs, one)
		}
		slices.SortFunc(runs, func(x, y read) int { return cmp.Compare(x.took, y.took) })
		reads = append(reads, runs[len(runs)/2])
	}
	return reads, nil
}

// awaitWatchCache waits until the API server answers lists of pods from its watch cache. The API server fills this cache only after it is
// ready.
func awaitWatchCache(ctx context.Context, s *fixture.Fixture) error {
	pods := s.Cluster.Client().CoreV1().RESTClient()
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, fixture.StartupLimit, true, func(ctx context.Context) (bool, error) {
		var code int
		err := pods.Get().Resource("pods").Param("resourceVersion", "0").Param("labelSelector", "none=such").MaxRetries(0).Do(ctx).StatusCode(&code).Error()
		return err == nil && code == 200, nil
	})
}

func measureRead(ctx context.Context, s *fixture.Fixture, way string) (read, error) {
	r := read{way: way}
	before, err := listBytes(ctx, s)
	if err != nil {
		return r, err
	}
	began := time.Now()
	if r.ended, err = measureInSmallProcess(ctx, s, way); err != nil {
		return r, err
	}
	if r.code != 0 {
		return r, fmt.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
	if r.requests, err = countRequests(ctx, s, began); err != nil {
		return r, err
	}
	after, err := listBytes(ctx, s)
	r.received = after - before
	return r, err
}

// measureInSmallProcess is like measureCommand, but starts the line from command apart, so that this program's memory does not count.
func measureInSmallProcess(ctx context.Context, s *fixture.Fixture, line string) (ended, error) {
	dir, err := os.MkdirTemp("", "nodeupgrade-bench-")
	if err != nil {
		return ended{}, err
	}
	defer os.RemoveAll(dir)
	apart, figures := filepath.Join(dir, "apart"), filepath.Join(dir, "figures")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", apart, "./test/bench/apart").CombinedOutput(); err != nil {
		return ended{}, fmt.Errorf("building command apart: %w: %s", err, out)
	}
	e, err := measureCommand(ctx, s, apart+" "+figures+" "+line+" > /dev/null")
	if err != nil || e.code != 0 {
		return e, err
	}
	text, err := os.ReadFile(figures)
	if err != nil {
		return e, err
	}
	var f struct {
		Took, CPU time.Duration
		MiB       int
	}
	err = json.Unmarshal(text, &f)
	e.took, e.cpu, e.mib = f.Took, f.CPU, f.MiB
	return e, err
}

// answerSize matches a metric of the API server: the total size of its answers about a resource.
var answerSize = regexp.MustCompile(`(?m)^apiserver_response_sizes_sum\{(.*)\} (\S+)$`)

// listBytes returns the total size of the API server's answers to lists so far.
func listBytes(ctx context.Context, s *fixture.Fixture) (int64, error) {
	metrics, err := s.Cluster.Client().CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	sum := 0.0
	for _, m := range answerSize.FindAllSubmatch(metrics, -1) {
		if !strings.Contains(string(m[1]), `verb="LIST"`) {
			continue
		}
		n, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return 0, fmt.Errorf("reading the API server's metrics: %w", err)
		}
		sum += n
	}
	return int64(sum), nil
}

// write writes the measurements and the targets. The targets for plans apply to planWithoutForecast, which is the first way.
func (r *reading) write(w io.Writer, reads []read) error {
	fmt.Fprintf(w, "\n%s: %d nodes, %d pods, read by a plan for %d nodes and by a check of all\n\n", r.name, r.nodes, newLargeCluster(r.nodes).pods(), nodesOfGroup)
	var rows [][]string
	for i := range reads {
		m := &reads[i]
		rows = append(rows, []string{
			fmt.Sprintf("%d %s", i+1, m.way), fmt.Sprintf("%.2fs", m.took.Seconds()), fmt.Sprintf("%.2fs", m.cpu.Seconds()), strconv.Itoa(m.mib),
			strconv.Itoa(m.get), strconv.Itoa(m.list), strconv.Itoa(m.watch), strconv.Itoa(m.write), fmt.Sprintf("%.1f", float64(m.received)/(1<<20)),
		})
	}
	if err := report.WriteTable(w, report.Plain, []string{"WAY", "TIME", "CPU", "PEAK-MIB", "GET", "LIST", "WATCH", "WRITE", "RECEIVED-MIB"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return report.WriteTable(w, report.Plain, targetHeader(), r.targetRows(reads))
}

// findWay returns the measurement of a way, or nil if there is none.
func findWay(reads []read, way string) *read {
	i := slices.IndexFunc(reads, func(r read) bool { return r.way == way })
	if i < 0 {
		return nil
	}
	return &reads[i]
}

func (r *reading) targetRows(reads []read) [][]string {
	ours, rival := &reads[0], &reads[len(reads)-1]
	known := rival.way == r.rival
	var rows [][]string
	add := func(what string, most, value float64, known bool) {
		if most > 0 {
			rows = append(rows, targetRow(what, most, value, known))
		}
	}
	add("time to "+r.rival, r.timeShare, ours.took.Seconds()/rival.took.Seconds(), known)
	add("memory to "+r.rival, r.memoryShare, float64(ours.mib)/float64(rival.mib), known)
	if checked, readAlone := findWay(reads, checkCommand), findWay(reads, readerCommand); checked != nil && readAlone != nil {
		add("time of check to reading alone", checkTimeShare, checked.took.Seconds()/readAlone.took.Seconds(), true)
		add("memory of check to reading alone", checkMemoryShare, float64(checked.mib)/float64(readAlone.mib), true)
	}
	add("memory in MiB", float64(r.mib), float64(ours.mib), true)
	return rows
}
