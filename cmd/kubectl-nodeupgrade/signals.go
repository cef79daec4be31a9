package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameRequest is the time within which a second signal is of the same request as the first.
const sameRequest = 200 * time.Millisecond

// attend runs the body with a context that the first signal to end cancels. It returns the body's
// exit code or, after a second signal, that of a process which the signal ended. A terminal that
// closes often sends SIGHUP more than once, or together with another signal, so that it does not
// count. Neither does a second signal right after the first: GNU timeout sends its signal to the
// process and to the process's group.
func attend(body func(context.Context) int) int {
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
			case !asked.IsZero() && time.Since(asked) < sameRequest:
			case !asked.IsZero() && ok: // the default action may be to ignore it
				return 128 + int(number)
			default:
				asked = time.Now()
				fmt.Fprintln(os.Stderr, "interrupted: finishing what was begun (press Ctrl-C again to quit at once)")
			}
			cancel()
		}
	}
}
