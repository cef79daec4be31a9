package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// reportEndings are the file name extensions that --report accepts, without the dot.
var reportEndings = []string{"html", "md", "json"}

// reportWriter returns the function that writes a report in the format of the file name's extension. It returns nil for
// an unknown extension.
func reportWriter(file string) func(io.Writer, *report.RunReport) error {
	return map[string]func(io.Writer, *report.RunReport) error{
		".html": report.WriteReportHTML, ".md": report.WriteReportMarkdown, ".json": report.WriteReportJSON,
	}[strings.ToLower(filepath.Ext(file))]
}

// checkReport returns an error if the file of --report cannot be written. To find out, it creates a temporary file in
// the same directory and removes it.
func checkReport(cmd *cobra.Command, line *commandLine) error {
	file := line.reportFile
	if file == "" {
		return nil
	}
	watch, _ := cmd.Flags().GetBool("watch") // only status has --watch
	switch {
	case reportWriter(file) == nil:
		return fmt.Errorf("--report=%s: unknown file name extension: use .html, .md or .json", file)
	case len(line.groups.names) > 1:
		return errors.New("--report with several groups: a report shows one group: run the command once for each group")
	case line.compare:
		return errors.New("--report and --compare: a report shows one way to upgrade: use only one of them")
	case watch:
		return errors.New("--report and --watch: a report shows one moment: use only one of them")
	}
	if err := rejectExisting(file); err != nil {
		return err
	}
	temporary, err := createTemporary(file)
	if err != nil {
		return fmt.Errorf("--report=%s: %w: choose a file in a directory where you may write", file, err)
	}
	return errors.Join(temporary.Close(), os.Remove(temporary.Name()))
}

// rejectExisting returns an error if the file exists or cannot be looked up.
func rejectExisting(file string) error {
	switch _, err := os.Lstat(file); {
	case err == nil:
		return fmt.Errorf("--report=%s exists: choose another name, or remove it", file)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("--report=%s: %w: choose another name", file, err)
	}
}

// createTemporary creates a temporary file in the directory of file.
func createTemporary(file string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(file), ".nodeupgrade-"+rand.String(8)+".tmp")
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// writeReport writes the report to the file of --report. If that file exists by now, it writes the report to a free
// name beside it. If it fails, it leaves no file.
func (l *commandLine) writeReport(r *report.RunReport) error {
	file, err := writeAtomically(l.reportFile, func(w io.Writer) error { return reportWriter(l.reportFile)(w, r) })
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	switch {
	case file != l.reportFile:
		l.warn(fmt.Sprintf("--report=%s was created by another process and is kept: the report is in %s", l.reportFile, file))
	case l.progress != "quiet" && l.progress != "json":
		l.note("the report is in " + file)
	}
	return nil
}

// writeAtomically writes a file under a temporary name and then renames it to file, or to a free name beside it. It
// returns the name.
func writeAtomically(file string, write func(io.Writer) error) (string, error) {
	temporary, err := createTemporary(file)
	if err != nil {
		return "", err
	}
	err = write(temporary)
	if err == nil {
		err = temporary.Sync()
	}
	name := ""
	if err = errors.Join(err, temporary.Close()); err == nil {
		name, err = reserveName(file)
	}
	if err == nil {
		if err = os.Rename(temporary.Name(), name); err == nil {
			return name, nil
		}
		err = errors.Join(err, os.Remove(name))
	}
	return "", errors.Join(err, os.Remove(temporary.Name()))
}

// maxNames is how many file names are tried for a report.
const maxNames = 100

// reserveName creates an empty file under the first free name of FILE.html, FILE-2.html and so on. So no other file is
// replaced.
func reserveName(file string) (string, error) {
	ending := filepath.Ext(file)
	for i := range maxNames {
		name := file
		if i > 0 {
			name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(file, ending), i+1, ending)
		}
		taken, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		switch {
		case err == nil:
			return name, taken.Close()
		case !errors.Is(err, fs.ErrExist):
			return "", err
		}
	}
	return "", fmt.Errorf("%s and %d names beside it exist: remove some of these files", file, maxNames-1)
}

// makeOrigin returns the origin of a report: when, where, by whom and with which command it was made.
func (c *command) makeOrigin(about report.Subject, account string) report.Origin {
	return report.Origin{
		About: about, Made: c.line.now().UTC().Truncate(time.Second), Context: c.conn.context, Account: account,
		User: currentUser(), Version: currentVersion(), Command: c.line.repeatCommand,
	}
}

// simulationRecorder records an upgrade in virtual time for a report.
type simulationRecorder struct {
	seen report.History
	last record.Record
}

func (f *simulationRecorder) recordStep(w upgrade.World, step upgrade.Step) {
	f.seen.Observe(makeMoment(w.Now, &step), &step.Record)
	f.last = step.Record
}

// newSimulationRecorder returns an empty recorder if --report was passed, else nil.
func (c *command) newSimulationRecorder() *simulationRecorder {
	if c.line.reportFile == "" {
		return nil
	}
	return &simulationRecorder{}
}

// writePlanReport writes the report of a plan with its simulated upgrade, if --report was passed.
func (p *planning) writePlanReport(ctx context.Context, plan *report.Plan, about report.Subject) error {
	if p.recorder == nil {
		return nil
	}
	origin := p.s.makeOrigin(about, p.s.account)
	origin.Made = p.now
	if p.hasForecast() && len(plan.Nodes) > 0 && p.recorder.last.Run == "" {
		if _, err := p.simulateFastest(ctx, p.recorder.recordStep); err != nil {
			return err
		}
	}
	rec := p.recorder.last
	rec.Request = p.request
	if rec.Run != "" {
		rec.Run = simulatedRun
	}
	r := report.NewRunReport(origin, plan, "", &p.recorder.seen, &rec)
	r.AddComparison(p.compareForReport(ctx))
	return p.s.line.writeReport(r)
}

// comparisonLimit is the timeout of the forecasts of other ways in a report.
const comparisonLimit = 10 * time.Second

// compareForReport compares the plan with other ways to upgrade the group. It stops after comparisonLimit. If there is
// no comparison, it returns nil and the reason.
func (p *planning) compareForReport(ctx context.Context) (comparison *report.Comparison, why string) {
	switch {
	case p.group.Managed != nil && p.group.Managed.TakesRollout:
		return nil, "strategies of " + nodegroup.InfoOf(p.group.Provider).Manager.Name + " are not compared"
	case p.group.Managed != nil:
		return nil, nodegroup.InfoOf(p.group.Provider).Manager.Name + " upgrades the group in one way"
	case p.record.IsResumable():
		return nil, "an upgrade that has begun keeps its strategy"
	case !p.hasForecast() || p.forecast == nil:
		return nil, "the plan has no forecast"
	}
	ctx, cancel := context.WithTimeoutCause(ctx, comparisonLimit, fmt.Errorf("its forecast takes too long: all forecasts of a report together may take %s", comparisonLimit))
	defer cancel()
	ways := p.listWays(p.s.line.settings)
	p.setWayForecast(&ways[0], p.forecast)
	if _, err := p.forecastWays(ctx, ways); err != nil {
		return nil, err.Error()
	}
	return p.newComparison(ways), ""
}

// simulateFastest runs the upgrade in virtual time, with pods that end as soon as they may, and calls watch with each
// step.
func (p *planning) simulateFastest(ctx context.Context, watch func(upgrade.World, upgrade.Step)) (record.Record, error) {
	spec, req := simulate.AssumeReplacements(p.makeSpec(), p.request)
	req.Run = simulatedRun
	spec.Autoscaled = req.Strategy.Traits().ByAutoscaler
	spec.Times, _ = simulate.Estimate(&spec) // the plan shows the assumptions
	return simulate.New(spec).Run(ctx, req, watch)
}

// writeStatusReport writes the report of a status, if --report was passed.
func (c *command) writeStatusReport(status *report.UpgradeStatus, rec *record.Record, account string) error {
	if c.line.reportFile == "" {
		return nil
	}
	var seen report.History
	shown := *rec
	shown.Request.Group = status.Name
	if rec.Run != "" {
		seen.Observe(report.Moment{At: c.line.now(), Status: status.Status, Blocked: status.Blocked}, rec)
	}
	r := report.NewRunReport(c.makeOrigin(report.AboutStatus, account), nil, "", &seen, &shown)
	r.AddComparison(nil, "only reports of plans and upgrades compare ways")
	return c.line.writeReport(r)
}

// recordingDisplay is a Display that also records what it shows, for a report.
type recordingDisplay struct {
	Display
	now func() time.Time

	mu   sync.Mutex
	seen report.History
	// outage is the last recorded text of an outage.
	outage string
}

// ShowStep implements Display.
func (r *recordingDisplay) ShowStep(step upgrade.Step) {
	r.mu.Lock()
	r.seen.Observe(makeMoment(r.now(), &step), &step.Record)
	r.mu.Unlock()
	r.Display.ShowStep(step)
}

// ShowNote implements Display.
func (r *recordingDisplay) ShowNote(text string) {
	r.addEvent(report.Event{Type: report.NoteEvent, Text: text})
	r.Display.ShowNote(text)
}

// ShowOutage implements Display.
func (r *recordingDisplay) ShowOutage(detail string) {
	r.mu.Lock()
	isNew := detail != r.outage
	r.outage = detail
	r.mu.Unlock()
	if isNew && detail != "" {
		r.addEvent(report.Event{Type: report.WaitingEvent, Text: "nothing can be done in the cluster now: " + detail})
	}
	r.Display.ShowOutage(detail)
}

func (r *recordingDisplay) addEvent(event report.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.AddEvent(r.now(), event)
}
