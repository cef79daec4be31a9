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
	// affinity is the pod's node selector and node affinity. anywhere is true if the pod has none.
	affinity nodeaffinity.RequiredNodeAffinity
	anywhere bool
	// toleratesCordon is true if the pod may be put on a cordoned node.
	toleratesCordon bool
}

// Port is a port of the node that a pod uses.
type Port struct {
	IP       string
	Protocol corev1.Protocol
	Number   int32
}

// anyAddress means a port on all addresses of the node.
const anyAddress = "0.0.0.0"

// Volume has the relevant properties of a claim and its volume. The zero value can be reached from any node and needs no
// attachment.
type Volume struct {
	// reachable selects the nodes that can reach it; nil means all. zones are labels of the volume that its node must
	// share.
	reachable *nodeaffinity.NodeSelector
	zones     []zone
	// Driver and Handle identify a volume that a CSI driver attaches; empty for other volumes.
	Driver, Handle string
	// isExclusive is true if only one pod may use the claim at a time. Users counts the running pods that use it.
	isExclusive bool
	Users       int
}

// zone is a zone label of a volume. A node with zone labels must have one of the values.
type zone struct {
	label  string
	values []string
}

// Device has the relevant properties of a ResourceClaim: the nodes with its devices, nil for all. They may change when
// its last user ends.
type Device struct {
	reachable *nodeaffinity.NodeSelector
	// Users counts the running pods that use it. isHeld is true if something other than a known pod also reserves it.
	Users  int
	isHeld bool
}

// Storage finds the volumes and devices that pods name.
type Storage struct {
	volumes map[types.NamespacedName]*Volume
	devices map[types.NamespacedName]*Device
}

// NewStorage returns the storage of a cluster. A claim without a volume in the list does not bind pods to nodes, and
// neither does a ResourceClaim without an allocation. pods are all pods of the cluster: a ResourceClaim that is reserved
// for something else is marked as held.
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

// zoneLabels returns the labels of a volume that its node must share (volumezone/volume_zone.go).
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

// NeedsOf returns what the pod requires of its node. Unknown volumes and ResourceClaims do not bind it to a node.
func (s *Storage) NeedsOf(pod *corev1.Pod) Needs {
	n := s.UsageOf(pod)
	n.SetNodeRequirements(pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations)
	return n
}

// UsageOf returns what the pod uses on its node, without the requirements of SetNodeRequirements.
func (s *Storage) UsageOf(pod *corev1.Pod) Needs {
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

// DeviceClaims returns the names of the pod's ResourceClaims that exist longer than the pod. A claim that was created for
// the pod ends with it.
func DeviceClaims(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		}
	}
	return names
}

// UsesSameAs reports whether both use the same on a node.
func (n *Needs) UsesSameAs(o *Needs) bool {
	return n.Requests.Equal(&o.Requests) && slices.Equal(n.Ports, o.Ports) && slices.Equal(n.Volumes, o.Volumes) && slices.Equal(n.Devices, o.Devices)
}

// DependsOnOthers reports whether pods on other nodes affect where the pod fits: one of its claims is exclusive, or its
// devices are where another pod runs.
func (n *Needs) DependsOnOthers() bool {
	return len(n.Devices) > 0 || slices.ContainsFunc(n.Volumes, func(v *Volume) bool { return v.isExclusive })
}

// SetNodeRequirements sets which labels the node must have, and which taints the pod tolerates.
func (n *Needs) SetNodeRequirements(selector map[string]string, affinity *corev1.Affinity, tolerations []corev1.Toleration) {
	n.Tolerations = tolerations
	n.toleratesCordon = Tolerates(tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	n.affinity = nodeaffinity.NewRequiredNodeAffinity(selector, affinity)
	n.anywhere = len(selector) == 0 && (affinity == nil || affinity.NodeAffinity == nil)
}

// ToleratesTaintsOf reports whether the pod tolerates the node's taints and its cordon.
func (n *Needs) ToleratesTaintsOf(node *Node) bool {
	return n.checkTaints(node) == Fits
}

// checkTaints checks the node's cordon and taints.
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

// Selects reports whether the pod's node selector and node affinity match the node.
func (n *Needs) Selects(node *corev1.Node) bool {
	if n.anywhere {
		return true
	}
	ok, err := n.affinity.Match(node)
	return ok && err == nil
}

// HasNoNodeRequirements reports whether the pod has no node selector and no node affinity.
func (n *Needs) HasNoNodeRequirements() bool { return n.anywhere }

// Tolerates reports whether one of the tolerations tolerates the taint, by the rules of core/v1.
func Tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, false) {
			return true
		}
	}
	return false
}

// PortsOf returns the node's ports that the pod uses, including those of sidecars: init containers that restart always
// (kube-scheduler, util.GetHostPorts).
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

// conflicts reports whether both ports cannot be used on one node.
func (p Port) conflicts(o Port) bool {
	return p.Number == o.Number && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == anyAddress || o.IP == anyAddress)
}

// isInZoneOf reports whether a node with the labels is in the volume's zone.
func (v *Volume) isInZoneOf(labels map[string]string) bool {
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
