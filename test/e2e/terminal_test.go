package e2e

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

// terminalCommand is a command that runs on its own terminal.
type terminalCommand struct {
	*testCase
	cmd     *exec.Cmd
	master  *os.File
	screen  *emulator.Terminal
	drained chan struct{}
}

// startOnTerminal starts kubectl on a terminal.
func startOnTerminal(s *testCase, args ...string) *terminalCommand {
	s.t.Helper()
	c := &terminalCommand{testCase: s, screen: emulator.New(100, 30), drained: make(chan struct{})}
	c.cmd = exec.CommandContext(s.t.Context(), s.Dir+"/kubectl", args...)
	c.cmd.Env = append(s.Env(), "TERM=xterm")
	var err error
	if c.master, err = pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
		s.t.Skipf("no pseudo terminal: %v", err)
	}
	c.master = makePollable(s.t, c.master)
	s.t.Cleanup(func() { _ = c.master.Close() }) // the terminal may be closed already
	go func() {
		defer close(c.drained)
		_, _ = io.Copy(c.screen, c.master) // reading ends with an error when the command has exited
	}()
	return c
}

// makePollable returns a duplicate of the file whose Close ends a pending Read. It closes the file.
func makePollable(t *testing.T, file *os.File) *os.File {
	t.Helper()
	fd, err := syscall.Dup(int(file.Fd()))
	if err == nil {
		err = errors.Join(syscall.SetNonblock(fd, true), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), file.Name())
}

// pressKey presses a key.
func (c *terminalCommand) pressKey(key string) {
	c.t.Helper()
	if _, err := c.master.WriteString(key); err != nil {
		c.t.Fatal(err)
	}
}

const ctrlC, ctrlS, ctrlQ = "\x03", "\x13", "\x11"

// awaitText waits until the terminal shows a text.
func (c *terminalCommand) awaitText(text string) {
	c.t.Helper()
	c.waitFor("the terminal to show "+text, func() bool { return strings.Contains(c.screen.String(), text) })
}

// awaitExit waits until the command exits, checks its exit code, and returns the lines on the terminal.
func (c *terminalCommand) awaitExit(code int) []string {
	c.t.Helper()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("exit code %d, want %d:\n%s", got, code, c.screen)
	}
	<-c.drained
	return c.screen.Lines()
}

// TestUpgradeOnATerminalIsInterrupted upgrades a group of labelled nodes on a terminal. Nodes without a cloud are not replaced, so
// the upgrade waits until it is interrupted.
func TestUpgradeOnATerminalIsInterrupted(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	s := openWithoutBudgets(t, shared, "screen")
	args := []string{"nodeupgrade", "-l", "pool=" + s.group, "--current", "image=v2", "--yes", "--parallel-groups", "--settle=0s"}
	fenced := func() bool {
		return slices.ContainsFunc(s.nodes(), func(node corev1.Node) bool { return node.Spec.Unschedulable })
	}
	held := func() bool {
		lease, err := s.Cluster.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), cluster.ObjectName("pool="+s.group), metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	}
	clean := func(lines []string) {
		t.Helper()
		for _, litter := range []string{"░", " STATE ", "^C"} {
			if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, litter) }) {
				t.Errorf("%q is left on the terminal:\n%s", litter, strings.Join(lines, "\n"))
			}
		}
	}

	start := func(t *testing.T) *terminalCommand {
		of := *s
		of.t = t
		return startOnTerminal(&of, args...)
	}

	t.Run("output is stopped", func(t *testing.T) {
		c := start(t)
		c.pressKey(ctrlS)
		c.waitFor("a node to be fenced", fenced)
		if !held() {
			t.Error("no process holds the lease of the running upgrade")
		}
		if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		c.waitFor("the upgrade to release its lease", func() bool { return !held() })
		if shown := c.screen.String(); shown != "" {
			t.Errorf("a stopped terminal shows\n%s", shown)
		}
		c.pressKey(ctrlQ)
		lines := c.awaitExit(130)
		clean(lines)
		for _, want := range []string{"upgrading to", "phase ", "interrupted: ending this command", "stopping: interrupted", "error: "} {
			if n := len(slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.Contains(line, want) })); n == 0 {
				t.Errorf("%q is not shown:\n%s", want, strings.Join(lines, "\n"))
			}
		}
	})
	t.Run("Ctrl-C after several resizes", func(t *testing.T) {
		c := start(t)
		c.awaitText("replaced ")
		for i := range 4 {
			size := [][2]int{{80, 24}, {120, 40}}[i%2]
			if err := pty.Setsize(c.master, &pty.Winsize{Rows: uint16(size[1]), Cols: uint16(size[0])}); err != nil {
				t.Fatal(err)
			}
			c.screen.Resize(size[0], size[1])
			before := c.screen.Writes()
			c.waitFor("the view to be drawn again", func() bool { return c.screen.Writes() > before })
		}
		c.pressKey(ctrlC)
		clean(c.awaitExit(130))
	})
	t.Run("terminal is closed", func(t *testing.T) {
		c := start(t)
		c.awaitText("replaced ")
		if err := c.master.Close(); err != nil {
			t.Fatal(err)
		}
		c.awaitExit(130)
		if held() {
			t.Error("the lease is still held")
		}
	})
}
