package awscloud_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

func TestBootedMachineGetsANodeObject(t *testing.T) {
	client := fake.NewClientset()
	host := awscloud.KubeNodes(client)
	m := awscloud.Machine{
		Name: "ip-10-0-1-23.ec2.internal", InstanceID: "i-1", ProviderID: "aws:///us-east-1a/i-1", Zone: zoneA, Region: "us-east-1",
		InstanceType: "m5.xlarge", Arch: "x86_64", Address: "10.0.1.23", KubeletVersion: "v1.33.2",
		Labels: map[string]string{"pool": "workers"}, ReadyAfter: 5 * time.Second,
	}
	for range 2 { // a NodeHost succeeds if its work is already done
		if err := host.Boot(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	node := func() *corev1.Node {
		return must(client.CoreV1().Nodes().Get(t.Context(), m.Name, metav1.GetOptions{}))(t)
	}
	n := node()
	equal(t, "labels", n.Labels, map[string]string{
		"kubernetes.io/hostname": m.Name, "topology.kubernetes.io/zone": zoneA, "topology.kubernetes.io/region": "us-east-1",
		"node.kubernetes.io/instance-type": "m5.xlarge", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "pool": "workers",
	})
	equal(t, "annotations", n.Annotations, map[string]string{"test.kubectl-nodeupgrade/boot-after": "5s"})
	equal(t, "provider id", n.Spec.ProviderID, m.ProviderID)
	equal(t, "kubelet version", n.Status.NodeInfo.KubeletVersion, "v1.33.2")
	equal(t, "cpu", n.Status.Allocatable.Cpu().String(), "4")
	equal(t, "conditions", len(n.Status.Conditions), 0)

	if err := host.StopKubelet(t.Context(), m.Name); err != nil {
		t.Fatal(err)
	}
	equal(t, "kubelet", node().Annotations["test.kubectl-nodeupgrade/kubelet"], "stopped")

	m.ProviderID = "aws:///us-east-1a/i-2"
	if err := host.Boot(t.Context(), m); err == nil || !strings.Contains(err.Error(), "the name is taken by aws:///us-east-1a/i-1") {
		t.Errorf("a second machine of the same name: %v", err)
	}
	for range 2 {
		if err := host.DeleteNode(t.Context(), m.Name); err != nil {
			t.Fatal(err)
		}
	}
	if err := host.StopKubelet(t.Context(), m.Name); err != nil {
		t.Errorf("stopping the kubelet of a node that is gone: %v", err)
	}
}

// failingHost is a recorder whose first calls of StopKubelet fail.
type failingHost struct {
	recorder
	left atomic.Int32
}

func (f *failingHost) StopKubelet(ctx context.Context, name string) error {
	if f.left.Add(-1) >= 0 {
		return errors.New("the API server is away")
	}
	return f.recorder.StopKubelet(ctx, name)
}

func TestFailedNodeCallsAreRetriedInOrder(t *testing.T) {
	host := &failingHost{}
	host.left.Store(3)
	o := shortTimes()
	o.Nodes = host
	c, template := start(t, o)
	addGroup(t, c, template, []int{1}, nil)
	i := status(t, c).Instances[0]
	if err := c.KillInstance(i.ID); err != nil {
		t.Fatal(err)
	}
	await(t, c, "all calls", func(awscloud.GroupStatus) bool { return len(host.callsFor(i.Node)) == 3 })
	equal(t, "calls", host.callsFor(i.Node), []string{"boot", "stop", "delete"})
}

func TestFailedNodeCallsAreReported(t *testing.T) {
	host := &failingHost{}
	host.left.Store(1000)
	o := shortTimes()
	o.Nodes = host
	c := must(awscloud.Start(o))(t)
	defer c.Stop()
	c.AddImage("ami-old", "v1.32.1", "x86_64")
	template := c.AddTemplate("workers", version("ami-old"))
	addGroup(t, c, template, []int{1}, func(s *awscloud.GroupSpec) { s.Template.Version, s.InitialVersion = "1", 0 })
	id := status(t, c).Instances[0].ID
	if err := c.KillInstance(id); err != nil {
		t.Fatal(err)
	}
	await(t, c, "the report", func(awscloud.GroupStatus) bool { return len(c.HostErrors()) > 0 })
	equal(t, "error", c.HostErrors()[0].Error(), "instance "+id+": the API server is away")
}
