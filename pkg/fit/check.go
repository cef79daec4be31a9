package fit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Check returns why the node refuses the pod, or Fits: the first reason of the first filter of kube-scheduler that
// refuses. CheckDevices is the last filter.
func Check(p *Needs, n *Node) Reason {
	if why := checkNode(p, n); why != Fits {
		return why
	}
	if why := checkResources(p, n); why != Fits {
		return why
	}
	return checkVolumes(p, n)
}

// FitsEmpty reports whether the node would take the pod if it were empty, by its labels, taints and size.
func FitsEmpty(p *Needs, n *Node) bool {
	empty := n.WithoutPods()
	return checkNode(p, &empty) == Fits && checkResources(p, &empty) == Fits
}

// Explain returns all reasons of the filter that Check names, or none. Only the filter for resources has several.
func Explain(p *Needs, n *Node) []Reason {
	why := Check(p, n)
	if why == Fits {
		return nil
	}
	if checkNode(p, n) != Fits {
		return []Reason{why}
	}
	if all := listShortages(p, n); len(all) > 0 {
		return all
	}
	return []Reason{why}
}

// checkNode checks the node's cordon, taints, labels and ports.
func checkNode(p *Needs, n *Node) Reason {
	if why := p.checkTaints(n); why != Fits {
		return why
	}
	if !p.Selects(n.Object) {
		return SelectorMismatch
	}
	for _, port := range p.Ports {
		for taken := range n.ports {
			if port.conflicts(taken) {
				return PortTaken
			}
		}
	}
	return Fits
}

// checkResources returns the first resource that the node has too little of.
func checkResources(p *Needs, n *Node) Reason {
	wants, has, used := &p.Requests, &n.Allocatable, &n.Used
	switch {
	case n.Pods >= n.MaxPods:
		return TooManyPods
	case isShort(wants.CPU, has.CPU, used.CPU):
		return Insufficient(corev1.ResourceCPU)
	case isShort(wants.Memory, has.Memory, used.Memory):
		return Insufficient(corev1.ResourceMemory)
	case isShort(wants.Storage, has.Storage, used.Storage):
		return Insufficient(corev1.ResourceEphemeralStorage)
	}
	for _, other := range wants.Others {
		if isShort(other.Value, has.OtherQuantity(other.Name), used.OtherQuantity(other.Name)) {
			return Insufficient(other.Name)
		}
	}
	return Fits
}

// listShortages returns all resources that the node has too little of.
func listShortages(p *Needs, n *Node) []Reason {
	var all []Reason
	wants, has, used := &p.Requests, &n.Allocatable, &n.Used
	add := func(isShort bool, why Reason) {
		if isShort {
			all = append(all, why)
		}
	}
	add(n.Pods >= n.MaxPods, TooManyPods)
	add(isShort(wants.CPU, has.CPU, used.CPU), Insufficient(corev1.ResourceCPU))
	add(isShort(wants.Memory, has.Memory, used.Memory), Insufficient(corev1.ResourceMemory))
	add(isShort(wants.Storage, has.Storage, used.Storage), Insufficient(corev1.ResourceEphemeralStorage))
	for _, other := range wants.Others {
		add(isShort(other.Value, has.OtherQuantity(other.Name), used.OtherQuantity(other.Name)), Insufficient(other.Name))
	}
	return all
}

// isShort reports whether less is left than the pod wants.
func isShort(wants, has, used int64) bool { return wants > 0 && wants > has-used }

// checkVolumes checks the pod's volumes: whether another pod uses an exclusive one, how many the node may attach, and
// where they are.
func checkVolumes(p *Needs, n *Node) Reason {
	if len(p.Volumes) == 0 {
		return Fits
	}
	if slices.ContainsFunc(p.Volumes, func(v *Volume) bool { return v.isExclusive && v.Users > 0 }) {
		return ClaimInUse
	}
	if !n.canAttach(p.Volumes) {
		return TooManyVolumes
	}
	for _, volume := range p.Volumes {
		if volume.reachable != nil && !volume.reachable.Match(n.Object) {
			return VolumeMismatch
		}
	}
	if slices.ContainsFunc(p.Volumes, func(v *Volume) bool { return !v.isInZoneOf(n.Object.Labels) }) {
		return VolumeZone
	}
	return Fits
}

// canAttach reports whether the node may attach the volumes in addition to its own.
func (n *Node) canAttach(volumes []*Volume) bool {
	if len(n.Attachable) == 0 {
		return true
	}
	added := map[attachment]bool{}
	more := map[string]int64{}
	for _, volume := range volumes {
		key := attachment{volume.Driver, volume.Handle}
		limit, limited := n.Attachable[volume.Driver]
		if !limited || n.attached[key] > 0 || added[key] {
			continue
		}
		added[key] = true
		more[volume.Driver]++
		if n.attachedOf[volume.Driver]+more[volume.Driver] > limit {
			return false
		}
	}
	return true
}

// CheckDevices checks that the devices of the pod's allocated ResourceClaims can be reached from the node.
func CheckDevices(p *Needs, n *Node) Reason {
	for _, device := range p.Devices {
		if device.reachable != nil && !device.reachable.Match(n.Object) {
			return DeviceElsewhere
		}
	}
	return Fits
}
