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

// signalRepeatWindow is the time after the first signal in which a second signal counts as the same request.
const signalRepeatWindow = 200 * time.Millisecond

// announceLimit is the longest time that the message about a signal may delay the end of the process.
const announceLimit = 200 * time.Millisecond

// runWithSignals runs body with a context that the first signal cancels, and returns body's exit code. The first signal
// also prints a message on stderr. After a second signal it returns the exit code of a process that was killed by that
// signal.
//
// SIGHUP does not count as a second signal, because a closing terminal often sends it twice or together with another
// signal. A signal soon after the first does not count either, because GNU timeout signals the process and its process
// group.
func runWithSignals(stderr io.Writer, body func(context.Context) int) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP, and signal.Notify would undo that
		ends = append(ends, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, ends...)
	code := make(chan int, 1)
	go func() { code <- body(ctx) }()
	var first time.Time
	for {
		select {
		case done := <-code:
			return done
		case s := <-signals:
			number, ok := s.(syscall.Signal)
			switch {
			case number == syscall.SIGHUP:
			case !first.IsZero() && time.Since(first) < signalRepeatWindow:
			case !first.IsZero() && ok: // this process exits itself, because the signal's default action may be to ignore it
				return 128 + int(number)
			default:
				first = time.Now()
				announceInterrupt(stderr)
			}
			cancel()
		}
	}
}

// announceInterrupt prints that the process is about to end. If the terminal accepts no output, it returns after
// announceLimit.
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
