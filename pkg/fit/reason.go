package fit

import corev1 "k8s.io/api/core/v1"

// Reason is why a node does not take a pod, in the words of kube-scheduler; empty if it does.
type Reason string

// The reasons, each in the words of the kube-scheduler plugin that finds it.
const (
	Fits             Reason = ""
	Unschedulable    Reason = "node(s) were unschedulable"
	UntoleratedTaint Reason = "node(s) had untolerated taint(s)"
	SelectorMismatch Reason = "node(s) didn't match Pod's node affinity/selector"
	PortTaken        Reason = "node(s) didn't have free ports for the requested pod ports"
	TooManyPods      Reason = "Too many pods"
	ClaimInUse       Reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
	TooManyVolumes   Reason = "node(s) exceed max volume count"
	VolumeMismatch   Reason = "node(s) didn't match PersistentVolume's node affinity"
	VolumeZone       Reason = "node(s) had no available volume zone"
	DeviceElsewhere  Reason = "resourceclaim not available on the node"
)

// Insufficient returns the reason for a node that has too little of a resource left.
func Insufficient(resource corev1.ResourceName) Reason { return "Insufficient " + Reason(resource) }

// DependsOnNodeOnly reports whether the reason depends only on the node's own labels and taints, not on the pods on it.
func (r Reason) DependsOnNodeOnly() bool {
	return r == Unschedulable || r == UntoleratedTaint || r == SelectorMismatch
}
