package stage_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

// managed is a stage with a managed node group of three nodes in three zones, and with a workload of
// the group's name on it.
type managed struct {
	*stage.Stage
	t    *testing.T
	name string
}

// addManaged puts a group on the stage, in a namespace of its own.
func addManaged(t *testing.T, s *stage.Stage, g stage.ManagedGroup, w stage.Workload) *managed {
	t.Helper()
	own, err := s.In(t.Context(), g.Name)
	m := &managed{own, t, g.Name}
	m.check(err)
	g.Zones, g.Counts = []string{"us-east-1a", "us-east-1b", "us-east-1c"}, []int{1, 1, 1}
	_, err = m.AddManagedGroup(g)
	m.check(err)
	m.check(m.AwaitNodes(t.Context(), "pool="+m.name, 3))
	w.Name, w.NodeSelector = m.name, map[string]string{"pool": m.name}
	m.check(m.Add(t.Context(), w))
	m.check(m.Settle(t.Context()))
	return m
}

func (m *managed) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// update has EKS update the group to the version of the cluster and returns how that ended.
func (m *managed) update() awscloud.UpdateState {
	m.t.Helper()
	_, err := m.EKS().UpdateNodegroupVersion(m.t.Context(), &eks.UpdateNodegroupVersionInput{
		ClusterName: aws.String(stage.EKSCluster), NodegroupName: aws.String(m.name), Version: aws.String("1.36"),
	})
	m.check(err)
	ctx, cancel := context.WithTimeout(m.t.Context(), 4*time.Minute)
	defer cancel()
	end, err := m.Cloud.WaitUpdate(ctx, stage.EKSCluster, m.name, awscloud.UpdateState.Ended)
	m.check(err)
	return end
}

// nodes lists the Nodes of the group of a release's image, by UID.
func (m *managed) nodes(image string) map[types.UID]corev1.Node {
	m.t.Helper()
	list, err := m.Cluster.Client().CoreV1().Nodes().List(m.t.Context(), metav1.ListOptions{
		LabelSelector: "eks.amazonaws.com/nodegroup=" + m.name + ",eks.amazonaws.com/nodegroup-image=" + image,
	})
	m.check(err)
	found := map[types.UID]corev1.Node{}
	for _, n := range list.Items {
		found[n.UID] = n
	}
	return found
}

func TestManagedGroups(t *testing.T) {
	s := stage.ForTest(t, stage.Options{
		Cloud: awscloud.Options{
			EKS:  awscloud.EKSOptions{Settle: 200 * time.Millisecond},
			Boot: time.Second, NodeReady: 300 * time.Millisecond, Terminate: 500 * time.Millisecond, NodeGoneAfter: 200 * time.Millisecond,
		},
		Cluster: controlplane.Options{NodeMonitorGrace: time.Minute},
	})
	t.Run("EKS replaces the nodes", func(t *testing.T) { updateManaged(t, s) })
	t.Run("a budget fails the update", func(t *testing.T) { failManaged(t, s) })
}

// updateManaged has EKS replace three nodes under a budget, which it never breaks.
func updateManaged(t *testing.T, s *stage.Stage) {
	t.Helper()
	m := addManaged(t, s, stage.ManagedGroup{Name: "web"}, stage.Workload{Replicas: 3, MaxUnavailable: "1"})
	budgets, err := m.WatchBudgets(t.Context())
	m.check(err)
	if end := m.update(); end.Status != ekstypes.UpdateStatusSuccessful {
		t.Fatalf("the update ended as %+v", end)
	}
	m.check(m.AwaitNodes(t.Context(), "pool="+m.name, 3))
	if n := len(m.nodes(stage.NewImage)); n != 3 {
		t.Errorf("%d nodes have the new image, want 3", n)
	}
	m.check(m.Settle(t.Context()))
	if broken, seen := budgets.Broken(); len(broken) > 0 || seen == 0 {
		t.Errorf("of %d states of the budget these broke it: %v", seen, broken)
	}
}

// failManaged holds that a budget which allows nothing fails the update, naming the node (EKS E42,
// E52), and that the next update leaves alone what is current (EKS E31).
func failManaged(t *testing.T, s *stage.Stage) {
	t.Helper()
	m := addManaged(t, s, stage.ManagedGroup{Name: "db", Strategy: ekstypes.NodegroupUpdateStrategiesMinimal},
		stage.Workload{Replicas: 2, MaxUnavailable: "0"})
	end := m.update()
	old := m.nodes(stage.OldImage)
	named := slices.ContainsFunc(end.Errors, func(e ekstypes.ErrorDetail) bool {
		return e.ErrorCode == ekstypes.ErrorCodePodEvictionFailure && len(e.ResourceIds) == 1 && fenced(old, e.ResourceIds[0])
	})
	if end.Status != ekstypes.UpdateStatusFailed || !named {
		t.Fatalf("the update ended as %+v; old nodes are %v", end, old)
	}
	current := m.nodes(stage.NewImage)
	_, err := m.Cluster.Client().PolicyV1().PodDisruptionBudgets(m.Namespace).Patch(t.Context(), m.name, types.MergePatchType,
		[]byte(`{"spec":{"maxUnavailable":1}}`), metav1.PatchOptions{})
	m.check(err)
	if end := m.update(); end.Status != ekstypes.UpdateStatusSuccessful {
		t.Fatalf("the second update ended as %+v", end)
	}
	now := m.nodes(stage.NewImage)
	for uid, before := range current {
		if n, ok := now[uid]; !ok || n.Spec.Unschedulable {
			t.Errorf("node %s was current and was not left alone", before.Name)
		}
	}
	if len(now) != 3 {
		t.Errorf("%d nodes have the new image, want 3", len(now))
	}
}

// fenced says whether the named node is among the nodes, cordoned and out of load balancers.
func fenced(nodes map[types.UID]corev1.Node, name string) bool {
	for _, n := range nodes {
		if n.Name == name {
			return n.Spec.Unschedulable && n.Labels[corev1.LabelNodeExcludeBalancers] == "true"
		}
	}
	return false
}
