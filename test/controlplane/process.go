package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// process is a running component. It writes stdout and stderr to one log file.
type process struct {
	name string
	log  string
	pid  int
	done chan struct{} // closed when it has exited
	end  string        // how it exited, "exit status 1"; read it only after done is closed
}

// startProcess starts the program at path. dir is its working directory and contains its log. The process leads its own process group,
// so that Ctrl-C in a terminal reaches only the caller. On Linux, the process is killed when the caller exits.
func startProcess(dir, path string, args []string) (*process, error) {
	name := filepath.Base(path)
	logPath := filepath.Join(dir, name+".log")
	// A second attempt with another port appends to the log of the first.
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = processAttributes()

	p := &process{name: name, log: logPath, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The death signal is sent when the thread ends that started the child (golang/go#27505). This thread therefore waits until
		// the child has exited.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the state contains more than the error
		p.end = cmd.ProcessState.String()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// killAll kills the processes and their children, and waits until they have exited.
func killAll(processes []*process) {
	for _, p := range processes {
		if p.isRunning() { // after its end, its PID may belong to another process
			// This fails only if the process group has just exited.
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		}
	}
	for _, p := range processes {
		<-p.done
	}
}

func (p *process) isRunning() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// exitError returns an error for a process that exited too early. The error contains how it exited, and the end of its log.
func (p *process) exitError() error {
	return fmt.Errorf("running %s: it ended, %s; the end of %s:\n%s", p.name, p.end, p.log, readTail(p.log, 20))
}

// cancelOnExit returns a context that ends as soon as one of the processes exits. Its cause is the error of that process.
func cancelOnExit(ctx context.Context, processes ...*process) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, p := range processes {
		go func() {
			select {
			case <-p.done:
				cancel(p.exitError())
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// readTail returns the last lines of a file, or the text of the error.
func readTail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(lastLines(data, lines))
}

func lastLines(data []byte, lines int) []byte {
	data = bytes.TrimRight(data, "\n")
	rest := data
	for range lines {
		i := bytes.LastIndexByte(rest, '\n')
		if i < 0 {
			return data
		}
		rest = rest[:i]
	}
	return data[len(rest)+1:]
}
