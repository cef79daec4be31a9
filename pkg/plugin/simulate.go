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
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/dump"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// simulation is the simulate command: an upgrade in virtual time, of a cluster that was written
// down.
type simulation struct {
	*options
	file string
}

const simulateExamples = `  # the built-in example, and what happens in it
  kubectl nodeupgrade simulate --progress=plain

  # a cluster of yours, which is not touched
  ` + dump.Command + ` |
    kubectl nodeupgrade simulate workers -f -

  # what another choice would mean
  kubectl nodeupgrade simulate workers -f dump.yaml --max-unavailable=3`

func newSimulateCommand(o *options) *cobra.Command {
	s := &simulation{options: o}
	cmd := &cobra.Command{
		Use:   "simulate [GROUP] [-f DUMP]",
		Short: "Run an upgrade in virtual time, on a dump or a built-in example",
		Long: `Runs a whole upgrade in virtual time and prints its plan; with --progress=plain
also each event. It needs neither a cluster nor a cloud: it reads what kubectl
get printed, or takes a built-in example.`,
		Example:           simulateExamples,
		Args:              func(cmd *cobra.Command, args []string) error { return usage(cobra.MaximumNArgs(1)(cmd, args)) },
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.complete(cmd, args); err != nil {
				return usage(err)
			}
			return s.run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&s.file, "filename", "f", "", "Dump to simulate, JSON or YAML, gzip or not; - for stdin (the built-in example)")
	o.addStrategy(cmd.Flags())
	return cmd
}

func (s *simulation) complete(cmd *cobra.Command, args []string) error {
	if err := s.completeShared(args); err != nil {
		return err
	}
	return s.completeSettings(cmd)
}

func (s *simulation) run(ctx context.Context) error {
	d, source, err := s.load(ctx)
	if err != nil {
		return err
	}
	provider := newRecorded(s.options, d.Nodes)
	at := &session{connection: &connection{context: source}, provider: provider, view: viewOf(d)}
	name, err := s.choose(ctx, at)
	if err != nil {
		return err
	}
	p := s.prospect(at, d)
	if p.group, err = provider.Observe(ctx, cloud.Ref{Name: name}); err != nil {
		return err
	}
	if err := s.resolve(p, at, modeUpgrade, s.settings); err != nil {
		return err
	}
	s.explain(p, d)
	if err := s.tell(p); err != nil {
		return err
	}
	plan, err := p.plan(ctx, at)
	if err != nil {
		return err
	}
	list := &report.PlanList{Items: []report.Plan{*plan}}
	if err := s.printPlans(list, []string{"nodegroup/" + name}); err != nil {
		return err
	}
	if plan.Structural() {
		return &exitErr{code: exitStructural}
	}
	return nil
}

// load reads the dump, and says where from.
func (s *simulation) load(ctx context.Context) (*dump.Dump, string, error) {
	switch s.file {
	case "":
		return dump.Example(), "built-in example", nil
	case "-":
		d, err := dump.Read(interruptible{ctx, s.In}, dump.Limits{})
		if err != nil {
			return nil, "", fmt.Errorf("reading stdin: %w", err)
		}
		return d, "stdin", nil
	}
	file, err := os.Open(s.file)
	if err != nil {
		return nil, "", usage(fmt.Errorf("reading the dump: %w: write one with %s > %s", err, dump.Command, s.file))
	}
	defer file.Close() // it was only read
	d, err := dump.Read(interruptible{ctx, file}, dump.Limits{})
	if err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", s.file, err)
	}
	return d, s.file, nil
}

// interruptible ends a long read when the user does.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, &exitErr{code: exitInterrupted, err: err}
	}
	return i.r.Read(p)
}

// choose is the group that was named or, where none was, the only one there is.
func (s *simulation) choose(ctx context.Context, at *session) (string, error) {
	named := len(s.groups) > 0 || s.node != "" || s.selector != ""
	if named {
		names, err := s.groupNames(ctx, at, func(string) []string { return nil })
		if err != nil {
			return "", s.lookingInto(at.context, err)
		}
		return names[0], nil
	}
	groups, err := at.provider.Groups(ctx, at.view.Nodes)
	if err != nil {
		return "", err
	}
	var names []string
	for i := range groups {
		names = append(names, groups[i].Name)
	}
	switch len(names) {
	case 1:
		return names[0], nil
	case 0:
		err := fmt.Errorf("its %d nodes belong to no node group that is known: pass -l SELECTOR", len(at.view.Nodes))
		return "", usage(s.lookingInto(at.context, err))
	default:
		err := fmt.Errorf("name one of its node groups: %s", strings.Join(names, ", "))
		return "", usage(s.lookingInto(at.context, err))
	}
}

// lookingInto is the error of a dump that does not have what is asked for.
func (s *simulation) lookingInto(source string, err error) error {
	if s.file == "" {
		source = "the " + source
	}
	return fmt.Errorf("looking into %s: %w", source, err)
}

// viewOf is the dump as a live cluster would be seen.
func viewOf(d *dump.Dump) upgrade.View {
	v := upgrade.View{
		Nodes: d.Nodes, PDBs: d.Budgets, Budgets: drain.NewBudgets(d.Budgets),
		Pods: map[string][]*corev1.Pod{}, EndingNamespaces: d.EndingNamespaces,
	}
	for _, pod := range d.Pods {
		v.Pods[pod.Spec.NodeName] = append(v.Pods[pod.Spec.NodeName], pod)
	}
	return v
}

// prospect is what the dump tells of every group. Its moment is that of the dump.
func (s *simulation) prospect(at *session, d *dump.Dump) *prospect {
	return &prospect{provider: at.provider, view: at.view, background: backgroundOf(d), now: cmp.Or(d.Taken, time.Now())}
}

// explain says on stderr what the dump leaves open and what is taken instead.
func (s *simulation) explain(p *prospect, d *dump.Dump) {
	if s.progress == "quiet" || s.progress == "json" {
		return
	}
	var notes []string
	if s.file == "" {
		notes = append(notes, "this is a built-in example; for a cluster of yours: "+dump.Command+" | kubectl nodeupgrade simulate -f -")
	}
	if len(s.settings.Current) == 0 {
		notes = append(notes, fmt.Sprintf("all %d nodes of the group count as outdated: --current KEY=VALUE names the labels of those that do not", p.outdated()))
	}
	if len(d.Pods) == 0 {
		notes = append(notes, "there is no pod in it: "+dump.Command+" prints all that counts")
	}
	if p.group.Sized {
		notes = append(notes, fmt.Sprintf("the group's desired, min and max size are taken to be its %d nodes", p.group.Desired))
	}
	for _, note := range notes {
		fmt.Fprintln(s.ErrOut, "note:", note)
	}
}

// tell runs the upgrade and writes its events on stderr, with the time since its start, where the
// user asked to follow.
func (s *simulation) tell(p *prospect) error {
	if s.progress != "plain" && s.progress != "json" {
		return nil
	}
	req := p.request
	req.Run, req.WaitReplacement = "simulation", false // nobody else replaces nodes here
	spec := p.spec()
	spec.Times, _ = simulate.Estimate(&spec) // the plan says what it assumes
	t := &transcript{w: s.ErrOut, group: req.Group, json: s.progress == "json", began: spec.Now}
	record, err := simulate.New(spec).Run(req, t.step)
	if err != nil {
		return err
	}
	text := "upgraded" + suffix(record)
	if record.Result != upgrade.Succeeded {
		text = fmt.Sprintf("ended as %s%s", record.Result, suffix(record))
	}
	t.write(report.Event{Type: "phase", State: string(record.Result), Text: text})
	return t.err
}
