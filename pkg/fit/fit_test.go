package fit_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// having sets what the node has, as in "cpu=1 pods=2".
func having(list string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Status.Allocatable = quantities(list) }
}

// asking adds a container with the requests.
func asking(list string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: quantities(list)}})
	}
}

func quantities(list string) corev1.ResourceList {
	of := corev1.ResourceList{}
	for _, one := range strings.Fields(list) {
		name, quantity, _ := strings.Cut(one, "=")
		of[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return of
}

// onPort makes the pod use a port of the node.
func onPort(ip string, protocol corev1.Protocol) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Ports: []corev1.ContainerPort{{HostPort: 443, HostIP: ip, Protocol: protocol}}})
	}
}

// mounting makes the pod mount the claim.
func mounting(claim string) func(*corev1.Pod) {
	return build.Volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
}

// disks returns claims of the namespace default, each bound to a volume of a CSI driver.
func disks(names ...string) *fit.Storage {
	var claims []*corev1.PersistentVolumeClaim
	var volumes []*corev1.PersistentVolume
	for _, name := range names {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: build.Pod("x").Namespace, Name: name}}
		claim.Spec.VolumeName = "pv-" + name
		if name == "exclusive" {
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk", VolumeHandle: name}
		claims, volumes = append(claims, claim), append(volumes, volume)
	}
	return fit.NewStorage(claims, volumes, nil, nil)
}

// TestExplainNamesWhyPodDoesNotFitNode checks a pod against a node with other pods. test/schedulerfit compares many more answers with
// kube-scheduler's.
func TestExplainNamesWhyPodDoesNotFitNode(t *testing.T) {
	const all = "cpu=2 memory=4Gi ephemeral-storage=10Gi pods=3 example.com/gpu=1"
	cases := map[string]struct {
		node   func(*corev1.Node)
		others [][]func(*corev1.Pod)
		pod    []func(*corev1.Pod)
		want   []fit.Reason
	}{
		"an empty node":                  {having(all), nil, []func(*corev1.Pod){asking("cpu=2 memory=4Gi ephemeral-storage=10Gi example.com/gpu=1")}, nil},
		"exactly as much as is left":     {having(all), [][]func(*corev1.Pod){{asking("cpu=1")}}, []func(*corev1.Pod){asking("cpu=1")}, nil},
		"a little more":                  {having(all), [][]func(*corev1.Pod){{asking("cpu=1")}}, []func(*corev1.Pod){asking("cpu=1001m")}, []fit.Reason{"Insufficient cpu"}},
		"too little of two":              {having(all), nil, []func(*corev1.Pod){asking("cpu=3 memory=5Gi")}, []fit.Reason{"Insufficient cpu", "Insufficient memory"}},
		"a GPU that another has":         {having(all), [][]func(*corev1.Pod){{asking("example.com/gpu=1")}}, []func(*corev1.Pod){asking("example.com/gpu=1")}, []fit.Reason{"Insufficient example.com/gpu"}},
		"a GPU where there is none":      {having("cpu=2"), nil, []func(*corev1.Pod){asking("example.com/gpu=1")}, []fit.Reason{"Insufficient example.com/gpu"}},
		"huge pages":                     {having("hugepages-2Mi=2Mi"), nil, []func(*corev1.Pod){asking("hugepages-2Mi=4Mi")}, []fit.Reason{"Insufficient hugepages-2Mi"}},
		"storage":                        {having(all), nil, []func(*corev1.Pod){asking("ephemeral-storage=11Gi")}, []fit.Reason{"Insufficient ephemeral-storage"}},
		"what the node does not report":  {having("pods=3"), nil, []func(*corev1.Pod){asking("cpu=64 ephemeral-storage=1Ti")}, nil},
		"one pod too many":               {having(all), [][]func(*corev1.Pod){{}, {}, {}}, nil, []fit.Reason{fit.TooManyPods}},
		"a port that another has":        {having(all), [][]func(*corev1.Pod){{onPort("", "")}}, []func(*corev1.Pod){onPort("10.0.0.1", "TCP")}, []fit.Reason{fit.PortTaken}},
		"the port of another address":    {having(all), [][]func(*corev1.Pod){{onPort("10.0.0.2", "")}}, []func(*corev1.Pod){onPort("10.0.0.1", "")}, nil},
		"the port of another protocol":   {having(all), [][]func(*corev1.Pod){{onPort("", "UDP")}}, []func(*corev1.Pod){onPort("", "TCP")}, nil},
		"as many volumes as it attaches": {having(all), [][]func(*corev1.Pod){{mounting("a")}}, []func(*corev1.Pod){mounting("b")}, nil},
		"one volume more":                {having(all), [][]func(*corev1.Pod){{mounting("a")}, {mounting("b")}}, []func(*corev1.Pod){mounting("c")}, []fit.Reason{fit.TooManyVolumes}},
		"a volume that it has already":   {having(all), [][]func(*corev1.Pod){{mounting("a")}, {mounting("b")}}, []func(*corev1.Pod){mounting("b")}, nil},
		"a claim for one pod":            {having(all), [][]func(*corev1.Pod){{mounting("exclusive")}}, []func(*corev1.Pod){mounting("exclusive")}, []fit.Reason{fit.ClaimInUse}},
		"a taint":                        {build.Tainted("dedicated"), nil, nil, []fit.Reason{fit.UntoleratedTaint}},
		"a cordon before all":            {func(n *corev1.Node) { having("cpu=1")(n); n.Spec.Unschedulable = true }, nil, []func(*corev1.Pod){asking("cpu=3")}, []fit.Reason{fit.Unschedulable}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			storage := disks("a", "b", "c", "exclusive")
			node := fit.NewNode(build.Node("n", "a", c.node))
			node.Attachable = map[string]int64{"disk": 2}
			for _, other := range c.others {
				needs := storage.NeedsOf(build.Pod("other", other...))
				node.AddPods(&needs, 1)
			}
			needs := storage.NeedsOf(build.Pod("pod", c.pod...))
			got := fit.Explain(&needs, node)
			if !slices.Equal(got, c.want) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
			first := fit.Fits
			if len(c.want) > 0 {
				first = c.want[0]
			}
			if why := fit.Check(&needs, node); why != first {
				t.Errorf("in short it says %q, want %q", why, first)
			}
		})
	}
}

// When a pod has left a node, the node has the same room as before the pod came.
func TestRemovedPodReleasesNodeResources(t *testing.T) {
	storage := disks("exclusive")
	node := fit.NewNode(build.Node("n", "a", having("cpu=1 pods=1 example.com/gpu=1")))
	node.Attachable = map[string]int64{"disk": 1}
	needs := storage.NeedsOf(build.Pod("pod", asking("cpu=1 example.com/gpu=1"), onPort("", ""), mounting("exclusive")))
	for range 2 {
		if why := fit.Explain(&needs, node); len(why) > 0 {
			t.Fatalf("the empty node says %q", why)
		}
		node.AddPods(&needs, 1)
		if why := fit.Check(&needs, node); why != fit.PortTaken {
			t.Errorf("the full node says %q, want %q", why, fit.PortTaken)
		}
		node.AddPods(&needs, -1)
	}
}

// Sums of absurd requests stay positive. Negative requests, which the API server refuses, count as none.
func TestSumsOfAbsurdRequestsStayPositive(t *testing.T) {
	for requests, want := range map[string]struct{ cpu, memory int64 }{
		"cpu=9Pi memory=8Ei":     {fit.MostCPU, fit.MostBytes},
		"cpu=-15 memory=-1Gi":    {0, 0},
		"cpu=1500m memory=2Gi":   {1500, 2 << 30},
		"cpu=10000 memory=100Ti": {10_000_000, 100 << 40},
		"cpu=9e18 memory=9e30":   {fit.MostCPU, fit.MostBytes},
	} {
		one := fit.RequestsOf(build.Pod("web", asking(requests)))
		if one.CPU != want.cpu || one.Memory != want.memory {
			t.Errorf("%s: got %d CPU and %d bytes, want %+v", requests, one.CPU, one.Memory, want)
		}
		var sum fit.Resources
		for range 5000 { // as many pods as a node group of the largest cluster has
			sum.Add(&one, 1)
		}
		if sum.CPU < one.CPU || sum.Memory < one.Memory {
			t.Errorf("%s: the sum is %+v", requests, sum)
		}
	}
}
