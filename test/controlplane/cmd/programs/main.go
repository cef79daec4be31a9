// Command programs builds the programs of the test control plane into the user's cache folder, and shows its progress.
// Its arguments are packages of this repository, which it also builds into bin/test:
//
//	go run ./test/controlplane/cmd/programs ./test/demo ./cmd/kubectl-nodeupgrade
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane/programs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, packages []string) error {
	if len(packages) == 0 {
		_, err := programs.Get(ctx, os.Stderr)
		return err
	}
	_, err := programs.GetWith(ctx, os.Stderr, packages...)
	return err
}
