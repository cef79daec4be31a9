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
	done chan struct{} // closed when it has ended
	end  string        // how it ended, "exit status 1"; to be read after done is closed
}

// startProcess starts the program at path in dir, with its log in dir too. The process is the head of a group of its
// own, so that Ctrl-C in a terminal reaches only the caller, and where the system can do it, it dies with the caller.
func startProcess(dir, path string, args []string) (*process, error) {
	name := filepath.Base(path)
	logPath := filepath.Join(dir, name+".log")
	// Appended: a second attempt to bind a port keeps the story of the first.
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
		// The death signal comes when the starting thread ends, not the process (golang/go#27505), so this thread
		// stays until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the state says more
		p.end = cmd.ProcessState.String()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// kill ends the processes and whatever they started, at once, and waits for their end.
func kill(processes []*process) {
	for _, p := range processes {
		if p.running() { // otherwise its number may be another's by now
			// Fails only when the group has just ended by itself.
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		}
	}
	for _, p := range processes {
		<-p.done
	}
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ended says how a process that should run on came to end, with the end of its log.
func (p *process) ended() error {
	return fmt.Errorf("running %s: it ended, %s; the end of %s:\n%s", p.name, p.end, p.log, tail(p.log, 20))
}

// whileRunning returns a context that ends as soon as one of the processes does, with what it came to as the cause.
func whileRunning(ctx context.Context, processes ...*process) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, p := range processes {
		go func() {
			select {
			case <-p.done:
				cancel(p.ended())
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// tail returns the last lines of a file, or what went wrong when reading it.
func tail(path string, lines int) string {
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
