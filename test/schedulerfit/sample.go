package schedulerfit

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sample is a random cluster with one pod that waits for a node.
type sample struct {
	random         *rand.Rand
	nodes          []*corev1.Node
	pods           []*corev1.Pod
	waiting        *corev1.Pod
	namespaces     []*corev1.Namespace
	claims         []*corev1.PersistentVolumeClaim
	volumes        []*corev1.PersistentVolume
	csiNodes       []*storagev1.CSINode
	resourceClaims []*resourcev1.ResourceClaim
}

// newSample draws the cluster of a seed. It draws from few values, so that constraints interact.
func newSample(seed uint64) *sample {
	c := &sample{random: rand.New(rand.NewPCG(seed, 36))}
	for i := range 2 {
		c.namespaces = append(c.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns%d", i), Labels: c.labels("team")}})
	}
	for i := range 1 + c.random.IntN(5) {
		c.nodes = append(c.nodes, c.node(fmt.Sprintf("n%d", i)))
	}
	for i := range 4 {
		c.addClaim(i)
	}
	for i := range 2 {
		c.addResourceClaim(fmt.Sprintf("device%d", i))
	}
	for i := range c.random.IntN(10) {
		pod := c.pod(fmt.Sprintf("p%d", i))
		pod.Spec.NodeName = c.pickNode()
		if c.chance(8) {
			pod.Status.Phase = corev1.PodSucceeded
		}
		if c.chance(8) {
			pod.DeletionTimestamp = &metav1.Time{Time: began}
		}
		c.pods = append(c.pods, pod)
	}
	c.waiting = c.pod("waiting")
	return c
}

// chance returns true with a probability of 1 in of.
func (c *sample) chance(of int) bool { return c.random.IntN(of) == 0 }

func (c *sample) pick(values ...string) string { return values[c.random.IntN(len(values))] }

func (c *sample) pickNode() string { return c.nodes[c.random.IntN(len(c.nodes))].Name }

// labels draws values for some of the keys.
func (c *sample) labels(keys ...string) map[string]string {
	drawn := map[string]string{}
	for _, key := range keys {
		if !c.chance(6) {
			drawn[key] = c.pick("a", "b")
		}
	}
	return drawn
}

const (
	gpu       = "example.com/gpu"
	hugepages = "hugepages-2Mi"
	driver    = "disk.example.com"
)

func (c *sample) node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: c.labels("rack", corev1.LabelTopologyZone)}}
	if !c.chance(6) {
		node.Labels[corev1.LabelHostname] = name
	}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: c.quantity("2", "4", "8"), corev1.ResourceMemory: c.quantity("2Gi", "4Gi", "8Gi"),
		corev1.ResourceEphemeralStorage: c.quantity("10Gi", "40Gi"), corev1.ResourcePods: c.quantity("3", "10", "10"),
		hugepages: c.quantity("0", "4Mi"),
	}
	if c.chance(2) {
		node.Status.Allocatable[gpu] = c.quantity("0", "1", "2")
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if c.chance(10) { // the node controller adds the taint
		node.Spec.Unschedulable = true
		node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	}
	if c.chance(3) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: c.pick("t1", "t2"), Value: c.pick("", "x"),
			Effect: corev1.TaintEffect(c.pick("NoSchedule", "NoExecute", "PreferNoSchedule")),
		})
	}
	if c.chance(2) {
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		limited := storagev1.CSINodeDriver{Name: driver, NodeID: name}
		if !c.chance(4) {
			limited.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(1 + c.random.IntN(2)))}
		}
		csi.Spec.Drivers = []storagev1.CSINodeDriver{limited}
		c.csiNodes = append(c.csiNodes, csi)
	}
	return node
}

func (c *sample) quantity(values ...string) resource.Quantity {
	return resource.MustParse(c.pick(values...))
}

// addClaim adds a claim in each namespace, each bound to its own volume.
func (c *sample) addClaim(number int) {
	for _, namespace := range c.namespaces {
		name := fmt.Sprintf("claim%d", number)
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name + "-" + name}}
		volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace.Name, Name: name, UID: types.UID(volume.Name)}
		if c.chance(3) {
			volume.Spec.NFS = &corev1.NFSVolumeSource{}
		} else {
			volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: c.pick(volume.Name, "shared")}
		}
		if c.chance(2) {
			volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{c.pick("a", "b")}}}},
			}}}
		}
		if c.chance(4) {
			volume.Labels = map[string]string{c.pick(corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone): c.pick("a", "b", "a__b")}
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace.Name, Name: name, UID: types.UID(volume.Name),
			Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
		}}
		claim.Spec.VolumeName = volume.Name
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(c.pick("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))}
		claim.Status.Phase = corev1.ClaimBound
		c.claims, c.volumes = append(c.claims, claim), append(c.volumes, volume)
	}
}

// addResourceClaim adds an allocated ResourceClaim in each namespace. Each is available on one node or on all.
func (c *sample) addResourceClaim(name string) {
	for _, namespace := range c.namespaces {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: name, UID: types.UID(namespace.Name + name)}}
		claim.Status.Allocation = &resourcev1.AllocationResult{}
		if !c.chance(3) {
			claim.Status.Allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{c.pickNode()}}}},
			}}
		}
		// A holder that runs on no node here keeps the claim allocated.
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "holder", UID: "holder"}}
		c.resourceClaims = append(c.resourceClaims, claim)
	}
}

func (c *sample) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.namespaces[c.random.IntN(len(c.namespaces))].Name, Name: name, UID: types.UID(name), Labels: c.labels("app", "tier"),
	}}
	pod.Status.Phase = corev1.PodRunning
	spec := &pod.Spec
	for i := range 1 + c.random.IntN(2) {
		spec.Containers = append(spec.Containers, c.container(fmt.Sprintf("c%d", i)))
	}
	if c.chance(4) {
		spec.InitContainers = []corev1.Container{c.container("init")}
		if c.chance(2) {
			spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
	}
	if c.chance(8) {
		spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
	}
	c.placePod(spec)
	c.mountVolumes(spec)
	if c.chance(3) {
		spec.Affinity = c.affinity()
	}
	for range c.random.IntN(3) {
		if c.chance(2) {
			spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, c.spread())
		}
	}
	spec.TopologySpreadConstraints = uniqueSpreads(spec.TopologySpreadConstraints)
	return pod
}

// placePod draws tolerations and a node selector.
func (c *sample) placePod(spec *corev1.PodSpec) {
	for range c.random.IntN(3) {
		operator := corev1.TolerationOperator(c.pick("Exists", "Equal", ""))
		toleration := corev1.Toleration{Key: c.pick("t1", "t2", corev1.TaintNodeUnschedulable), Operator: operator, Effect: corev1.TaintEffect(c.pick("", "NoSchedule", "NoExecute"))}
		if operator != corev1.TolerationOpExists {
			toleration.Value = c.pick("", "x")
		}
		spec.Tolerations = append(spec.Tolerations, toleration)
	}
	if c.chance(6) {
		spec.NodeSelector = c.labels("rack")
	}
}

func (c *sample) container(name string) corev1.Container {
	container := corev1.Container{Name: name, Image: "image"}
	requests := corev1.ResourceList{}
	if !c.chance(3) {
		requests[corev1.ResourceCPU] = c.quantity("100m", "500m", "1")
	}
	if !c.chance(3) {
		requests[corev1.ResourceMemory] = c.quantity("128Mi", "512Mi", "1Gi")
	}
	if c.chance(4) {
		requests[corev1.ResourceEphemeralStorage] = c.quantity("1Gi", "6Gi")
	}
	if c.chance(16) {
		requests[gpu] = c.quantity("0", "1")
	}
	if c.chance(20) {
		requests[hugepages] = c.quantity("2Mi", "4Mi")
	}
	container.Resources.Requests = requests
	if c.chance(4) {
		container.Ports = []corev1.ContainerPort{{
			ContainerPort: 80, HostPort: int32(c.random.IntN(3)), HostIP: c.pick("", "0.0.0.0", "10.0.0.1"), Protocol: corev1.Protocol(c.pick("", "TCP", "UDP")),
		}}
	}
	return container
}

// mountVolumes draws claims of volumes and of devices.
func (c *sample) mountVolumes(spec *corev1.PodSpec) {
	for i := range c.random.IntN(3) {
		if !c.chance(3) {
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("claim%d", c.random.IntN(4))},
			}})
		}
	}
	if c.chance(8) {
		spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: new(fmt.Sprintf("device%d", c.random.IntN(2)))}}
	}
}

func (c *sample) selector(keys ...string) *metav1.LabelSelector {
	if c.chance(6) {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: keys[0], Operator: metav1.LabelSelectorOperator(c.pick("Exists", "DoesNotExist"))}}}
	}
	return &metav1.LabelSelector{MatchLabels: c.labels(keys...)}
}

func (c *sample) affinity() *corev1.Affinity {
	affinity := &corev1.Affinity{}
	if c.chance(3) {
		affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{c.nodeTerm(), c.nodeTerm()}}}
	}
	if c.chance(2) {
		affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: c.podTerms()}
	}
	if c.chance(2) {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: c.podTerms()}
	}
	return affinity
}

func (c *sample) nodeTerm() corev1.NodeSelectorTerm {
	if c.chance(4) {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{c.pickNode()}}}}
	}
	operator := corev1.NodeSelectorOperator(c.pick("In", "NotIn", "Exists", "DoesNotExist"))
	requirement := corev1.NodeSelectorRequirement{Key: c.pick("rack", corev1.LabelTopologyZone), Operator: operator}
	if operator == corev1.NodeSelectorOpIn || operator == corev1.NodeSelectorOpNotIn {
		requirement.Values = []string{c.pick("a", "b")}
	}
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{requirement}}
}

func (c *sample) podTerms() []corev1.PodAffinityTerm {
	var terms []corev1.PodAffinityTerm
	for range 1 + c.random.IntN(2) {
		term := corev1.PodAffinityTerm{TopologyKey: c.pick(corev1.LabelHostname, corev1.LabelTopologyZone, "rack"), LabelSelector: c.selector("app", "tier")}
		switch c.random.IntN(4) {
		case 0:
			term.Namespaces = []string{c.pick("ns0", "ns1")}
		case 1:
			term.NamespaceSelector = c.selector("team")
		case 2:
			term.Namespaces, term.NamespaceSelector = []string{c.pick("ns0", "ns1")}, c.selector("team")
		}
		terms = append(terms, term)
	}
	return terms
}

func (c *sample) spread() corev1.TopologySpreadConstraint {
	s := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + c.random.IntN(2)), TopologyKey: c.pick(corev1.LabelHostname, corev1.LabelTopologyZone, "rack"),
		WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: c.selector("app", "tier"),
	}
	if c.chance(3) {
		s.MinDomains = new(int32(1 + c.random.IntN(3)))
	}
	if c.chance(3) {
		s.NodeAffinityPolicy = new(corev1.NodeInclusionPolicy(c.pick("Honor", "Ignore")))
	}
	if c.chance(3) {
		s.NodeTaintsPolicy = new(corev1.NodeInclusionPolicy(c.pick("Honor", "Ignore")))
	}
	if c.chance(4) {
		s.MatchLabelKeys = []string{"tier"}
	}
	if c.chance(5) {
		s.WhenUnsatisfiable = corev1.ScheduleAnyway
	}
	return s
}

// uniqueSpreads keeps one constraint for each topology key: the API server refuses two.
func uniqueSpreads(all []corev1.TopologySpreadConstraint) []corev1.TopologySpreadConstraint {
	var kept []corev1.TopologySpreadConstraint
	seen := map[string]bool{}
	for _, s := range all {
		if !seen[s.TopologyKey] {
			seen[s.TopologyKey] = true
			kept = append(kept, s)
		}
	}
	return kept
}

// began is when the simulation begins.
var began = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
