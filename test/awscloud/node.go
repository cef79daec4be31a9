package awscloud

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Annotations that the stages of the simulated kubelets recognize.
const (
	// AnnotationBootAfter delays the Ready condition of a new Node: a Go duration, counted from its creation.
	AnnotationBootAfter = "test.kubectl-nodeupgrade/boot-after"
	// AnnotationKubelet with the value "stopped" ends the heartbeats of a Node.
	AnnotationKubelet = "test.kubectl-nodeupgrade/kubelet"
)

// Machine contains the facts about an instance from which its Node is created.
type Machine struct {
	Name       string // ip-10-0-1-23.ec2.internal
	InstanceID string
	ProviderID string // aws:///us-east-1a/i-0123456789abcdef0
	Zone       string
	Region     string

	InstanceType   string
	Image          string
	Arch           string // as EC2 names it: x86_64, arm64
	Address        string // private IPv4 address
	KubeletVersion string // of the image: v1.33.2
	Labels         map[string]string
	ReadyAfter     time.Duration // from the creation of the Node until it is Ready; 0: at once
}

// NodeHost joins instances to a cluster. The stand-in calls its methods one after another, in the order of events. After an
// error the stand-in repeats the call, so each method must succeed if its work is already done.
type NodeHost interface {
	// Boot creates the Node of a machine that has booted.
	Boot(ctx context.Context, m Machine) error
	// StopKubelet ends the heartbeats of a Node whose machine has stopped.
	StopKubelet(ctx context.Context, name string) error
	// DeleteNode deletes the Node of a terminated machine, as the cloud's node lifecycle controller does.
	DeleteNode(ctx context.Context, name string) error
}

// KubeNodes returns a NodeHost that creates and deletes Nodes through a real API server. Simulated kubelets set the conditions
// of these Nodes and send heartbeats.
func KubeNodes(client kubernetes.Interface) NodeHost { return kubeNodes{client} }

type kubeNodes struct{ client kubernetes.Interface }

func (k kubeNodes) Boot(ctx context.Context, m Machine) error {
	node := newNode(m)
	_, err := k.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var old *corev1.Node
		old, err = k.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		if err == nil && old.Spec.ProviderID != m.ProviderID {
			err = fmt.Errorf("the name is taken by %s: delete that Node", old.Spec.ProviderID)
		}
	}
	if err != nil {
		return fmt.Errorf("creating node %q: %w", m.Name, err)
	}
	return nil
}

func (k kubeNodes) StopKubelet(ctx context.Context, name string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{AnnotationKubelet: "stopped"}}})
	if err != nil {
		return fmt.Errorf("encoding the patch of node %q: %w", name, err)
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("stopping the kubelet of node %q: %w", name, err)
	}
	return nil
}

func (k kubeNodes) DeleteNode(ctx context.Context, name string) error {
	err := k.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting node %q: %w", name, err)
	}
	return nil
}

// newNode returns the Node as the kubelet and the cloud provider create it, without conditions. The simulated kubelet sets the
// conditions.
func newNode(m Machine) *corev1.Node {
	arch := map[string]string{"x86_64": "amd64"}[m.Arch]
	if arch == "" {
		arch = m.Arch
	}
	labels := map[string]string{
		corev1.LabelHostname:           m.Name,
		corev1.LabelTopologyZone:       m.Zone,
		corev1.LabelTopologyRegion:     m.Region,
		corev1.LabelInstanceTypeStable: m.InstanceType,
		corev1.LabelArchStable:         arch,
		corev1.LabelOSStable:           "linux",
	}
	maps.Copy(labels, m.Labels)
	annotations := map[string]string{}
	if m.ReadyAfter > 0 {
		annotations[AnnotationBootAfter] = m.ReadyAfter.String()
	}
	size := machineSize(m.InstanceType)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: m.ProviderID},
		Status: corev1.NodeStatus{
			Capacity:    size,
			Allocatable: size,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: m.Address},
				{Type: corev1.NodeHostName, Address: m.Name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:          m.KubeletVersion,
				Architecture:            arch,
				OperatingSystem:         "linux",
				OSImage:                 "Amazon Linux 2023",
				ContainerRuntimeVersion: "containerd://2.1.4",
			},
		},
	}
}

// machineSize returns the CPU, memory and pods of a general purpose instance type. The number of pods is the limit of the VPC
// CNI (amazon-eks-ami, eni-max-pods.txt). An unknown type has the size of m5.large.
func machineSize(kind string) corev1.ResourceList {
	cpu, memory, pods := "2", "8Gi", "29"
	switch kind {
	case "t3.medium":
		memory, pods = "4Gi", "17"
	case "m5.xlarge", "m6i.xlarge", "m7g.xlarge":
		cpu, memory, pods = "4", "16Gi", "58"
	case "m5.2xlarge", "m6i.2xlarge", "m7g.2xlarge":
		cpu, memory, pods = "8", "32Gi", "58"
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods:   resource.MustParse(pods),
	}
}
