package simulate

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// shape is what the scheduler has to know of a pod, shared by pods that are alike in it.
type shape struct {
	// like is a pod of the shape, kind and owner are its controller's.
	like  *corev1.Pod
	kind  string
	owner types.UID
	needs amount
	// tallies count pods of this shape among others, guards keep it away from others.
	tallies []*tally
	guards  []*guard

	// The rest is read off the pod, for pods without a controller not before one is to be placed or
	// repels others.
	parsed   bool
	class    *class
	affinity nodeaffinity.RequiredNodeAffinity
	// anywhere is a pod that asks for no particular nodes.
	anywhere bool
	cordon   bool
	near     []term
	apart    []term
	// repels are its own guards against others, from apart.
	repels  []*guard
	spread  []constraint
	volumes []*nodeaffinity.NodeSelector
}

// term is a required pod affinity or anti-affinity: the pods it means, and the label that makes
// nodes one place.
type term struct {
	pods *tally
	key  string
}

// relational reports whether it matters to the shape where other pods are.
func (s *shape) relational() bool { return len(s.near)+len(s.apart)+len(s.spread) > 0 }

// scored is what the scheduler takes a pod to use when it ranks nodes: a guess where it asks for
// nothing (kube-scheduler, util/pod_resources.go).
func (s *shape) scored() amount {
	a := s.needs
	if a.cpu == 0 {
		a.cpu = 100
	}
	if a.memory == 0 {
		a.memory = 200 << 20
	}
	return a
}

// needsOf is what the scheduler sets aside for the pod.
func needsOf(pod *corev1.Pod) amount {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	return amount{requests.Cpu().MilliValue(), requests.Memory().Value()}
}

// shapeOf finds the shape among those of the pod's controller, or makes it.
func (c *Cluster) shapeOf(pod *corev1.Pod) *shape {
	needs := needsOf(pod)
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return c.addShape(&shape{like: pod, needs: needs})
	}
	for _, s := range c.shapes[owner.UID] {
		if s.needs == needs && alike(s.like, pod, owner.Kind) {
			return s
		}
	}
	s := c.addShape(&shape{like: pod, kind: owner.Kind, owner: owner.UID, needs: needs})
	c.shapes[owner.UID] = append(c.shapes[owner.UID], s)
	c.parse(s)
	return s
}

// addShape has the shape counted by all tallies that mean it.
func (c *Cluster) addShape(s *shape) *shape {
	namespace := s.like.Namespace
	c.shapesIn[namespace] = append(c.shapesIn[namespace], s)
	for _, in := range []string{namespace, everywhere} {
		for _, t := range c.talliesIn[in] {
			t.take(s)
		}
	}
	return s
}

// alike reports whether two pods of one controller may go to the same places. A DaemonSet's pods
// name their node in their affinity, which says nothing of the next.
func alike(a, b *corev1.Pod, kind string) bool {
	if a.Namespace != b.Namespace || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Spec.NodeSelector, b.Spec.NodeSelector) {
		return false
	}
	if !reflect.DeepEqual(a.Spec.Tolerations, b.Spec.Tolerations) || !reflect.DeepEqual(a.Spec.TopologySpreadConstraints, b.Spec.TopologySpreadConstraints) {
		return false
	}
	return kind == daemonSet || (reflect.DeepEqual(a.Spec.Affinity, b.Spec.Affinity) && reflect.DeepEqual(claims(a), claims(b)))
}

func claims(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// parse reads the rest of the shape off its pod, once.
func (c *Cluster) parse(s *shape) {
	if s.parsed {
		return
	}
	s.parsed = true
	spec := &s.like.Spec
	affinity := spec.Affinity
	if s.kind == daemonSet {
		affinity = nil // it names the node of one pod
	}
	s.affinity = nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, affinity)
	s.anywhere = len(spec.NodeSelector) == 0 && (affinity == nil || affinity.NodeAffinity == nil)
	s.cordon = drain.Tolerates(s.like, cordonTaint())
	s.class = c.classOf(s)
	if affinity != nil {
		c.parsePodAffinity(s, affinity)
	}
	c.parseSpread(s)
	for _, name := range claims(s.like) {
		if selector := c.volumes[s.like.Namespace+"/"+name]; selector != nil {
			s.volumes = append(s.volumes, selector)
		}
	}
}

func cordonTaint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
}

func (c *Cluster) terms(pod *corev1.Pod, required []corev1.PodAffinityTerm) []term {
	terms := make([]term, 0, len(required))
	for i := range required {
		selector, err := metav1.LabelSelectorAsSelector(required[i].LabelSelector)
		if err != nil {
			selector = labels.Nothing() // the API server admits no such pod
		}
		terms = append(terms, term{pods: c.tally(namespaces(pod, &required[i]), selector), key: required[i].TopologyKey})
	}
	return terms
}

// namespaces are those whose pods the term means, nil for all. A selector of namespaces by their
// labels, which are not known here, is taken to select all: the stricter reading for pods that keep
// apart.
func namespaces(pod *corev1.Pod, t *corev1.PodAffinityTerm) []string {
	switch {
	case t.NamespaceSelector != nil:
		return nil
	case len(t.Namespaces) > 0:
		return t.Namespaces
	default:
		return []string{pod.Namespace}
	}
}

// volumeSelectors are the nodes that each claim's volume is reachable from, by namespace/name.
func volumeSelectors(spec *Spec) map[string]*nodeaffinity.NodeSelector {
	byName := make(map[string]*corev1.PersistentVolume, len(spec.Volumes))
	for _, volume := range spec.Volumes {
		byName[volume.Name] = volume
	}
	selectors := map[string]*nodeaffinity.NodeSelector{}
	for _, claim := range spec.Claims {
		volume := byName[claim.Spec.VolumeName]
		if volume != nil && volume.Spec.NodeAffinity != nil && volume.Spec.NodeAffinity.Required != nil {
			if selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required); err == nil {
				selectors[claim.Namespace+"/"+claim.Name] = selector
			}
		}
	}
	return selectors
}

// parsePodAffinity reads which pods the shape wants beside it and which it keeps away.
func (c *Cluster) parsePodAffinity(s *shape, affinity *corev1.Affinity) {
	if affinity.PodAffinity != nil {
		s.near = c.terms(s.like, affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity.PodAntiAffinity == nil {
		return
	}
	s.apart = c.terms(s.like, affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	for _, t := range s.apart {
		s.repels = append(s.repels, guardOf(t))
	}
}
