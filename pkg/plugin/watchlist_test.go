package plugin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

// watchList follows the list of groups. stop ends it and returns the exit code.
func (s *blueUpgrade) watchList(out io.Writer, args ...string) (stop func() int) {
	ctx, cancel := context.WithCancel(s.t.Context())
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, append([]string{"--current=image=v2"}, args...), strings.NewReader(""), out, s)
	}()
	return func() int {
		cancel()
		select {
		case got := <-code:
			return got
		case <-time.After(20 * time.Second):
			s.t.Fatal("the list does not end with its context")
			return 0
		}
	}
}

func endedRecord(result record.Result) record.Record {
	rec := blueRecord()
	rec.Result = result
	return rec
}

// TestWatchedListOnPipePrintsOnlyChangedGroups: after the whole table, each change prints only the groups that changed.
func TestWatchedListOnPipePrintsOnlyChangedGroups(t *testing.T) {
	for _, args := range [][]string{{"-w"}, {"list", "--watch"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			s := newBlueUpgrade(t)
			stop := s.watchList(s, args...)
			if text := s.awaitOutput("NAME", "blue", "green"); !strings.Contains(text, "upgrade") {
				t.Errorf("the first table:\n%s", text)
			}
			s.store(endedRecord(record.Succeeded))
			if text := s.awaitOutput("blue: 2 nodes, 1 outdated, phase succeeded"); strings.Contains(text, "green") || strings.Count(text, "\n") != 1 {
				t.Errorf("more than the change:\n%s", text)
			}
			if code := stop(); code != exitDone {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestWatchedListPrintsDocuments(t *testing.T) {
	s := newBlueUpgrade(t)
	stop := s.watchList(s, "list", "-w", "-o", "json")
	text := s.awaitOutput(`"phase": "upgrade"`)
	s.store(endedRecord(record.LeftBehind))
	text += s.awaitOutput(`"phase": "left-behind"`)
	stop()
	documents := json.NewDecoder(strings.NewReader(text))
	count := 0
	for documents.More() {
		var list report.NodeGroupList
		if err := documents.Decode(&list); err != nil || list.Kind != "NodeGroupList" || len(list.Items) != 2 {
			t.Fatalf("error %v, kind %q, %d groups in\n%s", err, list.Kind, len(list.Items), text)
		}
		count++
	}
	if count != 2 {
		t.Errorf("%d documents for one change:\n%s", count, text)
	}
}

func TestWatchedListOnTerminalIsRedrawnInPlace(t *testing.T) {
	t.Setenv("TERM", "xterm")
	screen, terminal, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	defer screen.Close()
	defer terminal.Close()
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	shown := emulator.New(80, 24)
	go func() { _, _ = io.Copy(shown, screen) }() // it ends with the test
	s := newBlueUpgrade(t)
	stop := s.watchList(terminal, "list", "-w")
	waitForText(t, shown, "upgrade")
	s.store(endedRecord(record.Succeeded))
	waitForText(t, shown, "succeeded")
	stop()
	if text := shown.String(); strings.Count(text, "NAME") != 1 || strings.Count(text, "blue") != 1 || strings.Contains(text, "upgrade ") {
		t.Errorf("shown:\n%s", text)
	}
}

// waitForText waits until the terminal shows a text.
func waitForText(t *testing.T, shown *emulator.Terminal, text string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(shown.String(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the output lacks %q:\n%s", text, shown)
		}
	}
}

// TestWatchedListWorksWithoutWatchPermission: without the permission to watch, the command reads the list from time to
// time.
func TestWatchedListWorksWithoutWatchPermission(t *testing.T) {
	s := newBlueUpgrade(t)
	answer := s.refuse
	s.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no watches"}`)
			return true
		}
		return answer(w, r)
	}
	stop := s.watchList(s, "list", "-w")
	s.awaitOutput("NAME", "blue", "green")
	s.store(endedRecord(record.Succeeded))
	s.awaitOutput("blue: 2 nodes, 1 outdated, phase succeeded")
	stop()
}

// TestWatchFlagWithGroupIsErrorThatNamesStatus checks that --watch with a group is an error that names the status command.
func TestWatchFlagWithGroupIsErrorThatNamesStatus(t *testing.T) {
	_, stderr, code := invoke(t, "blue", "-w")
	if code != exitUsage || !strings.Contains(stderr, "use kubectl nodeupgrade status GROUP --watch") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
