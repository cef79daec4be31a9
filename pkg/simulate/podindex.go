package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// simPod is a pod with the simulation's data about it.
type simPod struct {
	// pod is replaced, never changed, because a World may share it.
	pod *corev1.Pod
	key *schedulingKey
	// node is nil while no node takes the pod. waitingSince is when it began to wait.
	node         *simNode
	waitingSince time.Time
	budgets      []*drain.Budget
	// broken is true for the replacement of a pod that was unready for long. The replacement does not become ready
	// either.
	broken bool
	// surged is true if the pod's successor was created before the pod's deletion. succeeds is the pod that is
	// deleted when this pod is ready.
	surged   bool
	succeeds types.UID
	// preempted is true if other pods were evicted for this pod.
	preempted bool
	// initiallyPending is true if the pod was pending before the simulation began.
	initiallyPending bool
}

// podIndex has the pods on nodes, and counts with which the scheduler can place pods without a search through all
// pods.
type podIndex struct {
	nodes nodeIndex
	bound map[types.UID]*simPod
	// keys are by controller, keysIn by namespace. counts are by what they select, countsIn by namespace.
	keys     map[types.UID][]*schedulingKey
	keysIn   map[string][]*schedulingKey
	counts   map[string]*podCounts
	countsIn map[string][]*podCounts
	domains  map[string]*spreadDomain
	filters  map[string]*filterCache
	// storage finds the volumes of pods. attachable is how many volumes each node may attach, by driver.
	storage    *fit.Storage
	attachable map[string]map[string]int64
	// labels are the labels of namespaces; nil if they are not known.
	labels map[string]labels.Set
}

func newPodIndex(spec *Spec) *podIndex {
	return &podIndex{
		nodes: nodeIndex{byName: map[string]*simNode{}}, bound: make(map[types.UID]*simPod, len(spec.Pods)), keys: map[types.UID][]*schedulingKey{},
		keysIn: map[string][]*schedulingKey{}, counts: map[string]*podCounts{}, countsIn: map[string][]*podCounts{},
		domains: map[string]*spreadDomain{}, filters: map[string]*filterCache{},
		storage: fit.NewStorage(spec.Claims, spec.Volumes, spec.ResourceClaims, spec.Pods), attachable: attachLimits(spec.CSINodes), labels: labelsOf(spec.Namespaces),
	}
}

// allNamespaces is the key for all namespaces in countsIn.
const allNamespaces = ""

// bindToNode records that the pod is on the node.
func (x *podIndex) bindToNode(u *simPod, n *simNode) {
	if a := u.pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		x.readSchedulingKey(u.key) // from now on, the pod's anti-affinity keeps other pods away
	}
	x.bound[u.pod.UID] = u
	u.node = n
	addToCounts(u, 1, u.pod.DeletionTimestamp == nil)
}

// unbindFromNode removes a pod that has ended.
func (x *podIndex) unbindFromNode(u *simPod) {
	addToCounts(u, -1, u.pod.DeletionTimestamp == nil)
	delete(x.bound, u.pod.UID)
}

// schedulingKeyOf returns the scheduling key of the pod, and creates it if the pod's controller has no such key yet.
func (x *podIndex) schedulingKeyOf(pod *corev1.Pod) *schedulingKey {
	needs := x.storage.UsageOf(pod)
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return x.addSchedulingKey(&schedulingKey{sample: pod, needs: needs})
	}
	for _, k := range x.keys[owner.UID] {
		if k.needs.UsesSameAs(&needs) && areScheduledAlike(k.sample, pod, owner.Kind) {
			return k
		}
	}
	k := x.addSchedulingKey(&schedulingKey{sample: pod, kind: owner.Kind, owner: owner.UID, needs: needs})
	x.keys[owner.UID] = append(x.keys[owner.UID], k)
	x.readSchedulingKey(k)
	return k
}

// addSchedulingKey adds the key to all counts that select its pods.
func (x *podIndex) addSchedulingKey(k *schedulingKey) *schedulingKey {
	namespace := k.sample.Namespace
	x.keysIn[namespace] = append(x.keysIn[namespace], k)
	for _, in := range []string{namespace, allNamespaces} {
		for _, counts := range x.countsIn[in] {
			counts.addSchedulingKey(k)
		}
	}
	return k
}

// readSchedulingKey reads the remaining fields of the key from its sample, once.
func (x *podIndex) readSchedulingKey(k *schedulingKey) {
	if k.read {
		return
	}
	k.read = true
	spec := &k.sample.Spec
	affinity := spec.Affinity
	if k.kind == daemonSet {
		affinity = nil // the affinity of a DaemonSet's pod names that pod's node
	}
	k.needs.SetNodeRequirements(spec.NodeSelector, affinity, spec.Tolerations)
	k.filters = x.filterCacheOf(k)
	if affinity != nil {
		x.readPodAffinity(k, affinity)
	}
	x.readSpread(k)
}

// filterCacheOf returns the cache of nodes that refuse the key, and creates it if necessary.
func (x *podIndex) filterCacheOf(k *schedulingKey) *filterCache {
	id := k.filterID()
	if known, ok := x.filters[id]; ok && id != "" {
		return known
	}
	f := &filterCache{}
	x.filters[id] = f
	return f
}

// readPodAffinity reads the key's inter-pod affinity and anti-affinity.
func (x *podIndex) readPodAffinity(k *schedulingKey, affinity *corev1.Affinity) {
	if affinity.PodAffinity != nil {
		k.near = x.readAffinityToPods(k.sample, affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity.PodAntiAffinity == nil {
		return
	}
	k.apart = x.readAffinityTerms(k.sample, affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	for _, t := range k.apart {
		k.repels = append(k.repels, antiAffinityOf(t))
	}
}

// readAffinityToPods reads the terms of a pod's affinity. Each term counts only pods that match all terms
// (interpodaffinity/filtering.go, podMatchesAllAffinityTerms).
func (x *podIndex) readAffinityToPods(pod *corev1.Pod, required []corev1.PodAffinityTerm) []affinityTerm {
	var all []podMatch
	for i := range required {
		all = append(all, x.readMatch(pod, &required[i]))
	}
	var terms []affinityTerm
	for i := range required {
		terms = append(terms, x.affinityTermOf(required[i].TopologyKey, all...))
	}
	return terms
}

func (x *podIndex) readAffinityTerms(pod *corev1.Pod, required []corev1.PodAffinityTerm) []affinityTerm {
	terms := make([]affinityTerm, 0, len(required))
	for i := range required {
		terms = append(terms, x.affinityTermOf(required[i].TopologyKey, x.readMatch(pod, &required[i])))
	}
	return terms
}

// affinityTermOf returns a term for the pods that all of the matches select.
func (x *podIndex) affinityTermOf(label string, all ...podMatch) affinityTerm {
	term := affinityTerm{pods: x.podCountsOf(all...), label: label}
	x.countPlaces(term)
	return term
}

// readMatch returns the pods that a term selects.
func (x *podIndex) readMatch(pod *corev1.Pod, term *corev1.PodAffinityTerm) podMatch {
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil {
		selector = labels.Nothing() // the API server admits no pod with such a selector
	}
	return podMatch{x.termNamespaces(pod, term), selector}
}

// termNamespaces returns the namespaces of the pods that the term selects, nil for all. If the labels of namespaces
// are not known, a namespace selector selects all. That is the stricter assumption for anti-affinity.
func (x *podIndex) termNamespaces(pod *corev1.Pod, t *corev1.PodAffinityTerm) []string {
	if t.NamespaceSelector == nil {
		if len(t.Namespaces) == 0 {
			return []string{pod.Namespace}
		}
		return t.Namespaces
	}
	selector, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
	if err != nil {
		selector = labels.Nothing()
	}
	if selector.Empty() || x.labels == nil {
		return nil
	}
	selected := append([]string{}, t.Namespaces...)
	for name, set := range x.labels {
		if selector.Matches(set) {
			selected = append(selected, name)
		}
	}
	slices.Sort(selected)
	return slices.Compact(selected)
}

// labelsOf returns the labels of namespaces by name, or nil without namespaces.
func labelsOf(namespaces []*corev1.Namespace) map[string]labels.Set {
	if len(namespaces) == 0 {
		return nil
	}
	byName := make(map[string]labels.Set, len(namespaces))
	for _, namespace := range namespaces {
		byName[namespace.Name] = namespace.Labels
	}
	return byName
}

// readSpread reads the key's topology spread constraints.
func (x *podIndex) readSpread(k *schedulingKey) {
	var required []*corev1.TopologySpreadConstraint
	var labels []string
	for i := range k.sample.Spec.TopologySpreadConstraints {
		if c := &k.sample.Spec.TopologySpreadConstraints[i]; c.WhenUnsatisfiable == corev1.DoNotSchedule {
			required, labels = append(required, c), append(labels, c.TopologyKey)
		}
	}
	slices.Sort(labels)
	for _, c := range required {
		k.spread = append(k.spread, x.readConstraint(k, c, labels))
	}
}

// readConstraint reads one topology spread constraint of the key. keys are the topology keys of all its constraints.
func (x *podIndex) readConstraint(k *schedulingKey, c *corev1.TopologySpreadConstraint, keys []string) spreadConstraint {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		selector = labels.Nothing()
	}
	for _, key := range c.MatchLabelKeys {
		if value, ok := k.sample.Labels[key]; ok {
			same, _ := labels.ValidatedSetSelector{key: value}.Requirements()
			selector = selector.Add(same...)
		}
	}
	counted := selector
	if counted.Empty() {
		counted = labels.Nothing() // like the scheduler (podtopologyspread/common.go, countPodsMatchSelector)
	}
	pods := x.podCountsOf(podMatch{[]string{k.sample.Namespace}, counted})
	domain := x.addSpreadDomain(newSpreadDomain(k, c, keys))
	read := spreadConstraint{spreadCounts: x.spreadCountsOf(pods, domain, c.TopologyKey), maxSkew: int(c.MaxSkew), minDomains: 1}
	if c.MinDomains != nil {
		read.minDomains = int(*c.MinDomains)
	}
	if selector.Matches(labels.Set(k.sample.Labels)) {
		read.self = 1
	}
	return read
}

// addSpreadDomain returns the known domain with the same nodes. If there is none, it fills and adds this one.
func (x *podIndex) addSpreadDomain(d *spreadDomain) *spreadDomain {
	id := d.nodeSetKey()
	if known, ok := x.domains[id]; ok {
		return known
	}
	for _, n := range x.nodes.sorted {
		if d.includesNode(n) {
			d.updateNodeInDomain(n, n.node.Labels, 1)
		}
	}
	x.domains[id] = d
	return d
}

// podCountsOf returns the counts of the pods that all of the matches select, and creates them if necessary.
func (x *podIndex) podCountsOf(all ...podMatch) *podCounts {
	id := all[0].id()
	for _, more := range all[1:] {
		id += " and " + more.id()
	}
	if known, ok := x.counts[id]; ok {
		return known
	}
	c := &podCounts{all: all, places: map[string]map[string]int{}}
	x.counts[id] = c
	x.registerPodCounts(c)
	c.total = len(x.countedPods(c))
	return c
}

// countedPods returns the bound pods that are counted, in any order.
func (x *podIndex) countedPods(c *podCounts) (pods []*simPod) {
	for _, u := range x.bound {
		if !isFinished(u.pod) && slices.Contains(u.key.counts, c) {
			pods = append(pods, u)
		}
	}
	return pods
}

// countPlaces counts the pods of the term by the value of its label, unless that is already done.
func (x *podIndex) countPlaces(t affinityTerm) {
	if t.pods.places[t.label] != nil {
		return
	}
	sums := map[string]int{}
	for _, u := range x.countedPods(t.pods) {
		sums[u.node.node.Labels[t.label]]++
	}
	t.pods.places[t.label] = sums
}

// spreadCountsOf returns the counts of these pods over the topology domains, and creates them if necessary.
func (x *podIndex) spreadCountsOf(pods *podCounts, d *spreadDomain, label string) *spreadCounts {
	for _, s := range pods.spreads {
		if s.over == d && s.label == label {
			return s
		}
	}
	s := &spreadCounts{label: label, over: d, places: d.places[label], counts: map[string]int{}, having: map[int]int{}}
	for _, u := range x.countedPods(pods) {
		if d.nodes[u.node] && u.pod.DeletionTimestamp == nil {
			s.addToPlace(u.node.node.Labels[label], 1)
		}
	}
	pods.spreads = append(pods.spreads, s)
	return s
}

// registerPodCounts registers the counts for existing and for future keys.
func (x *podIndex) registerPodCounts(c *podCounts) {
	namespaces := c.all[0].namespaces
	if namespaces == nil {
		x.countsIn[allNamespaces] = append(x.countsIn[allNamespaces], c)
		for _, keys := range x.keysIn {
			for _, k := range keys {
				c.addSchedulingKey(k)
			}
		}
		return
	}
	for i, namespace := range namespaces {
		if slices.Contains(namespaces[:i], namespace) {
			continue
		}
		x.countsIn[namespace] = append(x.countsIn[namespace], c)
		for _, k := range x.keysIn[namespace] {
			c.addSchedulingKey(k)
		}
	}
}

// updateForNode updates all indexes after a change of a node. now is nil for a node that is removed.
func (x *podIndex) updateForNode(n *simNode, before, now *corev1.Node) {
	for _, d := range x.domains {
		was, is := d.nodes[n], now != nil && d.includesNode(n)
		if was && is && !slices.ContainsFunc(d.labels, func(label string) bool { return before.Labels[label] != now.Labels[label] }) {
			continue
		}
		if was {
			x.updatePodsInDomain(n, d, before.Labels, -1)
			d.updateNodeInDomain(n, before.Labels, -1)
		}
		if is {
			d.updateNodeInDomain(n, now.Labels, 1)
			x.updatePodsInDomain(n, d, now.Labels, 1)
		}
	}
	for _, f := range x.filters {
		f.removeFiltered(n.number)
	}
}

// updatePodsInDomain adds the node's pods to the spread counts over a domain, or removes them.
func (x *podIndex) updatePodsInDomain(n *simNode, d *spreadDomain, labels map[string]string, change int) {
	for _, pod := range n.pods {
		if pod.DeletionTimestamp != nil || isFinished(pod) {
			continue
		}
		for _, c := range x.bound[pod.UID].key.counts {
			for _, s := range c.spreads {
				if s.over == d {
					s.addToPlace(labels[s.label], change)
				}
			}
		}
	}
}
