package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// lockFile creates the file at path if necessary, takes its advisory lock, and returns a function that releases the lock. The kernel
// releases the lock of a process that exits. lockFile returns an error if ctx ends before the lock is free.
func lockFile(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the build lock: %w", err)
	}
	// A waiting flock cannot be interrupted, so flock is tried repeatedly.
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !waiting {
			fmt.Fprintln(log, "control plane: waiting for another process to build it")
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for the build lock %s: %w", path, context.Cause(ctx))
		case <-retry.C:
		}
	}
}
