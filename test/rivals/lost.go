package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// upgradeWithLostRecord kills the upgrade a random time after its first mark on a node, deletes its record, and runs the same command
// again. It returns the last command's exit code.
func (t *testCase) upgradeWithLostRecord(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	first := t.startUpgrade(ctx)
	over := make(chan struct{})
	var code int
	var err error
	go func() {
		defer close(over)
		code, err = first.Wait()
	}()
	if err := t.awaitMark(ctx, over); err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(t.seed, 2))
	select {
	case <-over:
		return code, err
	case <-time.After(time.Duration(random.Int64N(int64(8 * time.Second)))):
	}
	_ = first.Kill() // its exit code shows an error
	<-over
	if err != nil || code == 0 {
		return code, err
	}
	t.killed = true
	name := cluster.ObjectName(t.group())
	if err := t.Cluster.Client().CoreV1().ConfigMaps(stateSpace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return 0, fmt.Errorf("deleting the record: %w", err)
	}
	fmt.Fprintln(&t.stderr, "killed, and the record deleted")
	return t.startUpgrade(ctx, "--takeover", "--rebuild").Wait()
}

// awaitMark waits until a node has a mark of the upgrade, or until the upgrade ends. Without a mark, the record cannot be rebuilt.
func (t *testCase) awaitMark(ctx context.Context, over <-chan struct{}) error {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-over:
			return true, nil
		default:
		}
		nodes, err := t.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + t.group()})
		if err != nil {
			return false, err
		}
		for i := range nodes.Items {
			for key := range nodes.Items[i].Annotations {
				if strings.HasPrefix(key, nodemark.Domain+"/") {
					return true, nil
				}
			}
		}
		return false, nil
	})
}
