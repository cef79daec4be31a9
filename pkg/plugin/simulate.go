package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/dump"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// simulation is the simulate command. It runs an upgrade of a dump in virtual time.
type simulation struct {
	line *commandLine
	file string
}

// simulateExamples returns the examples of the help.
func simulateExamples() string {
	return `  # run the built-in example and show each event
  kubectl nodeupgrade simulate --progress=plain

  # simulate your cluster, which is not changed
` + dump.Script() + `
  kubectl nodeupgrade simulate workers -f dump.json

  # a kind without objects counts as not read; an empty list means none
  kubectl get --raw /apis/apps/v1/statefulsets >> dump.json

  # try other settings, and find the best strategy
  kubectl nodeupgrade simulate workers -f dump.json --max-unavailable=3
  kubectl nodeupgrade simulate workers -f dump.json --compare`
}

func newSimulateCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate [GROUP] [-f DUMP]",
		Short: "Simulate an upgrade of a dump or of a built-in example",
		Long: `Run a whole upgrade in virtual time and print its plan. With --progress=plain,
also print each event. The command needs neither a cluster nor a cloud: it reads
the output of kubectl get, or uses a built-in example.`,
		Example:           simulateExamples(),
		Args:              rejectSeveralGroups,
		ValidArgsFunction: completeWords(f.suggestDumpGroups),
		RunE: func(cmd *cobra.Command, args []string) error {
			line, err := f.parseCommandLine(cmd, args)
			if err != nil {
				return usageError(err)
			}
			return (&simulation{line, f.dump}).simulateUpgrade(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&f.dump, "filename", "f", "", "Dump to simulate, JSON or YAML, also gzipped; - for stdin (default: the built-in example)")
	f.addReportFlag(cmd.Flags())
	f.addStrategyFlags(cmd.Flags())
	f.addSkipCheckFlag(cmd.Flags())
	return cmd
}

func (s *simulation) simulateUpgrade(ctx context.Context) error {
	d, source, err := s.loadDump(ctx)
	if err != nil {
		return err
	}
	at := openDumpSession(s.line, d, source)
	if s.file != "" {
		at.checkedBy = shell.Join(append([]string{"kubectl", "nodeupgrade", "check", "--filename=" + s.file}, s.line.groupArguments...))
	}
	name, err := s.chooseGroup(ctx, at)
	if err != nil {
		return err
	}
	g, err := loadDumpedGroup(ctx, at, name, d.Taken)
	if err != nil {
		return err
	}
	if err := g.rejectLargeRecord(); err != nil && !s.line.compare {
		return err
	}
	s.printAssumptions(g, d)
	p := &planning{groupContext: g, s: at, recorder: at.newSimulationRecorder()}
	p.believeFindings(p.runRules())
	if s.line.compare {
		return p.printComparison(ctx)
	}
	if err := s.writeSimulatedEvents(ctx, p); err != nil {
		return err
	}
	plan, err := p.makePlan(ctx)
	if err != nil {
		return err
	}
	if err := p.writePlanReport(ctx, plan, report.AboutSimulation); err != nil {
		return err
	}
	return s.line.printPlans(true, *plan)
}

// loadDump reads the dump, and returns it with the name of its source.
func (s *simulation) loadDump(ctx context.Context) (*dump.Dump, string, error) {
	if s.file == "" {
		return dump.Example(), "built-in example", nil
	}
	return readDump(ctx, s.line.In, s.file, trim.ForPlans)
}

// readDump reads a file or stdin, and returns the dump with the name of its source.
func readDump(ctx context.Context, stdin io.Reader, name string, trimObject func(any)) (*dump.Dump, string, error) {
	source, in := "stdin", stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, "", usageError(fmt.Errorf("reading the dump: %w: write one with %s > %s", err, dump.Command(), name))
		}
		defer file.Close() // the file was only read
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return nil, "", usageError(fmt.Errorf("reading the dump: %s is a directory: pass a file; write one with %s > FILE", name, dump.Command()))
		}
		source, in = name, file
	}
	d, err := dump.Read(contextReader{ctx, in}, dump.Limits{}, trimObject)
	if err != nil && ctx.Err() == nil { // the user must fix the file
		err = usageError(err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", source, err)
	}
	return d, source, nil
}

// openDumpSession returns a session with the cluster of a dump.
func openDumpSession(l *commandLine, d *dump.Dump, source string) *session {
	return &session{
		command:   &command{l, &connection{context: source}},
		providers: providers{main: l.newDumpProvider(d.Nodes)}, cluster: &clusterReading{view: viewOfObjects(&d.Objects), objects: &d.Objects, use: inventory.ForChecks},
	}
}

// loadDumpedGroup returns a group of a dump, as it was when the dump was written.
func loadDumpedGroup(ctx context.Context, s *session, name string, taken time.Time) (*groupContext, error) {
	g := &groupContext{name: name, observation: observation{provider: s.of(name), cluster: s.cluster, to: s.line.settings.To, now: cmp.Or(taken, time.Now())}}
	var err error
	if g.group, err = g.provider.Observe(ctx, cloud.Ref{Name: name, To: g.to}); err != nil {
		return nil, usageError(err) // the dump lacks the group or the target
	}
	// The simulation shows what would happen, so it assumes an autoscaler if the strategy needs one.
	g.group.Autoscaler.Serves = s.line.settings.Strategy.Traits().ByAutoscaler || s.line.compare
	g.joinNodes(&g.stored)
	if err := g.rejectGroupOfOtherCluster(s.conn.context); err != nil {
		return nil, err
	}
	if err := s.resolveGroup(g, modeUpgrade); err != nil {
		return nil, err
	}
	return g, s.checkUpgrade(ctx, g, modeUpgrade)
}

// contextReader is a reader that fails after its context has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (i contextReader) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, &exitErr{code: exitInterrupted, err: err}
	}
	return i.r.Read(p)
}

// chooseGroup returns the named group, or the only group of the dump if none was named.
func (s *simulation) chooseGroup(ctx context.Context, at *session) (string, error) {
	if !s.line.groups.isEmpty() {
		names, err := at.resolveGroupNames(ctx, s.line.groups, suggestNoCommand)
		if err != nil {
			return "", s.wrapDumpError(at.conn.context, err)
		}
		return names[0], nil
	}
	groups, err := at.listGroups(ctx, at.cluster.view.Nodes)
	if err != nil {
		return "", err
	}
	switch names := groupNames(groups); len(names) {
	case 1:
		return names[0], nil
	case 0:
		err := fmt.Errorf("its %d nodes belong to no known node group: pass -l SELECTOR", len(at.cluster.view.Nodes))
		return "", usageError(s.wrapDumpError(at.conn.context, err))
	default:
		err := fmt.Errorf("name one of its node groups: %s", strings.Join(names, ", "))
		return "", usageError(s.wrapDumpError(at.conn.context, err))
	}
}

// wrapDumpError adds the dump's name to an error.
func (s *simulation) wrapDumpError(source string, err error) error {
	if s.file == "" {
		source = "the " + source
	}
	return fmt.Errorf("reading %s: %w", source, err)
}

// printAssumptions prints on stderr what the simulation assumes because the dump does not contain it.
func (s *simulation) printAssumptions(g *groupContext, d *dump.Dump) {
	if s.line.progress == "quiet" || s.line.progress == "json" {
		return
	}
	var notes []string
	if s.file == "" {
		notes = append(notes, "this is a built-in example; for a cluster of yours: "+dump.Command()+" | kubectl nodeupgrade simulate -f -")
	}
	if len(s.line.settings.Current) == 0 {
		notes = append(notes, fmt.Sprintf("all %d nodes count as outdated: pass --current KEY=VALUE, a label of current nodes", countOutdated(g.members)))
	}
	if len(d.Pods) == 0 {
		notes = append(notes, "the dump has no pods: "+dump.Command()+" prints all objects that matter")
	}
	if g.group.Can.Resize && g.findOwnerRefusal() == nil {
		notes = append(notes, fmt.Sprintf("the group's desired, min and max size are assumed to be its %d nodes", g.group.Desired))
	}
	if g.group.Autoscaler.Serves {
		notes = append(notes, "an autoscaler is assumed to serve the group")
	}
	for _, note := range notes {
		s.line.note(note)
	}
}

// simulatedRun is the identifier of a simulated upgrade.
const simulatedRun = "simulation"

// writeSimulatedEvents runs the upgrade in virtual time and writes its events on stderr, with the time since the start.
// It does so only for --progress=plain and json.
func (s *simulation) writeSimulatedEvents(ctx context.Context, p *planning) error {
	if s.line.progress != "plain" && s.line.progress != "json" || p.findOwnerRefusal() != nil {
		return nil
	}
	t := &transcript{w: s.line.ErrOut, group: p.request.Group, json: s.line.progress == "json", began: p.now}
	rec, err := p.simulateFastest(ctx, t.recordStep)
	if err != nil {
		return err
	}
	text := "upgraded" + describeResult(rec)
	if rec.Result != record.Succeeded {
		text = fmt.Sprintf("ended as %s%s", rec.Result, describeResult(rec))
	}
	t.writeEvent(report.Event{Type: report.PhaseEvent, State: string(rec.Result), Text: text})
	return t.err
}
