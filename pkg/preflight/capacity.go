package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// capacityRules returns the rules about space for the pods that move.
func capacityRules() []Rule {
	return []Rule{
		{
			ID: "CAP001", Severity: Block, StartsAnyway: true, find: findLackOfRoom,
			Text:   "The nodes that stay and the nodes that are added first have too little free CPU or memory, or too few free pod slots, for the pods of the nodes that are drained at the same time. Some of these pods will stay Pending. The rule adds up requests: pods that fit in total may still fit on no single node. The finding is a warning if an autoscaler serves the group, or if no node is added first. If only taints keep the pods from nodes with room, it names these taints.",
			Source: "GKE node pool upgrade strategies; EKS phases",
		},
		{
			ID: "CAP002", Severity: Error, More: volumeKinds(), find: findZonesWithoutNodes,
			Text:   "A zone has outdated nodes with pods that are bound to it, by a volume, a spread constraint or their node selection. No other node of the zone takes pods, and no node is added there before the drain, so these pods stay Pending. The finding is a warning if the group replaces each drained node, as with --max-surge=0: the pods wait until then.",
			Source: "EKS phases",
		},
		{
			ID: "CAP004", Severity: Error, find: perTemplate(findTooSmallNodes),
			Text:   "No node that stays, and no node that is added, is large enough for a pod that must leave its outdated node. The pod requests too much CPU, memory, ephemeral storage, huge pages or of an extended resource such as a GPU. It stays Pending, even if nothing else runs on these nodes.",
			Source: "plugins/noderesources/fit.go; karpenter#1563, k8s-device-plugin#291",
		},
		{
			ID: "CAP003", Severity: Warn, find: findUnusableMembers,
			Text:   "A node of the group is not ready, or a user or another process cordoned it. It takes no pods and counts as unavailable. Until it is back, fewer nodes are drained at the same time, but at least one.",
			Source: "rancher#25946, kops#11367",
		},
	}
}

// findLackOfRoom implements rule CAP001. It checks only the first drains: each later drain can use
// the node that was launched to replace a node drained before.
func findLackOfRoom(s *Scene) []Finding {
	r := &s.World.Request
	if traits := r.ReplacedBy().Traits(); traits.Expires || traits.ByAutoscaler {
		return nil // no node is drained, or an autoscaler adds nodes as pods need them
	}
	if !slices.ContainsFunc(s.Nodes, func(n *corev1.Node) bool { return !n.Status.Allocatable.Pods().IsZero() }) {
		return nil // the nodes' allocatable resources are not known
	}
	rooms := roomCounter{}
	needed, drained := s.sumLeavingRequests(rooms)
	free, staying := s.sumFreeResources(rooms, placement.canRunOn)
	added := s.countNewNodes()
	var more room
	for range added {
		more.add(s.roomOfNewNode(rooms))
	}
	free.add(more)
	lacking := needed.describeShortage(free)
	if len(lacking) == 0 {
		return nil
	}
	which := "which are drained at the same time"
	if s.World.Group.Can.Refill == nodegroup.RefillByUser {
		which = "which only you can replace"
	}
	f := Finding{
		Message: fmt.Sprintf("the pods of %s, %s, request %s; nodes that stay: %d, nodes added first: %d",
			formatCount(drained, "node"), which, strings.Join(lacking, " and "), staying, added),
		Remedy: "add nodes first, drain fewer nodes at a time or lower the pods' requests",
	}
	if more := adviseSurge(s.World, added+1); more != "" {
		f.Remedy = more + ", " + adviseFewerNodes(s.World) + " or lower the pods' requests"
	}
	if open, all := s.sumFreeResources(rooms, placement.selectsNode); all > staying {
		taints := strings.Join(s.untoleratedTaints(), ", ")
		if open.add(more); len(needed.describeShortage(open)) == 0 {
			f.Message = fmt.Sprintf("the pods of %s, %s, fit only on %s with taints that they do not tolerate: %s", formatCount(drained, "node"), which, formatCount(all-staying, "node"), taints)
			f.Remedy = "remove the taints, add tolerations to the pods, or " + f.Remedy
		} else {
			f.Message += fmt.Sprintf("; nodes with taints that the pods do not tolerate: %d (%s)", all-staying, taints)
		}
	}
	switch {
	case s.World.Group.Autoscaler.Serves:
		f.Severity = Warn
		f.Remedy = "check that the autoscaler may add nodes, or " + f.Remedy
	case added == 0: // pods may wait for the nodes that replace the drained ones
		f.Severity = Warn
	}
	return []Finding{f}
}

// countNewNodes returns how many nodes are added before the first one is drained.
func (s *Scene) countNewNodes() int {
	if !s.World.Group.AddsNodes() {
		return 0
	}
	return s.World.Request.Surge
}

// sumLeavingRequests returns the largest sum of the requests of pods that leave together, and the number of their
// nodes. If only users add replacements, the pods of all outdated nodes leave together.
func (s *Scene) sumLeavingRequests(rooms roomCounter) (most room, nodes int) {
	leaving := map[string]room{}
	for _, w := range s.Workloads {
		for _, pod := range w.Leaving {
			sum := leaving[pod.Spec.NodeName]
			sum.add(rooms.count(pod))
			leaving[pod.Spec.NodeName] = sum
		}
	}
	nodes = min(max(1, s.World.Request.Window), len(leaving))
	if s.World.Group.Can.Refill == nodegroup.RefillByUser {
		nodes = len(leaving)
	}
	all := slices.Collect(maps.Values(leaving))
	return room{
		cpu:    sumLargest(all, nodes, func(r room) int64 { return r.cpu }),
		memory: sumLargest(all, nodes, func(r room) int64 { return r.memory }),
		pods:   sumLargest(all, nodes, func(r room) int64 { return r.pods }),
	}, nodes
}

func sumLargest(all []room, n int, of func(room) int64) (sum int64) {
	slices.SortFunc(all, func(a, b room) int { return cmp.Compare(of(b), of(a)) })
	for _, r := range all[:n] {
		sum += of(r)
	}
	return sum
}

// sumFreeResources returns the free resources on the nodes that stay and that take one of the workloads, and
// the number of these nodes. takes reports whether a node takes a workload.
func (s *Scene) sumFreeResources(rooms roomCounter, takes func(placement, *corev1.Node) bool) (free room, nodes int) {
	used, lowest := map[string]room{}, s.lowestLeavingPriority()
	for _, pod := range s.Pods {
		if pod.Spec.NodeName != "" && !hasPodEnded(pod) && priorityOf(pod) >= lowest { // pods of lower priority are preempted
			sum := used[pod.Spec.NodeName]
			sum.add(rooms.count(pod))
			used[pod.Spec.NodeName] = sum
		}
	}
	var places []placement
	for _, w := range s.Workloads {
		places = append(places, placementOf(w.Model()))
	}
	for _, node := range s.staying {
		if !nodegroup.IsNodeReady(node) || !slices.ContainsFunc(places, func(p placement) bool { return takes(p, node) }) {
			continue
		}
		nodes++
		left := roomOfResourceList(node.Status.Allocatable)
		left.subtract(used[node.Name])
		free.add(left)
	}
	return free, nodes
}

// untoleratedTaints returns the taints that keep all workloads from nodes that stay.
func (s *Scene) untoleratedTaints() []string {
	taints := map[string]bool{}
	for _, w := range s.Workloads {
		may := placementOf(w.Model())
		for _, node := range s.staying {
			if !nodegroup.IsNodeReady(node) || !may.selectsNode(node) {
				continue
			}
			for i := range node.Spec.Taints {
				if taint := &node.Spec.Taints[i]; taint.Effect != corev1.TaintEffectPreferNoSchedule && !drain.ToleratesTaint(may.pod, *taint) {
					taints[taint.ToString()] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(taints))
}

// lowestLeavingPriority returns the lowest priority of a pod that leaves. All of these pods preempt
// pods of lower priority. It returns the minimum if one of them must not preempt.
func (s *Scene) lowestLeavingPriority() int32 {
	lowest := int32(math.MaxInt32)
	for _, w := range s.Workloads {
		for _, pod := range w.Leaving {
			if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever {
				return math.MinInt32
			}
			lowest = min(lowest, priorityOf(pod))
		}
	}
	return lowest
}

// priorityOf returns the pod's priority, which is 0 by default.
func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// roomOfNewNode returns the resources of a new node for pods that move: those of an outdated node
// minus its DaemonSet pods and static pods.
func (s *Scene) roomOfNewNode(rooms roomCounter) room {
	for i := range s.World.Members {
		m := &s.World.Members[i]
		if !m.Outdated || m.Node == nil {
			continue
		}
		free := roomOfResourceList(m.Node.Status.Allocatable)
		for _, pod := range m.Pods {
			if drain.OwnerKind(pod) == "DaemonSet" || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
				free.subtract(rooms.count(pod))
			}
		}
		return free
	}
	return room{}
}

// findZonesWithoutNodes implements rule CAP002.
func findZonesWithoutNodes(s *Scene) []Finding {
	if traits := s.World.Request.ReplacedBy().Traits(); traits.Expires || traits.ByAutoscaler {
		return nil
	}
	bound := s.countZoneBoundPods()
	for _, node := range s.staying {
		if nodegroup.IsNodeReady(node) {
			delete(bound, node.Labels[corev1.LabelTopologyZone])
		}
	}
	var found []Finding
	for _, zone := range slices.Sorted(maps.Keys(bound)) {
		if f := s.explainNoNewNode(zone, formatCount(bound[zone], "pod")+" bound to the zone"); f != nil {
			f.Object = "zone " + zone
			found = append(found, *f)
		}
	}
	return found
}

// countZoneBoundPods counts the pods that must leave their node and that only a node of the same zone takes, by zone.
func (s *Scene) countZoneBoundPods() map[string]int {
	bound := map[string]int{}
	for _, w := range s.Workloads {
		for _, pod := range w.Leaving {
			node := s.nodes[pod.Spec.NodeName]
			if node == nil || node.Labels[corev1.LabelTopologyZone] == "" { // a cluster without zones
				continue
			}
			if zone := node.Labels[corev1.LabelTopologyZone]; s.isBoundToZone(pod, zone) {
				bound[zone]++
			}
		}
	}
	return bound
}

// isBoundToZone reports whether the pod's volumes, its spread constraints or its node selection keep it in the zone.
func (s *Scene) isBoundToZone(pod *corev1.Pod, zone string) bool {
	for i := range pod.Spec.Volumes {
		if terms := s.volumeTermsOf(pod, &pod.Spec.Volumes[i]); slices.Contains(zonesOf(terms), zone) && !s.isReachable(terms, pod) {
			return true
		}
	}
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule && slices.Contains(zoneKeys(), c.TopologyKey)
	}) {
		return true
	}
	may := placementOf(pod)
	return slices.ContainsFunc(zoneKeys(), func(key string) bool { return selectsByLabel(pod, key) }) && !slices.ContainsFunc(s.staying, may.selectsNode)
}

// selectsByLabel reports whether the pod's node selector or its required affinity names the label.
func selectsByLabel(pod *corev1.Pod, key string) bool {
	return slices.Contains(keysOf(pod, requiredNodeAffinity(pod)), key)
}

// explainNoNewNode returns the finding for pods whose zone gets no new node before its outdated nodes are drained, nil if it
// gets one. If the group replaces the drained nodes, the pods only wait until then.
func (s *Scene) explainNoNewNode(zone, pods string) *Finding {
	g, why := &s.World.Group, "all of its nodes are outdated, and "
	switch {
	case !g.AddsNodes():
		return &Finding{Message: why + "the group adds none: " + pods + " must move and will stay Pending", Remedy: "add a node there before the upgrade"}
	case len(g.Zones) > 0 && !slices.Contains(g.Zones, zone):
		return &Finding{
			Message: why + "the group launches nodes only in " + strings.Join(g.Zones, ", ") + ": " + pods + " must move and will stay Pending",
			Remedy:  "add a subnet of the zone to the group, or a node there by other means",
		}
	case s.World.Request.Surge == 0:
		return &Finding{
			Severity: Warn, Message: why + "none is added before they are drained: " + pods + " must wait until a drained node is replaced",
			Remedy: joinAlternatives(adviseSurge(s.World, 1), "add a node there before the upgrade"),
		}
	default:
		return nil
	}
}

// sampleNewNodes returns examples of the nodes that the group adds: its current nodes or, if there
// are none yet, its outdated nodes.
func (s *Scene) sampleNewNodes() []drain.Sample {
	if s.World.Group.Can.Refill == nodegroup.RefillByUser {
		return nil
	}
	var current, outdated []drain.Sample
	for i := range s.World.Members {
		switch m := &s.World.Members[i]; {
		case m.Node == nil:
		case m.Outdated:
			outdated = append(outdated, drain.Sample{Node: m.Node, Pods: m.Pods})
		default:
			current = append(current, drain.Sample{Node: m.Node, Pods: s.daemons[m.Node.Name]})
		}
	}
	if len(current) > 0 {
		return current
	}
	return outdated
}

// findTooSmallNodes implements rule CAP004.
func findTooSmallNodes(s *Scene, _ *Workload, pod *corev1.Pod) *Finding {
	var samples []drain.Sample
	for _, node := range s.staying {
		samples = append(samples, drain.Sample{Node: node, Pods: s.daemons[node.Name]})
	}
	samples = append(samples, s.sampleNewNodes()...)
	why := drain.WhyNoneFits(pod, samples)
	if !strings.Contains(why, "Insufficient") {
		return nil // it fits, or only labels and taints keep it away
	}
	return &Finding{
		Message: "no node that stays or is added is large enough for its pods, even when empty (" + why + "), so they stay Pending",
		Remedy:  "add larger nodes first, or lower its requests",
	}
}

// findUnusableMembers implements rule CAP003.
func findUnusableMembers(s *Scene) []Finding {
	var found []Finding
	for i := range s.World.Members {
		node := s.World.Members[i].Node
		if node == nil {
			continue
		}
		f := Finding{Object: "node " + node.Name, Node: node.Name}
		switch isOurs := node.Annotations[nodemark.AnnotationRun] != ""; {
		case !nodegroup.IsNodeReady(node):
			f.Message = "it is not ready, so it takes no pods and counts as unavailable"
			f.Remedy = "repair it, or terminate its instance"
		case node.Spec.Unschedulable && !isOurs:
			f.Message = "a user or another process cordoned it, so it takes no pods and counts as unavailable"
			f.Remedy = "find out why, and uncordon it if the reason no longer holds"
			f.Fix = shell.Command("kubectl uncordon", node.Name)
		default:
			continue
		}
		found = append(found, f)
	}
	return found
}
