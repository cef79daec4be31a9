package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// volumeKinds returns the kinds that show where a pod's volumes are.
func volumeKinds() []string { return []string{"persistentvolumeclaims", "persistentvolumes"} }

// volumesByClaim returns the volumes of claims, by the claims' namespace/name.
func volumesByClaim(s *Scene) map[string]*corev1.PersistentVolume {
	byName, index := indexBy(s.Volumes, metav1.Object.GetName), map[string]*corev1.PersistentVolume{}
	for _, claim := range s.Claims {
		if volume := byName[claim.Spec.VolumeName]; volume != nil {
			index[claim.Namespace+"/"+claim.Name] = volume
		}
	}
	return index
}

// volumeTermsOf returns the node selector terms of the volume that a pod claims, nil if any node may use
// it. An ephemeral claim is deleted with its pod, and the next pod gets a new volume, so it has no
// terms.
func (s *Scene) volumeTermsOf(pod *corev1.Pod, volume *corev1.Volume) []corev1.NodeSelectorTerm {
	if volume.PersistentVolumeClaim == nil {
		return nil
	}
	held := s.claimed[pod.Namespace+"/"+volume.PersistentVolumeClaim.ClaimName]
	if held == nil || held.Spec.NodeAffinity == nil || held.Spec.NodeAffinity.Required == nil {
		return nil
	}
	return held.Spec.NodeAffinity.Required.NodeSelectorTerms
}

func findLocalVolume(s *Scene, _ *Workload, pod *corev1.Pod) *Finding {
	var paths []string
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if terms := s.volumeTermsOf(pod, volume); s.isBoundToOutdatedHosts(terms) && !s.isReachable(terms, pod) {
			return &Finding{
				Message: "its volume " + volume.Name + " is on its node's disk, so its replacement stays Pending",
				Remedy:  "copy the data elsewhere; once the node is fenced, delete the volume's claim and then the pod, so that the new pod gets a new volume",
			}
		}
		if isDataPath(volume.HostPath) {
			paths = append(paths, volume.HostPath.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return &Finding{
		Severity: Warn,
		Message:  "it uses " + strings.Join(paths, ", ") + " of its node (hostPath), and that directory has other content on the next node",
		Remedy:   "move data that must be kept to a PersistentVolumeClaim",
	}
}

// isDataPath reports whether a host path may contain a pod's data. Paths that every node has by
// itself do not count.
func isDataPath(source *corev1.HostPathVolumeSource) bool {
	if source == nil {
		return false
	}
	if source.Type != nil && slices.Contains([]corev1.HostPathType{corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev}, *source.Type) {
		return false
	}
	path := strings.TrimSuffix(source.Path, "/") + "/"
	system := []string{"/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/dev/", "/sys/", "/proc/", "/run/", "/var/run/", "/boot/", "/var/log/", "/var/lib/kubelet/", "/opt/cni/"}
	return path != "/" && !slices.ContainsFunc(system, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// isBoundToOutdatedHosts reports whether each of a volume's terms names only outdated hosts, by any key
// that its driver uses.
func (s *Scene) isBoundToOutdatedHosts(terms []corev1.NodeSelectorTerm) bool {
	isHost := func(value string) bool {
		return slices.ContainsFunc(s.Nodes, func(node *corev1.Node) bool {
			return s.outdated[node.Name] && (node.Name == value || node.Labels[corev1.LabelHostname] == value)
		})
	}
	isOfHosts := func(r corev1.NodeSelectorRequirement) bool {
		return r.Operator == corev1.NodeSelectorOpIn && !slices.ContainsFunc(r.Values, func(value string) bool { return !isHost(value) })
	}
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, isOfHosts) && !slices.ContainsFunc(term.MatchFields, isOfHosts)
	})
}

// isReachable reports whether a node that stays may use the volume and run the pod.
func (s *Scene) isReachable(terms []corev1.NodeSelectorTerm, pod *corev1.Pod) bool {
	usable, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
	if err != nil {
		return false
	}
	may := placementOf(pod)
	return slices.ContainsFunc(s.staying, func(node *corev1.Node) bool { return usable.Match(node) && may.canRunOn(node) })
}

func findZonedVolume(s *Scene, _ *Workload, pod *corev1.Pod) *Finding {
	for i := range pod.Spec.Volumes {
		terms := s.volumeTermsOf(pod, &pod.Spec.Volumes[i])
		zones := zonesOf(terms)
		if len(zones) == 0 || s.isBoundToOutdatedHosts(terms) || s.canAddNodesInAnyOf(zones) || s.isReachable(terms, pod) {
			continue
		}
		return &Finding{
			Message: fmt.Sprintf("its volume %s is in zone %s, where no suitable node stays and the group adds none",
				pod.Spec.Volumes[i].Name, strings.Join(zones, ", ")),
			Remedy: "add a subnet of that zone to the group, or restore the volume from a snapshot in another zone",
		}
	}
	return nil
}

// findMissingClaim implements rule POD015.
func findMissingClaim(s *Scene, w *Workload, pod *corev1.Pod) *Finding {
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		at := slices.IndexFunc(s.Claims, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Namespace == pod.Namespace && c.Name == source.ClaimName
		})
		if at < 0 && w.Kind == "StatefulSet" { // the StatefulSet creates its claims again
			return &Finding{
				Message: fmt.Sprintf("its claim %s no longer exists: the next pod gets a new, empty volume or stays Pending", source.ClaimName),
				Remedy:  "create the claim again for the volume that the pod uses",
			}
		}
		if at < 0 {
			return &Finding{
				Message: fmt.Sprintf("its claim %s no longer exists, so its replacement stays Pending", source.ClaimName),
				Remedy:  "create the claim again for the volume that the pod uses",
			}
		}
		switch claim := s.Claims[at]; {
		case claim.DeletionTimestamp != nil:
			return &Finding{
				Message: fmt.Sprintf("its claim %s is being deleted and disappears when the pod leaves: its replacement does not find the data", claim.Name),
				Remedy:  "copy the data elsewhere, and set the volume's persistentVolumeReclaimPolicy to Retain",
			}
		case claim.Status.Phase == corev1.ClaimLost:
			return &Finding{
				Message: fmt.Sprintf("its claim %s has lost its volume, so its replacement stays Pending", claim.Name),
				Remedy:  "restore the volume, or name another claim in the pod template",
			}
		}
	}
	return nil
}

// zonesOf returns the zones that the terms allow. It returns none if a term allows any zone.
func zonesOf(terms []corev1.NodeSelectorTerm) []string {
	var zones []string
	for i := range terms {
		isZoned := false
		for _, r := range terms[i].MatchExpressions {
			if r.Operator == corev1.NodeSelectorOpIn && slices.Contains(zoneKeys(), r.Key) {
				isZoned, zones = true, append(zones, r.Values...)
			}
		}
		if !isZoned {
			return nil
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// canAddNodesInAnyOf reports whether the group may add nodes in one of the zones. It returns true if the
// group's zones are not known.
func (s *Scene) canAddNodesInAnyOf(zones []string) bool {
	known := s.World.Group.Zones
	if s.World.Group.Can.Refill == nodegroup.RefillByUser {
		return false
	}
	return len(known) == 0 || slices.ContainsFunc(zones, func(zone string) bool { return slices.Contains(known, zone) })
}

func findSelectorOfOldNodes(s *Scene, w *Workload, _ *corev1.Pod) *Finding {
	if name := w.templateNodeName(); s.outdated[name] {
		return &Finding{
			Message: "its pod template names node " + name + ", which is outdated: its pods bypass the scheduler and the fence, and start there again until the node is gone",
			Remedy:  "remove spec.nodeName from the pod template", Fix: w.patchTemplateCommand(fields{"nodeName": nil}),
		}
	}
	pod := w.Leaving[0]
	old, required := s.nodes[pod.Spec.NodeName], requiredNodeAffinity(pod)
	if old == nil || len(pod.Spec.NodeSelector) == 0 && required == nil {
		return nil
	}
	after := slices.Concat(s.sampleReplacementsOf(old), s.staying)
	if slices.ContainsFunc(after, placementOf(pod).selectsNode) {
		return nil
	}
	if len(w.Budgets) == 0 && slices.ContainsFunc(after, placementOf(withoutHostSelection(pod)).selectsNode) {
		return &Finding{
			Severity: Warn,
			Message:  "it is pinned to outdated hosts by name: the drain goes on, and its replacement stays Pending",
			Remedy:   "do nothing if its operator creates one for each new node; otherwise select by a label that new nodes have too",
		}
	}
	var unmet []string
	change := fields{}
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		value := pod.Spec.NodeSelector[key]
		if !slices.ContainsFunc(after, func(node *corev1.Node) bool { return node.Labels[key] == value }) {
			unmet, change[key] = append(unmet, key+"="+value), nil
		}
	}
	if len(unmet) > 0 {
		return &Finding{
			Message: "its node selector " + strings.Join(unmet, ", ") + " matches outdated nodes only, so its replacement stays Pending",
			Remedy:  "select by a label that new nodes have too", Fix: w.patchTemplateCommand(fields{"nodeSelector": change}),
		}
	}
	what, match := "required node affinity", "matches"
	if len(pod.Spec.NodeSelector) > 0 {
		what, match = "node selector and required node affinity", "match"
	}
	return &Finding{
		Message: "its " + what + " (" + strings.Join(keysOf(pod, required), ", ") + ") " + match + " outdated nodes only, so its replacement stays Pending",
		Remedy:  "allow nodes by labels that new ones have too",
	}
}

// withoutHostSelection returns a copy of the pod that does not select a node by its name.
func withoutHostSelection(pod *corev1.Pod) *corev1.Pod {
	free := pod.DeepCopy()
	delete(free.Spec.NodeSelector, corev1.LabelHostname)
	required := requiredNodeAffinity(free)
	if required == nil {
		return free
	}
	isOfHost := func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == corev1.LabelHostname || r.Key == metav1.ObjectNameField
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchExpressions = slices.DeleteFunc(term.MatchExpressions, isOfHost)
		term.MatchFields = slices.DeleteFunc(term.MatchFields, isOfHost)
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 { // an empty term would match nothing
			free.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
			return free
		}
	}
	return free
}

// keysOf returns the labels and fields by which a pod selects nodes.
func keysOf(pod *corev1.Pod, required *corev1.NodeSelector) []string {
	keys := slices.Collect(maps.Keys(pod.Spec.NodeSelector))
	if required != nil {
		for _, term := range required.NodeSelectorTerms {
			for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
				keys = append(keys, r.Key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// sampleReplacementsOf returns examples of nodes that may replace an outdated one. They are like the
// group's current nodes, in its zone. If there are none yet, the example is like the outdated node
// without the labels of its host and version.
func (s *Scene) sampleReplacementsOf(old *corev1.Node) []*corev1.Node {
	var all []*corev1.Node
	for i := range s.World.Members {
		member := &s.World.Members[i]
		if member.Outdated || member.Node == nil {
			continue
		}
		next := nodeWithLabels(member.Node.Labels)
		for _, key := range zoneKeys() {
			if zone, has := old.Labels[key]; has {
				next.Labels[key] = zone
			}
		}
		delete(next.Labels, corev1.LabelHostname)
		all = append(all, next)
	}
	if len(all) > 0 {
		return all
	}
	next := nodeWithLabels(old.Labels)
	for _, key := range versionLabels() {
		delete(next.Labels, key)
	}
	for _, known := range []map[string]string{s.World.Group.WantedLabels, s.World.Group.CurrentLabels, s.World.Request.Current} {
		maps.Copy(next.Labels, known)
	}
	return []*corev1.Node{next}
}

func nodeWithLabels(labels map[string]string) *corev1.Node {
	node := &corev1.Node{}
	node.Labels = map[string]string{}
	maps.Copy(node.Labels, labels)
	return node
}

// versionLabels returns the labels that a replacement node lacks, or has with another value.
func versionLabels() []string {
	return []string{
		corev1.LabelHostname, "eks.amazonaws.com/nodegroup-image", "eks.amazonaws.com/sourceLaunchTemplateVersion",
		"alpha.eksctl.io/instance-id", "node.kubernetes.io/instance-id",
	}
}
