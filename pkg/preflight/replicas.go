package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// replicaRules returns the rules about the number of a workload's pods and of their nodes.
func replicaRules() []Rule {
	return []Rule{
		{
			ID: "REP001", Severity: Note, Reads: []string{"services"}, More: balancerKinds(), find: perWorkload(findOnlyReplica),
			Text:   "A Deployment, ReplicaSet or StatefulSet with one replica is behind a service. From the pod's eviction until its replacement is ready, requests fail. The finding is an error if clients come from outside the cluster: through an Ingress, a TargetGroupBinding or a service of type LoadBalancer or NodePort. Services whose ports are all for metrics do not count.",
			Source: "kubernetes#66811, kubernetes#114877",
		},
		{
			ID: "REP002", Severity: Error, Reads: []string{budgetKind}, find: perWorkload(findAllOnOneNode),
			Text:   "All ready replicas of a workload are on one outdated node, and no budget limits how many of them may be missing. The drain of that node evicts all of them except the last ready one, which the implicit budgets of this tool keep until a new pod is ready. If EKS drains the node, or with --implicit-budgets=false, all of them are evicted together.",
			Source: "kubernetes#31487, kubernetes#48307",
		},
		{
			ID: "REP003", Severity: Warn, Reads: []string{budgetKind}, find: perWorkload(findAllInOneBatch),
			Text:   "All ready replicas of a workload are on several outdated nodes of one zone, although the cluster has more zones. Or they have no budget and are on so few nodes that all of these may be drained at the same time. Pods with a nodeSelector for their zone do not count, nor do findings of TSC004.",
			Source: "this project; kubernetes.io, Pod Topology Spread Constraints",
		},
	}
}

// findOnlyReplica implements rule REP001.
func findOnlyReplica(s *Scene, w *Workload) *Finding {
	service := w.clientService()
	if !w.IsScaled() || w.Replicas() != 1 || service == nil || isMovedBySurge(s.World, w.Model()) {
		return nil
	}
	f := &Finding{Message: fmt.Sprintf("it has one replica: requests to %s fail from its eviction until the next pod is ready", nameObject("Service", service))}
	if entrance := w.findExternalEntrance(); entrance != "" {
		f.Severity = Error
		f.Message = fmt.Sprintf("it has one replica, and %s leads to it from outside the cluster: requests fail from its eviction until the next pod is ready", entrance)
	}
	f.Remedy, f.Fix = w.adviseSecondReplica()
	return f
}

// clientService returns a service with more ports than those for metrics, nil if there is none. It
// prefers services that are not headless, because clients use these.
func (w *Workload) clientService() (asked *corev1.Service) {
	for _, service := range w.Services {
		if isForMetrics(service) {
			continue
		}
		if service.Spec.ClusterIP != corev1.ClusterIPNone {
			return service
		}
		asked = cmp.Or(asked, service)
	}
	return asked
}

// findExternalEntrance returns the name of an object through which clients outside the cluster reach the
// workload, "" if there is none.
func (w *Workload) findExternalEntrance() string {
	if len(w.Ingresses) > 0 {
		return nameObject("Ingress", w.Ingresses[0])
	}
	for _, service := range w.Services {
		isOpen := service.Spec.Type == corev1.ServiceTypeLoadBalancer || service.Spec.Type == corev1.ServiceTypeNodePort
		if isOpen && !isForMetrics(service) {
			return nameObject("Service", service)
		}
	}
	if len(w.Bindings) > 0 {
		return fmt.Sprintf("TargetGroupBinding %s/%s", w.Bindings[0].Namespace, w.Bindings[0].Name)
	}
	return ""
}

// adviseSecondReplica returns how to give a workload of one pod a second one. It returns no command if that
// may be wrong: the second pod of a database is not a copy of the first, a volume can often be used
// by only one node, and Recreate is for pods that cannot run together.
func (w *Workload) adviseSecondReplica() (remedy, fix string) {
	const quiet = ", or upgrade when an interruption is acceptable"
	budget := ""
	if len(w.Budgets) == 0 {
		budget = ", with a PodDisruptionBudget of maxUnavailable: 1"
	}
	switch {
	case w.Kind == "StatefulSet":
		return "run a second replica if it replicates its data" + budget + quiet, ""
	case hasClaim(w.Model()):
		return "run a second replica if its volume can be mounted twice" + budget + quiet, ""
	case w.usesRecreate():
		return "run a second replica if two may run side by side, although its strategy is Recreate" + budget + quiet, ""
	}
	fix = w.secondReplicaCommand()
	if create := w.createBudgetCommand(); fix != "" && budget != "" && create != "" {
		fix += " && " + create
	}
	return "run 2 replicas" + budget, fix
}

// secondReplicaCommand returns the command that sets two replicas, "" if its strategy is Recreate or
// its autoscaler allows only one.
func (w *Workload) secondReplicaCommand() string {
	if w.usesRecreate() || (w.Scaler != nil && w.Scaler.Spec.MaxReplicas < 2) {
		return "" // the user may have chosen Recreate because only one pod may run
	}
	return w.patchReplicasCommand(2)
}

// usesRecreate reports whether a rollout stops all old pods before it starts new ones.
func (w *Workload) usesRecreate() bool {
	return w.Deployment != nil && w.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

func hasClaim(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
}

// isForMetrics reports whether only metrics scrapers use the service. A gap in metrics is not an
// outage.
func isForMetrics(service *corev1.Service) bool {
	ports := service.Spec.Ports
	return len(ports) > 0 && !slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return !strings.Contains(p.Name, "metrics") })
}

// readyLocations is where the ready pods of a workload run.
type readyLocations struct {
	pods         int
	nodes, zones sets.Set[string]
	// isLeaving is true if all of them are on outdated nodes.
	isLeaving bool
}

func (s *Scene) locateReadyPods(w *Workload) readyLocations {
	at := readyLocations{nodes: sets.Set[string]{}, zones: sets.Set[string]{}, isLeaving: true}
	for _, pod := range w.Pods {
		if !drain.Ready(pod) {
			continue
		}
		at.pods++
		at.nodes.Insert(pod.Spec.NodeName)
		at.isLeaving = at.isLeaving && s.outdated[pod.Spec.NodeName]
		if node := s.nodes[pod.Spec.NodeName]; node != nil {
			at.zones.Insert(node.Labels[corev1.LabelTopologyZone])
		}
	}
	return at
}

// findAllOnOneNode implements rule REP002.
func findAllOnOneNode(s *Scene, w *Workload) *Finding {
	at := s.locateReadyPods(w)
	if !w.IsScaled() || at.pods < 2 || len(at.nodes) != 1 || !at.isLeaving || len(w.Budgets) > 0 {
		return nil
	}
	node := at.nodes.UnsortedList()[0]
	return &Finding{
		Node:    node,
		Message: fmt.Sprintf("all of its %d ready pods are on node %s, and no budget limits how many its drain evicts at the same time", at.pods, node),
		Remedy:  "give it a PodDisruptionBudget with maxUnavailable: 1, and spread it over nodes with topologySpreadConstraints",
		Fix:     w.createBudgetCommand(),
	}
}

// findAllInOneBatch implements rule REP003.
func findAllInOneBatch(s *Scene, w *Workload) *Finding {
	at := s.locateReadyPods(w)
	if !w.IsScaled() || at.pods < 2 || len(at.nodes) < 2 || !at.isLeaving {
		return nil
	}
	if window := s.World.Request.Window; len(at.nodes) <= window && len(w.Budgets) == 0 {
		return &Finding{
			Message: fmt.Sprintf("all of its %d ready pods are on %d nodes, %d nodes may be drained at the same time, and no budget covers it", at.pods, len(at.nodes), window),
			Remedy:  "give it a PodDisruptionBudget with maxUnavailable: 1, or drain one node at a time",
			Fix:     w.createBudgetCommand(),
		}
	}
	if len(at.zones) != 1 || at.zones.Has("") || w.Model().Spec.NodeSelector[corev1.LabelTopologyZone] != "" {
		return nil
	}
	zone := at.zones.UnsortedList()[0]
	if !s.hasOtherZone(zone) || s.isZoneSkewed(w) {
		return nil
	}
	f := &Finding{
		Message: fmt.Sprintf("all of its %d ready pods are in zone %s, and all of their nodes are replaced", at.pods, zone),
		Remedy:  "spread it over zones with topologySpreadConstraints: topologyKey topology.kubernetes.io/zone, maxSkew 1",
	}
	if spreadsOverZones(w.Model()) {
		f.Remedy = "delete all of them except one before the upgrade, one after the other: the scheduler spreads pods over zones only when it places them"
	}
	return f
}

// isZoneSkewed reports whether rule TSC004 already reports that a zone has too many of the pods.
func (s *Scene) isZoneSkewed(w *Workload) bool {
	return slices.ContainsFunc(hardConstraints(w.Model()), func(c corev1.TopologySpreadConstraint) bool {
		return slices.Contains(zoneKeys(), c.TopologyKey) && s.findSkewOf(w, &c) != nil
	})
}

// spreadsOverZones reports whether a spread constraint or an anti-affinity of the pod spreads it over
// zones.
func spreadsOverZones(pod *corev1.Pod) bool {
	isOfZones := func(key string) bool { return slices.Contains(zoneKeys(), key) }
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return isOfZones(c.TopologyKey) && selects(c.LabelSelector, pod.Labels)
	}) || slices.ContainsFunc(antiAffinityTerms(pod), func(term corev1.PodAffinityTerm) bool {
		return isOfZones(term.TopologyKey) && selects(term.LabelSelector, pod.Labels)
	})
}

func (s *Scene) hasOtherZone(zone string) bool {
	return slices.ContainsFunc(s.Nodes, func(node *corev1.Node) bool {
		other := node.Labels[corev1.LabelTopologyZone]
		return other != "" && other != zone
	})
}
