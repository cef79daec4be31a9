package preflight

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Scene is a cluster before an upgrade, indexed once by workload.
type Scene struct {
	// World is the upgrade that would start.
	World *upgrade.World
	Facts Facts
	*inventory.Objects
	// Workloads have a pod that would have to leave, sorted by namespace, kind and name.
	Workloads []*Workload

	// outdated are the names of outdated nodes, nodes are all by name. Namespaces that were not
	// read are missing.
	outdated   map[string]bool
	nodes      map[string]*corev1.Node
	namespaces map[string]*corev1.Namespace
	// staying are the nodes that pods may move to: schedulable, and not outdated. Nodes that the
	// upgrade adds are not among them.
	staying []*corev1.Node
	// daemons are the pods of DaemonSets and static pods, by the names of their nodes.
	daemons map[string][]*corev1.Pod
	// claimed are the volumes behind claims, by the claims' namespace/name.
	claimed map[string]*corev1.PersistentVolume
	// byName are the workloads by what String says of them.
	byName map[string]*Workload
	// ofUpgrade is what CheckUpgrade found.
	ofUpgrade []Finding
}

// NewScene indexes objects for the upgrade that would start from the World.
func NewScene(w *upgrade.World, facts Facts, objects *inventory.Objects) *Scene {
	facts.Pods, facts.Scales, facts.Counted = slices.Values(objects.Pods), ScalesOf(objects), CountedIn(objects)
	s := &Scene{
		World: w, Facts: facts, Objects: objects, outdated: map[string]bool{},
		nodes: indexBy(objects.Nodes, metav1.Object.GetName), namespaces: indexBy(objects.Namespaces, metav1.Object.GetName),
	}
	for i := range w.Members {
		if m := &w.Members[i]; m.Outdated && m.Node != nil {
			s.outdated[m.Node.Name] = true
		}
	}
	for _, node := range objects.Nodes {
		if !s.outdated[node.Name] && !node.Spec.Unschedulable {
			s.staying = append(s.staying, node)
		}
	}
	s.claimed, s.daemons = indexVolumes(s), indexDaemons(objects.Pods)
	s.Workloads = indexWorkloads(s)
	s.byName = make(map[string]*Workload, len(s.Workloads))
	for _, w := range s.Workloads {
		s.byName[w.String()] = w
	}
	s.ofUpgrade = CheckUpgrade(w, facts)
	s.nameWorkloads(s.ofUpgrade)
	return s
}

// indexDaemons finds the pods that each node has of its own.
func indexDaemons(pods []*corev1.Pod) map[string][]*corev1.Pod {
	index := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if kind := drain.OwnerKind(pod); kind == "DaemonSet" || kind == "Node" {
			index[pod.Spec.NodeName] = append(index[pod.Spec.NodeName], pod)
		}
	}
	return index
}

// nameWorkloads names the workloads of the findings about pods.
func (s *Scene) nameWorkloads(found []Finding) {
	if len(found) == 0 {
		return
	}
	names := map[string]string{}
	for _, w := range s.Workloads {
		for _, pod := range w.Leaving {
			names[nameObject("pod", pod)] = w.String()
		}
	}
	for i := range found {
		found[i].Workload = names[found[i].Object]
	}
}

// AnnotationSkip begins the annotations that switch a rule off for an object, its pods or its
// workload; their value is the reason: "skip-check.kubectl-nodeupgrade/PDB001".
const AnnotationSkip = "skip-check.kubectl-nodeupgrade/"

// SkipAnnotated names the workloads of findings about pods that are to leave, and sets Skipped where an annotation leaves the rule out.
func (s *Scene) SkipAnnotated(found []Finding) {
	s.nameWorkloads(found)
	for i := range found {
		found[i].Skipped = s.skipReason(&found[i])
	}
}

// skipReason is why a finding is not to count, "" when it is.
func (s *Scene) skipReason(f *Finding) string {
	if w := s.byName[f.Workload]; w != nil {
		return w.annotation(AnnotationSkip + f.Rule)
	}
	return ""
}
