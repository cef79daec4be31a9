package plugin

import (
	"fmt"
	"io"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// transcript writes the events of a simulated upgrade, with the virtual time since its start.
type transcript struct {
	w     io.Writer
	group string
	json  bool
	began time.Time
	last  report.Moment
	// err is the first write error.
	err error
}

// recordStep writes the events of a step.
func (t *transcript) recordStep(w upgrade.World, step upgrade.Step) {
	now := report.Moment{At: w.Now, Status: step.Status, Blocked: step.Blocked, Stopping: step.Record.Stopping}.WithWaitsReportedBy(t.last)
	events := report.DescribeChanges(t.last, now)
	t.last = now
	for _, event := range events {
		t.writeEvent(event)
	}
}

func (t *transcript) writeEvent(event report.Event) {
	if t.err != nil {
		return
	}
	if t.json {
		t.err = writeEvent(t.w, report.NewEventLine(t.last.At, t.group, simulatedRun, event, &t.last.Status))
		return
	}
	_, t.err = fmt.Fprintf(t.w, "%s  %s\n", formatClock(t.last.At.Sub(t.began)), sanitizeLine(event.Text))
}

// formatClock formats a duration as hours:minutes:seconds.
func formatClock(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
