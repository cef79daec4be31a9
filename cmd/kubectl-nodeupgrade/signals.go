package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signalRepeatWindow is the time within which a second signal belongs to the same request as the first.
const signalRepeatWindow = 200 * time.Millisecond

// announceLimit is the longest time for which a message may delay the end.
const announceLimit = 200 * time.Millisecond

// runWithSignals runs the body with a context that the first signal cancels, and announces the end on stderr. It returns the body's exit
// code. After a second signal it returns the exit code of a process that the signal ended. SIGHUP does not count as a second
// signal: a terminal that closes often sends it twice, or together with another one. Neither does a signal right after the first:
// GNU timeout sends its signal to the process and to the process's group.
func runWithSignals(stderr io.Writer, body func(context.Context) int) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it, and to be notified would undo that
		ends = append(ends, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, ends...)
	code := make(chan int, 1)
	go func() { code <- body(ctx) }()
	var asked time.Time
	for {
		select {
		case done := <-code:
			return done
		case s := <-signals:
			number, ok := s.(syscall.Signal)
			switch {
			case number == syscall.SIGHUP:
			case !asked.IsZero() && time.Since(asked) < signalRepeatWindow:
			case !asked.IsZero() && ok: // the default action may be to ignore it
				return 128 + int(number)
			default:
				asked = time.Now()
				announceInterrupt(stderr)
			}
			cancel()
		}
	}
}

// announceInterrupt writes that the process is about to end. It waits no longer than announceLimit for a terminal that takes no output.
func announceInterrupt(stderr io.Writer) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		fmt.Fprintln(stderr, "interrupted: ending this command (press Ctrl-C again to quit at once)")
	}()
	select {
	case <-written:
	case <-time.After(announceLimit):
	}
}
