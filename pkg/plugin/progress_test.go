package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

// progressOutput returns the progress output of an upgrade in a mode. It runs in a synctest bubble.
func progressOutput(t *testing.T, mode string, happens func(Display)) string {
	t.Helper()
	var text string
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		p := console{IOStreams: genericiooptions.IOStreams{ErrOut: &w}, progress: mode}.openDisplay("workers", nil)
		happens(p)
		synctest.Wait()
		p.Close()
		text = w.String()
	})
	return text
}

// stepOf returns a step in a phase with blocked pods.
func stepOf(phase record.Phase, blocked ...drain.Blocked) upgrade.Step {
	return upgrade.Step{Blocked: blocked, Status: record.Status{
		Group: "workers", Phase: phase, Total: 2, GroupCounts: &record.GroupCounts{Desired: 3, Max: 4}, Zones: "a:3",
		Nodes: []record.NodeStatus{{Name: "n1", State: record.NodeDraining, Batch: 1, Pods: 1}},
	}}
}

func deniedPod(detail string) drain.Blocked {
	return drain.Blocked{
		Node: "n1", Pod: types.NamespacedName{Namespace: "shop", Name: "web-0"}, Obstacle: drain.Obstacle{Kind: drain.Denied, Detail: detail},
	}
}

// showShortUpgrade shows a short upgrade.
func showShortUpgrade(p Display) {
	p.SetRun("r1")
	p.ShowNote("run r1: upgrading to workers:2")
	p.ShowStep(stepOf(record.PhaseSetup))
	p.ShowStep(stepOf(record.PhaseSetup))
	p.ShowStep(stepOf(record.PhaseUpgrade, deniedPod("not\nnow\x1b[2J")))
	p.ShowCloudReading(&nodegroup.Group{}, errors.New("no route to host"))
	p.ShowCloudReading(&nodegroup.Group{}, errors.New("no route to host"))
	p.ShowCloudReading(&nodegroup.Group{}, nil)
	p.ShowCloudReading(&nodegroup.Group{}, errors.New("no route to host"))
	p.ShowOutage("no credentials for the API server")
	p.ShowOutage("no credentials for the API server")
	p.ShowOutage("")
	p.ShowOutage("connection refused")
	stopping := stepOf(record.PhaseUpgrade, deniedPod("not\nnow\x1b[2J"))
	stopping.Record.Stopping = record.Interrupted
	p.ShowStep(stopping)
	p.ShowStep(stopping)
}

var told = []string{
	"run r1: upgrading to workers:2",
	"phase setup: 2 outdated nodes, desired 3, max 4 (a:3)",
	"node n1 draining 1 pod (batch 1)",
	"phase upgrade",
	"node n1 waits: pod shop/web-0: not now^[[2J: find out what denies its eviction",
	"the cloud does not answer; its last answer is used: no route to host",
	"the cloud does not answer; its last answer is used: no route to host",
	"nothing can be done in the cluster now; the upgrade tries again: no credentials for the API server",
	"nothing can be done in the cluster now; the upgrade tries again: connection refused",
	"stopping: interrupted",
}

func TestPlainProgressStartsEachLineWithTime(t *testing.T) {
	clock := regexp.MustCompile(`^\d\d:\d\d:\d\d  `)
	var got []string
	for line := range strings.Lines(progressOutput(t, "plain", showShortUpgrade)) {
		if !clock.MatchString(line) {
			t.Errorf("a line without the time: %q", line)
		}
		got = append(got, strings.TrimSuffix(clock.ReplaceAllString(line, ""), "\n"))
	}
	if strings.Join(got, "\n") != strings.Join(told, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(told, "\n"))
	}
}

func TestAutoProgressWithoutATerminalIsPlain(t *testing.T) {
	if auto, plain := progressOutput(t, "auto", showShortUpgrade), progressOutput(t, "plain", showShortUpgrade); auto != plain {
		t.Errorf("got\n%s\nwant\n%s", auto, plain)
	}
}

// TestJSONProgressConsistsOfValidEvents: events after the first step must have counts.
func TestJSONProgressConsistsOfValidEvents(t *testing.T) {
	wantTypes := []string{"note", "phase", "node", "phase", "blocked", "waiting", "waiting", "waiting", "waiting", "phase"}
	var got []string
	for line := range strings.Lines(progressOutput(t, "json", showShortUpgrade)) {
		if err := contract.ValidateEvent(line); err != nil {
			t.Errorf("%v: in %q", err, line)
		}
		var event report.EventLine
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v: in %q", err, line)
		}
		if event.Group != "workers" || event.Time.IsZero() || event.Time.Location() != time.UTC || event.Text == "" {
			t.Errorf("got %+v", event)
		}
		if first := len(got) == 0; event.Run != "r1" || first != (event.Counts == nil) {
			t.Errorf("got %s", line)
		}
		got = append(got, string(event.Type))
	}
	if strings.Join(got, " ") != strings.Join(wantTypes, " ") {
		t.Errorf("got events %q, want %q", got, wantTypes)
	}
}

func TestQuietProgressPrintsNothing(t *testing.T) {
	if got := progressOutput(t, "quiet", func(p Display) { showShortUpgrade(p); time.Sleep(time.Hour) }); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestHeartbeatIsPrintedAfter30SecondsOfSilence: nothing is written before the first step.
func TestHeartbeatIsPrintedAfter30SecondsOfSilence(t *testing.T) {
	cases := map[string]struct {
		happens func(Display)
		want    int
	}{
		"nothing was decided yet": {func(Display) { time.Sleep(10 * time.Minute) }, 0},
		"a short silence":         {func(p Display) { p.ShowStep(stepOf(record.PhaseUpgrade)); time.Sleep(heartbeat - 2*time.Second) }, 0},
		"a long silence":          {func(p Display) { p.ShowStep(stepOf(record.PhaseUpgrade)); time.Sleep(5*heartbeat + 10*time.Second) }, 5},
		"somebody speaks": {func(p Display) {
			p.ShowStep(stepOf(record.PhaseUpgrade))
			for range 10 {
				time.Sleep(heartbeat - 2*time.Second)
				p.ShowNote("still here")
			}
		}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := progressOutput(t, "plain", c.happens)
			if got := strings.Count(text, "still in phase upgrade, 0 of 2 nodes replaced; n1 draining"); got != c.want {
				t.Errorf("%d heartbeats, want %d:\n%s", got, c.want, text)
			}
		})
	}
}

const erase = "\r\x1b[K"

func TestTerminalProgressRedrawsOneLineAndErasesIt(t *testing.T) {
	text := progressOutput(t, "tty", func(p Display) {
		p.ShowStep(stepOf(record.PhaseUpgrade))
		time.Sleep(1500 * time.Millisecond)
		p.ShowNote("one more line")
		time.Sleep(time.Second)
		p.ShowStep(stepOf(record.PhaseUpgrade, deniedPod(strings.Repeat("very long\n", 40)+"\x1b[2J")))
		time.Sleep(time.Second)
	})
	const moment = "phase upgrade, 0 of 2 nodes replaced; n1 draining 1 pod"
	if want := moment + erase; strings.Count(text, want) != 2 {
		t.Errorf("the redrawn line is not drawn and erased twice in %q", text)
	}
	if !strings.HasSuffix(text, erase) {
		t.Errorf("the redrawn line is left behind in %q", text)
	}
	drawn := text[strings.LastIndex(text, "\n")+1:]
	line := strings.TrimSuffix(drawn, erase)
	if twwidth.Width(line) != defaultWidth-1 || !strings.HasSuffix(line, "…") || strings.Contains(line, "\x1b") {
		t.Errorf("drawn: %q, %d cells, want %d that end in an ellipsis", line, twwidth.Width(line), defaultWidth-1)
	}
	if !strings.Contains(text, "  one more line\n") {
		t.Errorf("a line is missing in %q", text)
	}
}

// TestRedrawnLineFitsTheTerminal checks that the line is cut to the terminal's width, with wide characters as two
// cells. A line that wraps could not be redrawn.
func TestRedrawnLineFitsTheTerminal(t *testing.T) {
	for _, width := range []int{40, 80, 132} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			screen, terminal, err := pty.Open()
			if err != nil {
				t.Skipf("no pseudo terminal: %v", err)
			}
			defer screen.Close()
			if err := pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: uint16(width)}); err != nil {
				t.Fatal(err)
			}
			p := &progress{w: terminal, terminal: terminal, mode: "tty"}
			p.drawLine(strings.Repeat("節点 node ", 40))
			p.clearLine()
			if err := terminal.Close(); err != nil {
				t.Fatal(err)
			}
			shown, _ := io.ReadAll(screen) // reading ends with an error because the other end is closed
			line := strings.TrimSuffix(string(shown), erase)
			if cells := twwidth.Width(line); cells > width-1 || cells < width-2 {
				t.Errorf("drawn: %q, %d cells of %d", line, cells, width)
			}
		})
	}
}

func TestEventColourDependsOnType(t *testing.T) {
	p := &progress{color: true}
	cases := map[report.EventType]string{"blocked": "\x1b[33mx\x1b[0m", "waiting": "\x1b[33mx\x1b[0m", "phase": "\x1b[1mx\x1b[0m", "node": "x"}
	for kind, want := range cases {
		if got := p.colorText(eventOf(kind), "x"); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
	if got := (&progress{}).colorText(eventOf("blocked"), "x"); got != "x" {
		t.Errorf("without colour: got %q", got)
	}
}

func eventOf(kind report.EventType) report.Event { return report.Event{Type: kind} }
