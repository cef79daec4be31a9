// Command kubectl-nodeupgrade is a kubectl plugin that replaces the nodes of a node group with current ones.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/plugin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop() // a second Ctrl-C takes the default action and ends the process
		fmt.Fprintln(os.Stderr, "interrupted: finishing what was begun (press Ctrl-C again to quit at once)")
	})
	code := plugin.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	os.Exit(code)
}
