package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// NodeSpec describes a node to add.
type NodeSpec struct {
	Name       string
	Zone       string // default "us-east-1a"; the region is the zone without its letter
	ProviderID string
	// Labels are added to the labels that every node has: hostname, zone, region, instance type, operating system, architecture.
	Labels      map[string]string
	Annotations map[string]string
	Taints      []corev1.Taint
	// CPU, Memory and Pods are quantities, both capacity and allocatable; defaults "4", "16Gi", "110".
	CPU, Memory, Pods string
	// More contains the node's other resources: devices, ephemeral storage.
	More corev1.ResourceList
	// KubeletVersion is "v" and a version. The default is the control plane's.
	KubeletVersion string
	// BootAfter is how long after this call the node becomes Ready; see [AnnotationBootAfter].
	BootAfter time.Duration
}

// AddNode registers a node. It does not wait until the node is Ready; [Cluster.WaitForNode] does. It returns an error if a quantity is
// malformed or the API server refuses the node.
func (c *Cluster) AddNode(ctx context.Context, spec NodeSpec) error {
	node, err := spec.toNode(int(c.nodes.Add(1)), time.Now())
	if err != nil {
		return fmt.Errorf("adding node %q: %w", spec.Name, err)
	}
	if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("adding node %q: %w", spec.Name, err)
	}
	return nil
}

// toNode returns the Node object of the spec. number, from 1 on, determines the node's address: 10.0.x.y.
func (s NodeSpec) toNode(number int, now time.Time) (*corev1.Node, error) {
	capacity, err := s.parseCapacity()
	if err != nil {
		return nil, err
	}
	zone := orDefault(s.Zone, "us-east-1a")
	labels := map[string]string{
		corev1.LabelHostname:           s.Name,
		corev1.LabelTopologyZone:       zone,
		corev1.LabelTopologyRegion:     strings.TrimSuffix(zone[:len(zone)-1], "-"),
		corev1.LabelInstanceTypeStable: "m5.xlarge",
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         "amd64",
	}
	maps.Copy(labels, s.Labels)
	annotations := map[string]string{}
	maps.Copy(annotations, s.Annotations)
	if s.BootAfter > 0 {
		// With a duration, each change of the node's labels or taints would restart its boot.
		annotations[AnnotationBootAfter] = now.Add(s.BootAfter).Format(time.RFC3339Nano)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: s.ProviderID, Taints: s.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: s.KubeletVersion},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", number>>8, number&0xff)},
				{Type: corev1.NodeHostName, Address: s.Name},
			},
		},
	}, nil
}

func (s NodeSpec) parseCapacity() (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{
		corev1.ResourceCPU:    orDefault(s.CPU, "4"),
		corev1.ResourceMemory: orDefault(s.Memory, "16Gi"),
		corev1.ResourcePods:   orDefault(s.Pods, "110"),
	} {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("reading its %s %q: %w", name, text, err)
		}
		list[name] = quantity
	}
	maps.Copy(list, s.More)
	return list, nil
}

// StopKubelet stops a node's kubelet: its lease is not renewed, its pods do not change, and the node becomes NotReady after
// [Options].NodeMonitorGrace. It returns an error if the API server refuses the change.
func (c *Cluster) StopKubelet(ctx context.Context, name string) error {
	return c.setKubelet(ctx, name, "stopped")
}

// StartKubelet reverts [Cluster.StopKubelet]: the node becomes Ready again. If its boot time is a duration, it becomes Ready after
// that duration.
func (c *Cluster) StartKubelet(ctx context.Context, name string) error {
	return c.setKubelet(ctx, name, nil)
}

// setKubelet sets both the annotation and the label that KWOK reads. With nil it removes them.
func (c *Cluster) setKubelet(ctx context.Context, name string, value any) error {
	mark := map[string]any{AnnotationKubelet: value}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": mark, "labels": mark}})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("marking the kubelet of node %q: %w", name, err)
	}
	return nil
}

// WaitForNode waits until the node exists and its Ready condition has the status ready, and returns the node. The status "" means that
// the node has no Ready condition. WaitForNode returns an error if ctx ends first.
func (c *Cluster) WaitForNode(ctx context.Context, name string, ready corev1.ConditionStatus) (*corev1.Node, error) {
	var last corev1.ConditionStatus
	list := cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll,
		fields.OneTermEqualSelector(metav1.ObjectNameField, name))
	event, err := watchtools.UntilWithSync(ctx, list, &corev1.Node{}, nil, func(e watch.Event) (bool, error) {
		last = readyStatus(e.Object.(*corev1.Node))
		return e.Type != watch.Deleted && last == ready, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for node %q to be Ready=%s, last seen Ready=%s: %w", name, ready, last, err)
	}
	return event.Object.(*corev1.Node), nil
}

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}
