package stage

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

// Pool describes nodes that no cloud knows, all of one image; they carry both names as the labels pool and image.
type Pool struct {
	Name, Image string
	Nodes       int
	// Zones of the nodes, one after the other; none for all in one zone.
	Zones  []string
	Taints []corev1.Taint
	// CPU is what each node has, as a quantity; "" for the usual. More is what it has beside: devices,
	// ephemeral storage.
	CPU  string
	More corev1.ResourceList
}

// NodeName is the name of the pool's node of that number, from 0 on.
func (p Pool) NodeName(i int) string { return fmt.Sprintf("%s%03d", p.NodePrefix(), i) }

// NodePrefix is what the names of the pool's nodes begin with, and those of another image do not.
func (p Pool) NodePrefix() string { return p.Name + "-" + p.Image + "-" }

// AddPool registers the nodes. It does not wait for them.
func (s *Stage) AddPool(ctx context.Context, p Pool) error {
	for i := range p.Nodes {
		spec := controlplane.NodeSpec{Name: p.NodeName(i), Labels: map[string]string{"pool": p.Name, "image": p.Image}, Taints: p.Taints, CPU: p.CPU, More: p.More}
		if len(p.Zones) > 0 {
			spec.Zone = p.Zones[i%len(p.Zones)]
		}
		if err := s.Cluster.AddNode(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

// ChangeNode changes a node as a person does.
func (s *Stage) ChangeNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	client := s.Cluster.Client().CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(node)
		_, err = client.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("changing node %q: %w", name, err)
	}
	return nil
}

// UpgradeLine is the shell's line with which the tool moves the pods of a pool from image old to nodes of image new, which are there
// already, so many nodes at a time. It tells its progress as JSON.
func UpgradeLine(pool string, window int) string {
	return fmt.Sprintf("kubectl nodeupgrade -l pool=%s --current image=new --wait-replacement=false --max-unavailable=%d --settle=0s --yes --progress=json", pool, window)
}

// How people drain nodes without the tool: DRAIN is a kubectl drain without the node, whose name it reads.
const (
	OneByOne   = "xargs -n 1 DRAIN"
	FourAtOnce = "xargs -n 1 -P 4 DRAIN"
)

// DrainLine is the shell's line that drains a pool's nodes of image old with kubectl, each as one of the ways says. All are cordoned
// first, so that no pod moves twice.
func DrainLine(pool, each string, flags ...string) string {
	old := "pool=" + pool + ",image=old"
	drain := strings.Join(append([]string{"kubectl drain --ignore-daemonsets --delete-emptydir-data"}, flags...), " ")
	return fmt.Sprintf("kubectl cordon -l %s && kubectl get nodes -l %s -o name | cut -d / -f 2 | %s", old, old, strings.ReplaceAll(each, "DRAIN", drain))
}
