package fit

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	quantities "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
)

// Unlimited is the quantity of a resource that a node does not report.
const Unlimited = math.MaxInt64

// Resources are what pods request or a node offers.
type Resources struct {
	// CPU is in thousandths. Memory and Storage (ephemeral) are in bytes.
	CPU, Memory, Storage int64
	// Others has huge pages and extended resources, such as GPUs, sorted by name; nil for none. The list is replaced,
	// never changed.
	Others []Quantity
}

// Quantity is an amount of a resource.
type Quantity struct {
	Name  corev1.ResourceName
	Value int64
}

// MostCPU, in thousandths, and MostBytes are the largest amounts that MilliCPU and Bytes return. No node has as much, and sums of
// them over the pods of a node group do not overflow.
const (
	MostCPU   = 1 << 43
	MostBytes = 1 << 50
)

// MilliCPU returns a CPU quantity in thousandths, at least 0 and at most MostCPU. The API server refuses negative quantities.
func MilliCPU(q *quantities.Quantity) int64 {
	if q.CmpInt64(MostCPU/1000) > 0 { // the thousandths may overflow
		return MostCPU
	}
	return max(0, q.MilliValue())
}

// Bytes returns a quantity in bytes, at least 0 and at most MostBytes.
func Bytes(q *quantities.Quantity) int64 {
	if q.CmpInt64(MostBytes) > 0 { // the value may not fit into an int64
		return MostBytes
	}
	return max(0, q.Value())
}

// RequestsOf returns what the scheduler reserves for the pod.
func RequestsOf(pod *corev1.Pod) Resources {
	list := resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: pod.Spec.NodeName != ""})
	return Resources{MilliCPU(list.Cpu()), Bytes(list.Memory()), Bytes(list.StorageEphemeral()), othersOf(list)}
}

// othersOf returns the quantities of the list without a field of their own.
func othersOf(list corev1.ResourceList) []Quantity {
	var others []Quantity
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		default:
			if quantity.Sign() > 0 {
				others = append(others, Quantity{name, quantity.Value()})
			}
		}
	}
	slices.SortFunc(others, func(a, b Quantity) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return others
}

// OtherQuantity returns the quantity of one of the other resources; 0 if there is none.
func (r *Resources) OtherQuantity(name corev1.ResourceName) int64 {
	for i := range r.Others {
		if r.Others[i].Name == name {
			return r.Others[i].Value
		}
	}
	return 0
}

// Equal reports whether both are equal.
func (r *Resources) Equal(o *Resources) bool {
	return r.CPU == o.CPU && r.Memory == o.Memory && r.Storage == o.Storage && slices.Equal(r.Others, o.Others)
}

// Add adds the other resources the given number of times. A negative number subtracts them.
func (r *Resources) Add(o *Resources, times int64) {
	r.CPU, r.Memory, r.Storage = r.CPU+times*o.CPU, r.Memory+times*o.Memory, r.Storage+times*o.Storage
	if len(o.Others) == 0 {
		return
	}
	sum := slices.Clone(r.Others)
	for _, more := range o.Others {
		i, found := slices.BinarySearchFunc(sum, more.Name, func(q Quantity, name corev1.ResourceName) int { return strings.Compare(string(q.Name), string(name)) })
		if !found {
			sum = slices.Insert(sum, i, Quantity{Name: more.Name})
		}
		sum[i].Value += times * more.Value
	}
	r.Others = sum
}

// Max returns the larger of the two quantities of each resource.
func (r *Resources) Max(o *Resources) Resources {
	largest := Resources{max(r.CPU, o.CPU), max(r.Memory, o.Memory), max(r.Storage, o.Storage), slices.Clone(r.Others)}
	for _, other := range o.Others {
		if have := r.OtherQuantity(other.Name); other.Value > have {
			largest.Others = slices.DeleteFunc(largest.Others, func(q Quantity) bool { return q.Name == other.Name })
			largest.Others = append(largest.Others, other)
		}
	}
	slices.SortFunc(largest.Others, func(a, b Quantity) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return largest
}

// List returns the resources in Kubernetes' form, without zero quantities.
func (r *Resources) List() corev1.ResourceList {
	list := corev1.ResourceList{}
	add := func(name corev1.ResourceName, quantity *quantities.Quantity) {
		if !quantity.IsZero() {
			list[name] = *quantity
		}
	}
	add(corev1.ResourceCPU, quantities.NewMilliQuantity(r.CPU, quantities.DecimalSI))
	add(corev1.ResourceMemory, quantities.NewQuantity(r.Memory, quantities.BinarySI))
	add(corev1.ResourceEphemeralStorage, quantities.NewQuantity(r.Storage, quantities.BinarySI))
	for _, other := range r.Others {
		add(other.Name, quantities.NewQuantity(other.Value, quantities.DecimalSI))
	}
	return list
}

// IsExtended reports whether a device plugin reports the resource, rather than the kubelet (k8s.io/kubernetes,
// pkg/apis/core/v1/helper, IsExtendedResourceName).
func IsExtended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}
