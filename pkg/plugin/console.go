package plugin

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// console is where a command writes its output, and in which form.
type console struct {
	genericiooptions.IOStreams
	// format is --output: one of ownFormats, or a format of cli-runtime's printers.
	format, progress string
	// color is --color. noHeaders is --no-headers.
	color     string
	noHeaders bool
	// clock is the cluster's clock. It is nil until the command has connected to the cluster.
	clock func() time.Time
	// printed is set to true when the first document was printed on stdout.
	printed *bool
	// groupStatuses collects the statuses of an upgrade of several groups, which are printed as one document at the
	// end. It is nil otherwise.
	groupStatuses *[]report.UpgradeStatus
	// clusterFlags are the typed flags that kubectl also needs to connect to the same cluster.
	clusterFlags []string
}

// now returns the cluster's time, or this machine's time without a cluster. Times in the output are relative to it.
func (c console) now() time.Time {
	if c.clock == nil {
		return time.Now()
	}
	return c.clock()
}

// note writes a note on stderr. It writes nothing for "". On a terminal it breaks lines at words.
func (c console) note(text string) { c.writeNote("note: ", text) }

// warn writes a warning on stderr in the same way as note.
func (c console) warn(text string) { c.writeNote("warning: ", text) }

func (c console) writeNote(label, text string) {
	if text != "" {
		_ = c.writeNotes([]string{label + text}) // the command continues if stderr cannot be written
	}
}

// writeNotes writes lines on stderr. It escapes control characters, because parts of the lines may come from the
// cluster. On a terminal it breaks lines at words.
func (c console) writeNotes(lines []string) error {
	for _, line := range lines {
		parts := []string{sanitizeLine(line)}
		if isTerminal(c.ErrOut) {
			parts = report.WrapLine(parts[0], terminalWidth(c.ErrOut))
		}
		if err := writeLines(c.ErrOut, parts); err != nil {
			return err
		}
	}
	return nil
}

// document is a report with a name.
type document[T any] interface {
	*T
	runtime.Object
	GetName() string
}

// printAll prints the items so that stdout has one document: an item itself if the user asked for a single group, else
// a list of the kind. For people it calls write for each item.
func printAll[T any, D document[T]](c console, kind string, asksForOne bool, items []T, write func(io.Writer, D, report.Options) error) error {
	var names []string
	for i := range items {
		names = append(names, nodegroup.Prefix+D(&items[i]).GetName())
	}
	var object runtime.Object = report.NewList(kind, items)
	if asksForOne && len(items) == 1 {
		object = D(&items[0])
	}
	return c.printObject(object, names, func(w io.Writer, ro report.Options) error {
		for i := range items {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := write(w, &items[i], ro); err != nil {
				return err
			}
		}
		return nil
	})
}

// printPlans prints plans as one document. It returns an error with exit code 3 if a plan cannot be carried out.
func (c console) printPlans(asksForOne bool, plans ...report.Plan) error {
	if err := printAll(c, "PlanList", asksForOne, plans, report.WritePlan); err != nil {
		return err
	}
	if slices.ContainsFunc(plans, func(p report.Plan) bool { return p.NeedsAction() }) {
		return &exitErr{code: exitStructural}
	}
	return nil
}

func (c console) printStatus(status *report.UpgradeStatus) error {
	return c.printObject(status, []string{nodegroup.Prefix + status.Name}, func(w io.Writer, ro report.Options) error { return report.WriteStatus(w, status, ro) })
}

// printDone prints the lines about the result of an upgrade. For programs it prints the upgrade's status instead.
func (c console) printDone(group string, record record.Record, lines ...string) error {
	for i := range lines {
		lines[i] = sanitizeLine(lines[i])
	}
	status := makeUpgradeStatus(group, record)
	if c.groupStatuses != nil {
		*c.groupStatuses = append(*c.groupStatuses, *status)
		return nil
	}
	return c.printObject(status, []string{nodegroup.Prefix + group}, func(w io.Writer, _ report.Options) error { return writeLines(w, lines) })
}

// addFailedStatus adds a status with the group's error to groupStatuses, unless the group has a status.
func (c console) addFailedStatus(group string, err error) {
	if c.groupStatuses == nil || slices.ContainsFunc(*c.groupStatuses, func(s report.UpgradeStatus) bool { return s.Name == group }) {
		return
	}
	status := report.UpgradeStatus{Message: err.Error()}
	status.TypeMeta, status.ObjectMeta = report.NewMeta("UpgradeStatus", group)
	*c.groupStatuses = append(*c.groupStatuses, status)
}

func (c console) printResult(group string, rec record.Record) error {
	verb := "upgraded"
	switch {
	case rec.Total == 0:
		verb = "is current"
	case rec.Rollback:
		verb = "rolled back to " + rec.Target.Name
	}
	head := rec
	if head.Message == verb { // so that it is not printed twice
		head.Message = ""
	}
	lines := []string{fmt.Sprintf("%s%s %s%s", nodegroup.Prefix, group, verb, describeResult(head))}
	for _, node := range slices.Sorted(maps.Keys(rec.Nodes)) {
		if n := rec.Nodes[node]; n.State == record.NodeQuarantined {
			lines = append(lines, fmt.Sprintf("left behind: node %s: %s", node, n.Reason))
		}
	}
	return c.printDone(group, rec, append(lines, report.ImpactLines(upgrade.ListImpacts(&rec))...)...)
}

func (c console) printAborted(group string, record record.Record, log *actionLog) error {
	head := fmt.Sprintf("%s%s aborted: %d of %d nodes had been replaced", nodegroup.Prefix, group, record.Replaced, record.Total)
	if record.Replaced > 0 {
		head += ", and are kept"
	}
	if record.Message != "" {
		head += "; " + record.Message
	}
	return c.printDone(group, record, log.formatLines(head, "done: ")...)
}
