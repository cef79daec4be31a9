// Command reader reads of a cluster what check reads, and does nothing else: what check takes beside it is what its rules take. It is
// built of the same packages, so that what they take before anything is read is the same.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	_ "github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/plugin"
)

func main() {
	if err := read(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "reader:", err)
		os.Exit(1)
	}
}

func read(ctx context.Context) error {
	debug.SetGCPercent(50) // as the tool does
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	conn, err := cluster.Connect(ctx, config, "reader", os.Stderr)
	if err != nil {
		return err
	}
	_, err = cluster.ReadObjects(ctx, conn.Client, inventory.ForChecks)
	return err
}
