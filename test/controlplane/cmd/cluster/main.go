// Command cluster runs a control plane with simulated nodes until it is interrupted, for experiments with kubectl:
//
//	go run ./test/controlplane/cmd/cluster -nodes 6
//
// It prints the path of the kubeconfig and the shell command that selects it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

func main() {
	nodes := flag.Int("nodes", 0, "how many nodes to add, in three zones")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, *nodes)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, nodes int) error {
	c, err := controlplane.Start(ctx, controlplane.Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := addNodes(ctx, c, nodes); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\nexport KUBECONFIG=%s\n", c.Kubeconfig(), c.Kubeconfig())
	<-ctx.Done()
	return nil
}

// addNodes adds nodes in three zones by turns, and waits until all are Ready.
func addNodes(ctx context.Context, c *controlplane.Cluster, count int) error {
	name := func(i int) string { return fmt.Sprintf("node-%d", i+1) }
	for i := range count {
		spec := controlplane.NodeSpec{Name: name(i), Zone: "us-east-1" + string("abc"[i%3])}
		if err := c.AddNode(ctx, spec); err != nil {
			return err
		}
	}
	for i := range count {
		if _, err := c.WaitForNode(ctx, name(i), corev1.ConditionTrue); err != nil {
			return err
		}
	}
	return nil
}
