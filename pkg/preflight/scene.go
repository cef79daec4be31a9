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
	// Workloads are the workloads with a pod that must leave its node, sorted by namespace, kind and name.
	Workloads []*Workload

	// outdated are the names of the outdated nodes, nodes are all nodes by name. namespaces lacks the namespaces that were not
	// read.
	outdated   map[string]bool
	nodes      map[string]*corev1.Node
	namespaces map[string]*corev1.Namespace
	// staying are the nodes that pods may move to: schedulable and not outdated. It does not include nodes that the upgrade adds.
	staying []*corev1.Node
	// daemons are the DaemonSet pods and static pods, by the names of their nodes.
	daemons map[string][]*corev1.Pod
	// claimed are the volumes of claims, by the claims' namespace/name.
	claimed map[string]*corev1.PersistentVolume
	// byName are the workloads by their String.
	byName map[string]*Workload
	// ofUpgrade are the findings of CheckUpgrade.
	ofUpgrade []Finding
}

// NewScene indexes the objects for the upgrade that would start from the World.
func NewScene(w *upgrade.World, facts Facts, objects *inventory.Objects) *Scene {
	facts.Pods, facts.Scales, facts.ReportedPods = slices.Values(objects.Pods), ScalesOf(objects), ReportedPodCounts(objects)
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
	s.claimed, s.daemons = volumesByClaim(s), daemonPodsByNode(objects.Pods)
	s.Workloads = workloadsWithLeavingPods(s)
	s.byName = make(map[string]*Workload, len(s.Workloads))
	for _, w := range s.Workloads {
		s.byName[w.String()] = w
	}
	s.ofUpgrade = CheckUpgrade(w, facts)
	s.setWorkloads(s.ofUpgrade)
	return s
}

// daemonPodsByNode returns the DaemonSet pods and static pods of each node.
func daemonPodsByNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
	index := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if kind := drain.OwnerKind(pod); kind == "DaemonSet" || kind == "Node" {
			index[pod.Spec.NodeName] = append(index[pod.Spec.NodeName], pod)
		}
	}
	return index
}

// setWorkloads sets the workloads of the findings about pods.
func (s *Scene) setWorkloads(found []Finding) {
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

// AnnotationSkip is the prefix of the annotations that disable a rule for an object, its pods or its workload. Their value is the
// reason: "skip-check.kubectl-nodeupgrade/PDB001".
const AnnotationSkip = "skip-check.kubectl-nodeupgrade/"

// SkipAnnotated sets the workloads of findings about pods that must move, and sets Skipped if an annotation disables the rule.
func (s *Scene) SkipAnnotated(found []Finding) {
	s.setWorkloads(found)
	for i := range found {
		found[i].Skipped = s.skipReason(&found[i])
	}
}

// skipReason returns why a finding does not count, "" if it does.
func (s *Scene) skipReason(f *Finding) string {
	if w := s.byName[f.Workload]; w != nil {
		return w.annotation(AnnotationSkip + f.Rule)
	}
	return ""
}
