package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/html"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

// filesIn returns the names of the files in a directory.
func filesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// readReport reads a JSON report and checks it against its schema.
func readReport(t *testing.T, file string) *report.RunReport {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := contract.Validate(string(text)); err != nil {
		t.Error(err)
	}
	r := &report.RunReport{}
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSimulateWritesReportInEachFormat compares the report of the built-in example with the output of the same simulation.
func TestSimulateWritesReportInEachFormat(t *testing.T) {
	dir := t.TempDir()
	plain, _, _ := simulated(t, "")
	for _, ending := range reportEndings {
		stdout, stderr, code := simulated(t, "", "--report="+filepath.Join(dir, "r."+ending))
		if code != exitDone || stdout != plain || !strings.Contains(stderr, "note: the report is in ") {
			t.Errorf("%s: exit code %d, stderr %q, stdout as without a report: %t", ending, code, stderr, stdout == plain)
		}
	}
	if got, want := filesIn(t, dir), "r.html r.json r.md"; got != want {
		t.Fatalf("the directory has %q, want %q", got, want)
	}
	checkExampleReport(t, readReport(t, filepath.Join(dir, "r.json")))
	checkExamplePage(t, filepath.Join(dir, "r.html"))
}

// TestReportComparesLikeCompareFlag checks that a report has the same other ways as --compare, which assumes an
// autoscaler.
func TestReportComparesLikeCompareFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	if _, stderr, code := simulated(t, "", "--report="+file); code != exitDone {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	stdout, stderr, code := simulated(t, "", "--compare", "-o", "json")
	var want report.Comparison
	if err := json.Unmarshal([]byte(stdout), &want); err != nil || code != exitDone {
		t.Fatalf("exit code %d, stderr %q, error %v", code, stderr, err)
	}
	got := readReport(t, file).Comparison
	if got == nil || len(want.Ways) < 3 || len(got.Ways) != len(want.Ways) || got.FitsBecause != want.FitsBecause {
		t.Fatalf("the report compares %+v, the command %+v", got, want)
	}
	for i, way := range want.Ways {
		if way.Request.Strategy == record.AutoscaledBlueGreen {
			if got.Ways[i].Refused == "" {
				t.Errorf("%s is not refused", way.Flags)
			}
			continue
		}
		if !reflect.DeepEqual(got.Ways[i], way) {
			t.Errorf("the report has %+v, the command %+v", got.Ways[i], way)
		}
	}
}

// TestRecordedForecastEqualsReplay checks that the steps that were recorded during a plan's forecast equal those of a
// separate run. The plan must be the same with and without recording.
func TestRecordedForecastEqualsReplay(t *testing.T) {
	const nodes = 30
	p := fleetPlanning(nodes)
	without, _, err := p.forecastPlan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.recorder = &simulationRecorder{}
	with, _, err := p.forecastPlan(t.Context())
	if err != nil || !reflect.DeepEqual(without, with) {
		t.Errorf("the forecast with a recorder differs, error %v", err)
	}
	again := &simulationRecorder{}
	if _, err := p.simulateFastest(t.Context(), again.recordStep); err != nil {
		t.Fatal(err)
	}
	reports := make([]*report.RunReport, 2)
	for i, f := range []*simulationRecorder{p.recorder, again} {
		f.last.Run, f.last.Request = simulatedRun, p.request
		reports[i] = report.NewRunReport(report.Origin{About: report.AboutSimulation}, nil, "", &f.seen, &f.last)
	}
	if len(reports[0].Nodes) != nodes || reports[0].Result != record.Succeeded || !reflect.DeepEqual(reports[0], reports[1]) {
		t.Errorf("the recording has %d nodes and the result %q; another run has %d and %q", len(reports[0].Nodes), reports[0].Result, len(reports[1].Nodes), reports[1].Result)
	}
}

// TestReportNamesWaysWhoseForecastTimedOut checks that ways whose forecast is not finished in time say so. The requested way keeps
// the plan's forecast.
func TestReportNamesWaysWhoseForecastTimedOut(t *testing.T) {
	p := fleetPlanning(3)
	forecast, _, err := p.forecastPlan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.forecast = &forecast
	whole, why := p.compareForReport(t.Context())
	if whole == nil || why != "" || !whole.Ways[1].Best && whole.Ways[1].WayForecast == nil {
		t.Fatalf("with time: %+v, %q", whole, why)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, errors.New("the time is over"))
	defer cancel()
	short, why := p.compareForReport(ctx)
	if short == nil || why != "" {
		t.Fatalf("without time: %+v, %q", short, why)
	}
	late := 0
	for _, w := range short.Ways[1:] {
		if w.WayForecast != nil {
			t.Errorf("%s has a forecast", w.Flags)
		}
		if w.Unforecast == "the time is over" {
			late++
		}
	}
	if late < 3 || !reflect.DeepEqual(short.Ways[0].WayForecast, whole.Ways[0].WayForecast) {
		t.Errorf("%d ways had no time; the way that was asked for has %+v, want %+v", late, short.Ways[0].WayForecast, whole.Ways[0].WayForecast)
	}
}

// checkExampleReport compares the report of the built-in example with its plan.
func checkExampleReport(t *testing.T, r *report.RunReport) {
	t.Helper()
	if r.About != report.AboutSimulation || r.Name != "workers" || len(r.Nodes) != 12 || r.Result != record.Succeeded || len(r.Plan.Nodes) != 12 {
		t.Errorf("the report is about %s of %s, has %d nodes and the result %q", r.About, r.Name, len(r.Nodes), r.Result)
	}
	if r.Evictions == nil || r.Plan.Evictions == nil || *r.Evictions != *r.Plan.Evictions || r.Peak == nil || *r.Peak != r.Plan.Peak {
		t.Errorf("evictions %v and peak %v are not those of the plan", r.Evictions, r.Peak)
	}
	if len(r.WaitCauses) == 0 || r.WaitCauses[0].What != "PDB search/index" {
		t.Errorf("the holders are %+v, want the budget that the plan names first", r.WaitCauses)
	}
	if want := "kubectl nodeupgrade simulate"; r.Command != want {
		t.Errorf("the command is %q, want %q", r.Command, want)
	}
}

// checkExamplePage checks the number of rows of the timeline.
func checkExamplePage(t *testing.T, file string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for n := range root.Descendants() {
		isRow := n.Type == html.ElementNode && n.Data == "g" && len(n.Attr) == 1 && n.Attr[0].Key == "transform"
		ofTimeline := func(a html.Attribute) bool { return a.Key == "aria-label" && strings.HasPrefix(a.Val, "timeline of ") }
		if isRow && slices.ContainsFunc(n.Parent.Attr, ofTimeline) {
			rows++
		}
	}
	if want := 13; rows != want { // new nodes have rows, too
		t.Errorf("the timeline has %d rows, want %d", rows, want)
	}
}

// TestUnwritableReportIsRejected checks that the error comes before anything is read, and that no file is left.
func TestUnwritableReportIsRejected(t *testing.T) {
	kubeconfig(t, nowhere)
	dir := t.TempDir()
	old, file := filepath.Join(dir, "old.html"), filepath.Join(dir, "new.html")
	if err := os.WriteFile(old, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder, link := filepath.Join(dir, "folder.html"), filepath.Join(dir, "link.html")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.Symlink(filepath.Join(dir, "nothing"), link)); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		args []string
		want string
	}{
		"no ending":            {[]string{"plan", "a", "--report=" + filepath.Join(dir, "new")}, "unknown file name extension: use .html, .md or .json"},
		"a directory by name":  {[]string{"upgrade", "a", "--yes", "--report=" + folder}, "exists: choose another name, or remove it"},
		"a link to nothing":    {[]string{"upgrade", "a", "--yes", "--report=" + link}, "exists: choose another name, or remove it"},
		"another ending":       {[]string{"simulate", "--report=new.pdf"}, "unknown file name extension"},
		"empty":                {[]string{"simulate", "--report="}, "--report= is empty"},
		"a file that exists":   {[]string{"a", "--yes", "--report=" + old}, "exists: choose another name, or remove it"},
		"a directory":          {[]string{"upgrade", "a", "--yes", "--report=" + dir + "/"}, "unknown file name extension"},
		"no such directory":    {[]string{"upgrade", "a", "--yes", "--report=" + filepath.Join(dir, "none", "r.html")}, "choose a file in a directory where you may write"},
		"beneath a file":       {[]string{"status", "a", "--report=" + filepath.Join(old, "r.md")}, "choose another name"},
		"no group":             {[]string{"--report=" + file}, "takes no --report: the flag sets how a group is upgraded, but no group was named: name a group"},
		"several groups":       {[]string{"plan", "a", "b", "--report=" + file}, "--report with several groups: a report shows one group"},
		"a comparison":         {[]string{"simulate", "--compare", "--report=" + file}, "a report shows one way to upgrade: use only one of them"},
		"a status that stays":  {[]string{"status", "a", "-w", "--report=" + file}, "a report shows one moment: use only one of them"},
		"an abort in a plan":   {[]string{"abort", "a", "--dry-run", "--report=" + file}, "abort takes no --report: --dry-run aborts nothing, so there is nothing to report"},
		"a pause":              {[]string{"pause", "a", "--report=" + file}, "pause takes no --report (only abort, complete, plan, resume, rollback, simulate, status and upgrade do)"},
		"a list has no report": {[]string{"list", "--report=" + file}, "list takes no --report"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := invoke(t, c.args...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d, nothing and %q", code, stdout, stderr, exitUsage, c.want)
			}
		})
	}
	if got := filesIn(t, dir); got != "folder.html link.html old.html" {
		t.Errorf("the directory has %q, want what was there", got)
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "mine" {
		t.Errorf("the old file has %q, error %v", text, err)
	}
}

func TestReadOnlyReportDirectoryIsRejectedBeforeReads(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories have no mode there")
	}
	kubeconfig(t, nowhere)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // root may write to any directory except /proc
		dir = "/proc/self"
	}
	stdout, stderr, code := invoke(t, "upgrade", "a", "--yes", "--report="+filepath.Join(dir, "r.html"))
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, "choose a file in a directory where you may write") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestPlanWritesReportAndChangesNothing(t *testing.T) {
	s := twoGroups()
	s.serve(t)
	file := filepath.Join(t.TempDir(), "plan.json")
	_, stderr, code := invoke(t, "plan", "blue", "--current=image=v2", "--report="+file)
	if code != exitDone || len(s.sentRequests()) > 0 {
		t.Fatalf("exit code %d, stderr %q, changes %v", code, stderr, s.sentRequests())
	}
	r := readReport(t, file)
	if r.About != report.AboutPlan || r.Name != "blue" || r.Result != "" || r.Context != "test" || r.Plan == nil || r.Total != len(r.Plan.Nodes) {
		t.Errorf("the report: %+v", r.Origin)
	}
}

func TestStatusReportSaysThatNoUpgradeIsRecorded(t *testing.T) {
	twoGroups().serve(t)
	file := filepath.Join(t.TempDir(), "status.md")
	if _, stderr, code := invoke(t, "status", "blue", "--current=image=v2", "--report="+file); code != exitDone {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	text, err := os.ReadFile(file)
	if want := "**Status: no upgrade of the group is recorded**"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the report says %q, error %v; want %q", text, err, want)
	}
}

// TestReportIsRejectedIfAnotherProcessRuns checks that a verb that another process would carry out rejects --report
// before it sends that process a request.
func TestReportIsRejectedIfAnotherProcessRuns(t *testing.T) {
	cases := map[string]struct {
		record record.Record
		asked  record.Verb
	}{
		"resume blue":            {inDrain(), ""},
		"resume blue --yes":      {inDrain(), record.VerbPause},
		"complete blue --yes":    {inDrain(setSoaking), ""},
		"complete blue -o json ": {inDrain(setSoaking), ""},
	}
	for args, c := range cases {
		t.Run(args, func(t *testing.T) {
			s := twoGroups()
			s.storeRecord(t, "blue", c.record)
			s.storeRequest(t, c.asked)
			l := s.withLeases()
			l.add("blue", time.Now())
			l.renewed = true
			s.serve(t)
			dir := t.TempDir()
			file := filepath.Join(dir, "r.html")
			stdout, stderr, code := invoke(t, append(strings.Fields(args), "--report="+file)...)
			want := "only that process can write its report: remove the flag, or run kubectl nodeupgrade status blue --report=" + file
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, stdout, stderr, want)
			}
			if len(s.sentRequests()) > 0 || filesIn(t, dir) != "" {
				t.Errorf("sent %q, files %q", s.sentRequests(), filesIn(t, dir))
			}
		})
	}
}

// TestCompletionOffersReportFileExtensions: the shell completes directories and files of the three formats.
func TestCompletionOffersReportFileExtensions(t *testing.T) {
	for _, args := range [][]string{{"simulate", "--report", ""}, {"plan", "--report", ""}, {"status", "--report", ""}, {"upgrade", "--report="}} {
		stdout, _, code := invoke(t, append([]string{"__complete"}, args...)...)
		if want := "html\nmd\njson\n:8\n"; code != exitDone || stdout != want {
			t.Errorf("%v: exit code %d, offered %q, want %q", args, code, stdout, want)
		}
	}
}

// endedExecution returns an execution that writes its report to the file.
func endedExecution(errOut *bytes.Buffer, file string) *execution {
	line := &commandLine{console: console{IOStreams: genericiooptions.IOStreams{ErrOut: errOut}}, choices: choices{reportFile: file}}
	s := &session{command: &command{line, &connection{context: "test"}}}
	return &execution{s: s, g: &groupContext{name: "workers"}, seen: &recordingDisplay{Display: silentDisplay{}, now: time.Now}}
}

// silentDisplay is a Display that shows nothing.
type silentDisplay struct{}

func (silentDisplay) SetRun(string) {}

func (silentDisplay) ShowStep(upgrade.Step)                    {}
func (silentDisplay) ShowNote(string)                          {}
func (silentDisplay) ShowCloudReading(*nodegroup.Group, error) {}
func (silentDisplay) ShowBalancerError(error)                  {}
func (silentDisplay) ShowOutage(string)                        {}
func (silentDisplay) ShowRest(report.TimeLeft)                 {}
func (silentDisplay) Close()                                   {}

// TestUpgradeWritesReportWhateverItsResult: an upgrade that never began writes none.
func TestUpgradeWritesReportWhateverItsResult(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	cases := map[string]struct {
		rec  record.Record
		err  error
		want record.Result
		file bool
	}{
		"done":         {record.Record{Run: "r1", Started: began, Result: record.Succeeded}, nil, record.Succeeded, true},
		"interrupted":  {record.Record{Run: "r1", Started: began, Result: record.Interrupted}, nil, record.Interrupted, true},
		"failed":       {record.Record{Run: "r1", Started: began}, errors.New("the lease is lost"), record.Failed, true},
		"never begun":  {record.Record{}, errors.New("the lease is held"), "", false},
		"is current":   {record.Record{Result: record.Succeeded}, nil, record.Succeeded, true},
		"not drained":  {record.Record{Run: "r1", Started: began, Result: record.PodEvictionFailure}, nil, record.PodEvictionFailure, true},
		"paused by us": {record.Record{Run: "r1", Started: began, Result: record.Paused}, errors.New("gave way"), record.Paused, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var errOut bytes.Buffer
			dir := t.TempDir()
			file := filepath.Join(dir, "r.json")
			e := endedExecution(&errOut, file)
			e.seen.ShowNote("run r1: upgrading")
			e.seen.ShowStep(stepOf(record.PhaseUpgrade))
			e.seen.ShowOutage("no quorum")
			e.seen.ShowOutage("no quorum")
			e.writeReport(t.Context(), &c.rec, c.err)
			if !c.file {
				if got := filesIn(t, dir); got != "" {
					t.Errorf("the directory has %q", got)
				}
				return
			}
			r := readReport(t, file)
			if string(r.Result) != report.KebabCase(string(c.want)) || r.Name != "workers" || len(r.Nodes) != 1 || (c.err != nil && c.want == record.Failed && r.Message != c.err.Error()) {
				t.Errorf("the result is %q (%s) with %d nodes, want %q", r.Result, r.Message, len(r.Nodes), c.want)
			}
			outages := 0
			for _, l := range r.Log {
				if strings.Contains(l.Text, "no quorum") {
					outages++
				}
			}
			if outages != 1 || r.Log[0].Text != "run r1: upgrading" {
				t.Errorf("%d lines on the outage in the log %v", outages, r.Log)
			}
		})
	}
}

func TestReportThatCannotBeWrittenOnlyWarns(t *testing.T) {
	var errOut bytes.Buffer
	dir := t.TempDir()
	endedExecution(&errOut, filepath.Join(dir, "none", "r.html")).writeReport(t.Context(), &record.Record{Run: "r1", Result: record.Succeeded}, nil)
	if !strings.HasPrefix(errOut.String(), `warning: group "workers": writing the report: `) || filesIn(t, dir) != "" {
		t.Errorf("stderr %q, files %q", errOut.String(), filesIn(t, dir))
	}
}

// TestReportKeepsExistingFile checks that a file that appears during the upgrade stays unchanged, and the report gets
// the next free name.
func TestReportKeepsExistingFile(t *testing.T) {
	dir := t.TempDir()
	old := map[string]string{"r.json": "theirs", "r-2.json": "theirs, too"}
	for name, text := range old {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "r-3.json")); err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	file := filepath.Join(dir, "r.json")
	e := endedExecution(&errOut, file)
	e.s.line.progress = "quiet"
	e.writeReport(t.Context(), &record.Record{Run: "r1", Result: record.Succeeded}, nil)
	free := filepath.Join(dir, "r-4.json")
	if want := "warning: --report=" + file + " was created by another process and is kept: the report is in " + free + "\n"; errOut.String() != want {
		t.Errorf("stderr %q, want %q", errOut.String(), want)
	}
	if r := readReport(t, free); r.Run != "r1" {
		t.Errorf("the report is of run %q", r.Run)
	}
	for name, want := range old {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
			t.Errorf("%s has %q, error %v; want %q", name, text, err, want)
		}
	}
	if got, want := filesIn(t, dir), "r-2.json r-3.json r-4.json r.json"; got != want {
		t.Errorf("the directory has %q, want %q", got, want)
	}
}

// TestFailedReportLeavesNoFile checks a full disk, and a directory without a free name.
func TestFailedReportLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "r.html")
	name, err := writeAtomically(file, func(w io.Writer) error {
		_, err := io.WriteString(w, "<html>")
		return errors.Join(err, syscall.ENOSPC)
	})
	if name != "" || !errors.Is(err, syscall.ENOSPC) || filesIn(t, dir) != "" {
		t.Errorf("name %q, error %v, files %q", name, err, filesIn(t, dir))
	}
	names := 0
	for ; names < maxNames; names++ {
		if _, err = writeAtomically(file, func(io.Writer) error { return nil }); err != nil {
			t.Fatalf("%d names: %v", names, err)
		}
	}
	if name, err = writeAtomically(file, func(io.Writer) error { return nil }); err == nil || name != "" || len(strings.Fields(filesIn(t, dir))) != names {
		t.Errorf("beside %d files: %q, error %v, files %q", names, name, err, filesIn(t, dir))
	}
}
