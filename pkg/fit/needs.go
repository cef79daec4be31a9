package fit

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Needs lists what a pod requires of its node: resources, ports, volumes and devices.
type Needs struct {
	Tolerations []corev1.Toleration
	Requests    Resources
	Ports       []Port
	Volumes     []*Volume
	Devices     []*Device
	// affinity is what the pod's node selector and node affinity ask for; anywhere is a pod that
	// asks for no particular nodes.
	affinity nodeaffinity.RequiredNodeAffinity
	anywhere bool
	// toleratesCordon is a pod that may be put on a cordoned node.
	toleratesCordon bool
}

// Port is a port of the node's that a pod takes.
type Port struct {
	IP       string
	Protocol corev1.Protocol
	Number   int32
}

// anyAddress is a port on all addresses of the node.
const anyAddress = "0.0.0.0"

// Volume is what matters of a claim and of the volume that it is bound to. The zero value is
// reachable from any node and attached to none.
type Volume struct {
	// reachable are the nodes that it is reachable from, nil for all; zones are its labels that
	// nodes must share.
	reachable *nodeaffinity.NodeSelector
	zones     []zone
	// Driver and Handle name what a CSI driver attaches; empty for another volume.
	Driver, Handle string
	// isExclusive is a claim that one pod may use at a time, Users are the pods that run with it.
	isExclusive bool
	Users       int
}

// zone is a label of a volume: where a node has such labels, it must have one of the values.
type zone struct {
	label  string
	values []string
}

// Device is what matters of a ResourceClaim: the nodes that its devices are on, nil for all, until
// its last user ends.
type Device struct {
	reachable *nodeaffinity.NodeSelector
	// Users are the pods that run with it; isHeld is one that others hold, too.
	Users  int
	isHeld bool
}

// Storage finds what pods name: volumes by claim, and devices.
type Storage struct {
	volumes map[types.NamespacedName]*Volume
	devices map[types.NamespacedName]*Device
}

// NewStorage looks at the claims of a cluster. Claims that are not bound to a volume of the list
// bind nothing, nor do ResourceClaims without an allocation. pods are all pods: a ResourceClaim that
// none of them holds, but that is reserved, is held by what is not known here.
func NewStorage(claims []*corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume, devices []*resourcev1.ResourceClaim, pods []*corev1.Pod) *Storage {
	s := &Storage{volumes: make(map[types.NamespacedName]*Volume, len(claims)), devices: make(map[types.NamespacedName]*Device, len(devices))}
	byName := make(map[string]*corev1.PersistentVolume, len(volumes))
	for _, volume := range volumes {
		byName[volume.Name] = volume
	}
	for _, claim := range claims {
		s.volumes[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = newVolume(claim, byName[claim.Spec.VolumeName])
	}
	if len(devices) == 0 {
		return s
	}
	known := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		known[pod.UID] = true
	}
	for _, claim := range devices {
		s.devices[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = newDevice(claim, known)
	}
	return s
}

func newVolume(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) *Volume {
	v := &Volume{isExclusive: slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)}
	if volume == nil {
		return v
	}
	if csi := volume.Spec.CSI; csi != nil {
		v.Driver, v.Handle = csi.Driver, csi.VolumeHandle
	}
	for _, label := range zoneLabels() {
		if value, has := volume.Labels[label]; has {
			v.zones = append(v.zones, zone{label, strings.Split(value, "__")})
		}
	}
	if affinity := volume.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		if selector, err := nodeaffinity.NewNodeSelector(affinity.Required); err == nil {
			v.reachable = selector
		}
	}
	return v
}

// zoneLabels are the labels of a volume that nodes must share (volumezone/volume_zone.go).
func zoneLabels() []string {
	return []string{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion}
}

func newDevice(claim *resourcev1.ResourceClaim, known map[types.UID]bool) *Device {
	d := &Device{isHeld: slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return !known[r.UID] })}
	if allocation := claim.Status.Allocation; allocation != nil && allocation.NodeSelector != nil {
		if selector, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector); err == nil {
			d.reachable = selector
		}
	}
	return d
}

// NeedsOf reads what the pod asks of its node. Volumes and ResourceClaims that are not known bind it
// to none.
func (s *Storage) NeedsOf(pod *corev1.Pod) Needs {
	n := s.TakesOf(pod)
	n.SetPlace(pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations)
	return n
}

// TakesOf reads what the pod takes up on its node, and leaves the rest to SetPlace.
func (s *Storage) TakesOf(pod *corev1.Pod) Needs {
	n := Needs{Requests: RequestsOf(pod), Ports: PortsOf(pod)}
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			if volume := s.volumes[types.NamespacedName{Namespace: pod.Namespace, Name: claim.ClaimName}]; volume != nil && !slices.Contains(n.Volumes, volume) {
				n.Volumes = append(n.Volumes, volume)
			}
		}
	}
	for _, name := range DeviceClaims(pod) {
		if device := s.devices[types.NamespacedName{Namespace: pod.Namespace, Name: name}]; device != nil && !slices.Contains(n.Devices, device) {
			n.Devices = append(n.Devices, device)
		}
	}
	return n
}

// DeviceClaims names the ResourceClaims of the pod that outlive it. One that is made for the pod
// ends with it, and its successor gets another.
func DeviceClaims(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		}
	}
	return names
}

// TakesAs reports whether both take up the same on a node.
func (n *Needs) TakesAs(o *Needs) bool {
	return n.Requests.Equal(&o.Requests) && slices.Equal(n.Ports, o.Ports) && slices.Equal(n.Volumes, o.Volumes) && slices.Equal(n.Devices, o.Devices)
}

// DependsOnOthers reports whether it matters to the pod what pods on other nodes mount: a claim is for
// one of them at a time, or its devices are where one of them runs.
func (n *Needs) DependsOnOthers() bool {
	return len(n.Devices) > 0 || slices.ContainsFunc(n.Volumes, func(v *Volume) bool { return v.isExclusive })
}

// SetPlace sets what the pod asks of a node's labels, and which taints it tolerates.
func (n *Needs) SetPlace(selector map[string]string, affinity *corev1.Affinity, tolerations []corev1.Toleration) {
	n.Tolerations = tolerations
	n.toleratesCordon = Tolerates(tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	n.affinity = nodeaffinity.NewRequiredNodeAffinity(selector, affinity)
	n.anywhere = len(selector) == 0 && (affinity == nil || affinity.NodeAffinity == nil)
}

// ToleratesTaintsOf reports whether the pod tolerates the node's taints and its cordon.
func (n *Needs) ToleratesTaintsOf(node *Node) bool {
	return n.checkTaints(node) == Fits
}

// checkTaints looks at the node's cordon and taints.
func (n *Needs) checkTaints(node *Node) Reason {
	if node.Object.Spec.Unschedulable && !n.toleratesCordon {
		return Unschedulable
	}
	for i := range node.Taints {
		if !Tolerates(n.Tolerations, &node.Taints[i]) {
			return UntoleratedTaint
		}
	}
	return Fits
}

// Selects reports whether node selector and node affinity allow the node.
func (n *Needs) Selects(node *corev1.Node) bool {
	if n.anywhere {
		return true
	}
	ok, err := n.affinity.Match(node)
	return ok && err == nil
}

// IsAnywhere reports whether the pod asks for no particular nodes.
func (n *Needs) IsAnywhere() bool { return n.anywhere }

// Tolerates reports whether one of the tolerations tolerates the taint, by the comparison of
// core/v1.
func Tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, false) {
			return true
		}
	}
	return false
}

// PortsOf are the ports of its node that the pod takes. A container that restarts before the others
// start, a sidecar, has ports too (kube-scheduler, util.GetHostPorts).
func PortsOf(pod *corev1.Pod) []Port {
	var ports []Port
	for i := range pod.Spec.InitContainers {
		if policy := pod.Spec.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			ports = appendPorts(ports, pod.Spec.InitContainers[i].Ports)
		}
	}
	for i := range pod.Spec.Containers {
		ports = appendPorts(ports, pod.Spec.Containers[i].Ports)
	}
	return ports
}

func appendPorts(ports []Port, more []corev1.ContainerPort) []Port {
	for i := range more {
		if more[i].HostPort <= 0 {
			continue
		}
		port := Port{more[i].HostIP, more[i].Protocol, more[i].HostPort}
		if port.IP == "" {
			port.IP = anyAddress
		}
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
		ports = append(ports, port)
	}
	return ports
}

// conflicts reports whether both cannot be taken on one node.
func (p Port) conflicts(o Port) bool {
	return p.Number == o.Number && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == anyAddress || o.IP == anyAddress)
}

// sameZone reports whether the node is in the volume's zone.
func (v *Volume) sameZone(labels map[string]string) bool {
	if len(v.zones) == 0 || !slices.ContainsFunc(zoneLabels(), func(label string) bool { _, has := labels[label]; return has }) {
		return true
	}
	stable := map[string]string{corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion}
	return !slices.ContainsFunc(v.zones, func(z zone) bool {
		value, has := labels[z.label]
		if !has {
			value, has = labels[stable[z.label]]
		}
		return !has || !slices.Contains(z.values, value)
	})
}
