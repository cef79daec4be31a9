package fit

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Node is a node and what the pods on it take up.
type Node struct {
	// Object has the labels, and Taints are those that keep pods away.
	Object *corev1.Node
	Taints []corev1.Taint
	// Allocatable is what the node has for pods, MaxPods how many may run; Unlimited where it does not
	// report it. Of the other resources it has none that it does not report.
	Allocatable Resources
	MaxPods     int64
	// Used is what its pods have taken, and Pods how many they are.
	Used Resources
	Pods int64
	// ports are counted by the pods that take them: two may where the node was not asked.
	ports map[Port]int
	// Attachable is how many volumes each CSI driver may attach; drivers that are not in it are not
	// limited. attached counts the pods that use a volume, and attachedOf volumes by driver.
	Attachable map[string]int64
	attached   map[attachment]int
	attachedOf map[string]int64
}

// attachment is a volume as its CSI driver knows it.
type attachment struct{ driver, handle string }

// NewNode is a node without pods.
func NewNode(object *corev1.Node) *Node {
	n := &Node{}
	n.Read(object)
	return n
}

// Read takes a new version of the node's object into account.
func (n *Node) Read(object *corev1.Node) {
	n.Object, n.Taints = object, nil
	for _, taint := range object.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			n.Taints = append(n.Taints, taint)
		}
	}
	has := object.Status.Allocatable
	n.Allocatable = Resources{
		CPU: reported(has, corev1.ResourceCPU), Memory: reported(has, corev1.ResourceMemory),
		Storage: reported(has, corev1.ResourceEphemeralStorage), Others: othersOf(has),
	}
	n.MaxPods = reported(has, corev1.ResourcePods)
}

// reported is how much the list has, and Unlimited where it does not say.
func reported(list corev1.ResourceList, name corev1.ResourceName) int64 {
	quantity, has := list[name]
	switch {
	case !has:
		return Unlimited
	case name == corev1.ResourceCPU:
		return MilliCPU(&quantity)
	default:
		return Bytes(&quantity)
	}
}

// AttachLimits is how many volumes each CSI driver may attach to a node; drivers without a limit
// are left out.
func AttachLimits(csi *storagev1.CSINode) map[string]int64 {
	limits := map[string]int64{}
	for i := range csi.Spec.Drivers {
		if d := &csi.Spec.Drivers[i]; d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[d.Name] = int64(*d.Allocatable.Count)
		}
	}
	return limits
}

// Place puts so many pods of these needs on the node; -1 takes one away.
func (n *Node) Place(p *Needs, pods int) {
	n.Pods += int64(pods)
	n.Used.Add(&p.Requests, int64(pods))
	if len(p.Ports) > 0 && n.ports == nil {
		n.ports = map[Port]int{}
	}
	for _, port := range p.Ports {
		if n.ports[port] += pods; n.ports[port] == 0 {
			delete(n.ports, port)
		}
	}
	for _, volume := range p.Volumes {
		volume.Users += pods
		n.attach(volume, pods)
	}
	for _, device := range p.Devices {
		device.Users += pods
		if device.Users == 0 && !device.isHeld {
			device.reachable = nil // its allocation ends with its last user
		}
	}
}

// Reserve sets room for one more pod of these needs aside, for a node that is only thought of: its
// volumes and devices are not taken.
func (n *Node) Reserve(p *Needs) {
	n.Place(&Needs{Requests: p.Requests, Ports: p.Ports}, 1)
}

// Empty is the node without pods. It shares what they do not change.
func (n *Node) Empty() Node {
	return Node{Object: n.Object, Taints: n.Taints, Allocatable: n.Allocatable, MaxPods: n.MaxPods, Attachable: n.Attachable}
}

// attach counts pods that use a volume of a CSI driver.
func (n *Node) attach(v *Volume, pods int) {
	if v.Driver == "" {
		return
	}
	if n.attached == nil {
		n.attached, n.attachedOf = map[attachment]int{}, map[string]int64{}
	}
	key := attachment{v.Driver, v.Handle}
	before := n.attached[key]
	n.attached[key] = before + pods
	switch {
	case before == 0 && pods > 0:
		n.attachedOf[v.Driver]++
	case before+pods == 0:
		delete(n.attached, key)
		n.attachedOf[v.Driver]--
	}
}
