// Command kubectl-nodeupgrade is a kubectl plugin that replaces the nodes of a node group with
// current ones.
package main

import (
	"context"
	"os"

	_ "github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/cmd/kubectl-nodeupgrade/firstgc" // before the packages that allocate
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/plugin"
)

func main() {
	stderr := plugin.NewStderr(os.Stderr)
	os.Exit(runWithSignals(stderr, func(ctx context.Context) int {
		return plugin.Run(ctx, plugin.Arguments(os.Args), os.Stdin, os.Stdout, stderr)
	}))
}
