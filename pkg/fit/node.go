package fit

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Node is a node and what the pods on it use.
type Node struct {
	// Object has the node's labels. Taints are those that keep pods away.
	Object *corev1.Node
	Taints []corev1.Taint
	// Allocatable is what the node offers to pods, and MaxPods is how many may run. A field is Unlimited if the node does
	// not report it. Other resources that it does not report count as 0.
	Allocatable Resources
	MaxPods     int64
	// Used is what its pods use, and Pods is their number.
	Used Resources
	Pods int64
	// ports counts the pods that use each port. More than one may use it if the scheduler was bypassed.
	ports map[Port]int
	// Attachable is how many volumes each CSI driver may attach; other drivers have no limit. attached counts the pods
	// that use each volume, and attachedOf counts the volumes by driver.
	Attachable map[string]int64
	attached   map[attachment]int
	attachedOf map[string]int64
}

// attachment identifies a volume by its CSI driver and handle.
type attachment struct{ driver, handle string }

// NewNode returns a node without pods.
func NewNode(object *corev1.Node) *Node {
	n := &Node{}
	n.Update(object)
	return n
}

// Update sets a new version of the node's object.
func (n *Node) Update(object *corev1.Node) {
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

// reported returns the quantity in the list, or Unlimited if it is missing.
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

// AttachLimits returns how many volumes each CSI driver may attach to a node. Drivers without a limit are omitted.
func AttachLimits(csi *storagev1.CSINode) map[string]int64 {
	limits := map[string]int64{}
	for i := range csi.Spec.Drivers {
		if d := &csi.Spec.Drivers[i]; d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[d.Name] = int64(*d.Allocatable.Count)
		}
	}
	return limits
}

// AddPods adds the given number of pods with these needs to the node. A negative number removes pods.
func (n *Node) AddPods(p *Needs, pods int) {
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

// ReserveRoom reserves room for one more pod with these needs on a node that is only simulated. It does not use the pod's
// volumes and devices.
func (n *Node) ReserveRoom(p *Needs) {
	n.AddPods(&Needs{Requests: p.Requests, Ports: p.Ports}, 1)
}

// WithoutPods returns the node without pods. Both share the data that pods do not change.
func (n *Node) WithoutPods() Node {
	return Node{Object: n.Object, Taints: n.Taints, Allocatable: n.Allocatable, MaxPods: n.MaxPods, Attachable: n.Attachable}
}

// attach adds pods that use a volume of a CSI driver.
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
