// Command reader reads the same objects as the tool's command check, and does nothing else. The difference between the two is the cost
// of check's rules. The reader imports package plugin, so that both programs start with the same cost.
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
