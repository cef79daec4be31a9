package simulate

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// simPod is a pod and what the cluster knows of it.
type simPod struct {
	// pod is replaced when it changes, never changed: a World may show it.
	pod *corev1.Pod
	key *schedulingKey
	// node is nil while no node takes it; waitingSince is since when.
	node         *simNode
	waitingSince time.Time
	budgets      []*drain.Budget
	// broken is a pod that takes the place of one that was not ready for long: it does not become
	// ready either.
	broken bool
	// surged is a pod whose successor is there before it goes; succeeds is the one that goes when
	// this one is ready.
	surged   bool
	succeeds types.UID
	// initiallyPending waited before the simulation began.
	initiallyPending bool
}

// podIndex is the pods on nodes, and what it takes to place others beside them without looking at
// each.
type podIndex struct {
	nodes nodeIndex
	bound map[types.UID]*simPod
	// keys are by controller, keysIn by namespace; counts by what they mean, countsIn by namespace.
	keys     map[types.UID][]*schedulingKey
	keysIn   map[string][]*schedulingKey
	counts   map[string]*podCounts
	countsIn map[string][]*podCounts
	domains  map[string]*spreadDomain
	filters  map[string]*filterCache
	volumes  map[string]*nodeaffinity.NodeSelector
}

func newPodIndex(spec *Spec) *podIndex {
	return &podIndex{
		nodes: nodeIndex{byName: map[string]*simNode{}}, bound: make(map[types.UID]*simPod, len(spec.Pods)), keys: map[types.UID][]*schedulingKey{},
		keysIn: map[string][]*schedulingKey{}, counts: map[string]*podCounts{}, countsIn: map[string][]*podCounts{},
		domains: map[string]*spreadDomain{}, filters: map[string]*filterCache{}, volumes: volumeSelectors(spec),
	}
}

// everywhere stands for all namespaces where counts are listed by namespace.
const everywhere = ""

// bindToNode notes that the pod is on the node.
func (x *podIndex) bindToNode(u *simPod, n *simNode) {
	if a := u.pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		x.readSchedulingKey(u.key) // it keeps others away from now on
	}
	x.bound[u.pod.UID] = u
	u.node = n
	countPod(u, 1, u.pod.DeletionTimestamp == nil)
}

// unbindFromNode forgets a pod that has ended.
func (x *podIndex) unbindFromNode(u *simPod) {
	countPod(u, -1, u.pod.DeletionTimestamp == nil)
	delete(x.bound, u.pod.UID)
}

// schedulingKeyOf finds the key among those of the pod's controller, or makes it.
func (x *podIndex) schedulingKeyOf(pod *corev1.Pod) *schedulingKey {
	requests := requestsOf(pod)
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return x.addSchedulingKey(&schedulingKey{sample: pod, requests: requests})
	}
	for _, k := range x.keys[owner.UID] {
		if k.requests == requests && scheduleAlike(k.sample, pod, owner.Kind) {
			return k
		}
	}
	k := x.addSchedulingKey(&schedulingKey{sample: pod, kind: owner.Kind, owner: owner.UID, requests: requests})
	x.keys[owner.UID] = append(x.keys[owner.UID], k)
	x.readSchedulingKey(k)
	return k
}

// addSchedulingKey has the key's pods counted by all counts that mean them.
func (x *podIndex) addSchedulingKey(k *schedulingKey) *schedulingKey {
	namespace := k.sample.Namespace
	x.keysIn[namespace] = append(x.keysIn[namespace], k)
	for _, in := range []string{namespace, everywhere} {
		for _, counts := range x.countsIn[in] {
			counts.addSchedulingKey(k)
		}
	}
	return k
}

// readSchedulingKey reads the rest of the key off its pod, once.
func (x *podIndex) readSchedulingKey(k *schedulingKey) {
	if k.read {
		return
	}
	k.read = true
	spec := &k.sample.Spec
	affinity := spec.Affinity
	if k.kind == daemonSet {
		affinity = nil // it names the node of one pod
	}
	k.affinity = nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, affinity)
	k.anyNode = len(spec.NodeSelector) == 0 && k.nodeAffinity() == nil
	k.toleratesCordon = drain.ToleratesTaint(k.sample, nodemark.CordonTaint())
	k.filters = x.filterCacheOf(k)
	if affinity != nil {
		x.readPodAffinity(k, affinity)
	}
	x.readSpread(k)
	for _, name := range claimNames(k.sample) {
		if selector := x.volumes[k.sample.Namespace+"/"+name]; selector != nil {
			k.volumes = append(k.volumes, selector)
		}
	}
}

// filterCacheOf finds or makes what is known of the nodes that refuse the key.
func (x *podIndex) filterCacheOf(k *schedulingKey) *filterCache {
	id := k.filterID()
	if known, ok := x.filters[id]; ok && id != "" {
		return known
	}
	f := &filterCache{}
	x.filters[id] = f
	return f
}

// readPodAffinity reads which pods the key wants beside it and which it keeps away.
func (x *podIndex) readPodAffinity(k *schedulingKey, affinity *corev1.Affinity) {
	if affinity.PodAffinity != nil {
		k.near = x.readAffinityTerms(k.sample, affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity.PodAntiAffinity == nil {
		return
	}
	k.apart = x.readAffinityTerms(k.sample, affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	for _, t := range k.apart {
		k.repels = append(k.repels, antiAffinityOf(t))
	}
}

func (x *podIndex) readAffinityTerms(pod *corev1.Pod, required []corev1.PodAffinityTerm) []affinityTerm {
	terms := make([]affinityTerm, 0, len(required))
	for i := range required {
		selector, err := metav1.LabelSelectorAsSelector(required[i].LabelSelector)
		if err != nil {
			selector = labels.Nothing() // the API server admits no such pod
		}
		term := affinityTerm{pods: x.podCountsOf(termNamespaces(pod, &required[i]), selector), label: required[i].TopologyKey}
		x.countPlaces(term)
		terms = append(terms, term)
	}
	return terms
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

// readConstraint reads one topology spread constraint of those whose labels are given.
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
	pods := x.podCountsOf([]string{k.sample.Namespace}, selector)
	domain := x.addSpreadDomain(newSpreadDomain(k, c, keys))
	read := spreadConstraint{spreadCounts: x.spreadCountsOf(pods, domain, c.TopologyKey), maxSkew: int(c.MaxSkew), minDomains: 1}
	if c.MinDomains != nil {
		read.minDomains = int(*c.MinDomains)
	}
	if pods.matchesPod(k.sample) {
		read.self = 1
	}
	return read
}

// addSpreadDomain returns the domain that is known and holds the same nodes, or fills this one.
func (x *podIndex) addSpreadDomain(d *spreadDomain) *spreadDomain {
	id := d.id()
	if known, ok := x.domains[id]; ok {
		return known
	}
	for _, n := range x.nodes.sorted {
		if d.includesNode(n) {
			d.shiftPodsOfNode(n, n.node.Labels, 1)
		}
	}
	x.domains[id] = d
	return d
}

// podCountsOf finds or makes the counts of the pods that a selector means in the namespaces, nil
// for all.
func (x *podIndex) podCountsOf(namespaces []string, selector labels.Selector) *podCounts {
	id := strings.Join(namespaces, ",") + "/" + selector.String()
	if known, ok := x.counts[id]; ok {
		return known
	}
	c := &podCounts{namespaces: namespaces, selector: selector, places: map[string]map[string]int{}}
	x.counts[id] = c
	x.indexPodCounts(c)
	c.total = len(x.countedPods(c))
	return c
}

// countedPods are the pods on nodes that are counted, in any order.
func (x *podIndex) countedPods(c *podCounts) (pods []*simPod) {
	for _, u := range x.bound {
		if slices.Contains(u.key.counts, c) {
			pods = append(pods, u)
		}
	}
	return pods
}

// countPlaces has the pods of the term counted by the value of its label.
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

// spreadCountsOf finds or makes the counts of these pods over the places of a domain.
func (x *podIndex) spreadCountsOf(pods *podCounts, d *spreadDomain, label string) *spreadCounts {
	for _, s := range pods.spreads {
		if s.over == d && s.label == label {
			return s
		}
	}
	s := &spreadCounts{label: label, over: d, places: d.places[label], counts: map[string]int{}, having: map[int]int{}}
	for _, u := range x.countedPods(pods) {
		if d.nodes[u.node] && u.pod.DeletionTimestamp == nil {
			s.shiftCount(u.node.node.Labels[label], 1)
		}
	}
	pods.spreads = append(pods.spreads, s)
	return s
}

// indexPodCounts has the pods of the keys that are known counted, and of those to come.
func (x *podIndex) indexPodCounts(c *podCounts) {
	if c.namespaces == nil {
		x.countsIn[everywhere] = append(x.countsIn[everywhere], c)
		for _, keys := range x.keysIn {
			for _, k := range keys {
				c.addSchedulingKey(k)
			}
		}
		return
	}
	for i, namespace := range c.namespaces {
		if slices.Contains(c.namespaces[:i], namespace) {
			continue
		}
		x.countsIn[namespace] = append(x.countsIn[namespace], c)
		for _, k := range x.keysIn[namespace] {
			c.addSchedulingKey(k)
		}
	}
}

// nodeChanged brings what is kept of nodes up to date with one that was another before; now is nil
// for one that goes.
func (x *podIndex) nodeChanged(n *simNode, before, now *corev1.Node) {
	for _, d := range x.domains {
		was, is := d.nodes[n], now != nil && d.includesNode(n)
		if was && is && !slices.ContainsFunc(d.labels, func(label string) bool { return before.Labels[label] != now.Labels[label] }) {
			continue
		}
		if was {
			x.shiftPodsInDomain(n, d, before.Labels, -1)
			d.shiftPodsOfNode(n, before.Labels, -1)
		}
		if is {
			d.shiftPodsOfNode(n, now.Labels, 1)
			x.shiftPodsInDomain(n, d, now.Labels, 1)
		}
	}
	for _, f := range x.filters {
		f.removeFiltered(n.number)
	}
}

// shiftPodsInDomain has the pods of a node counted in or out of the spreads over a domain.
func (x *podIndex) shiftPodsInDomain(n *simNode, d *spreadDomain, labels map[string]string, change int) {
	for _, pod := range n.pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		for _, c := range x.bound[pod.UID].key.counts {
			for _, s := range c.spreads {
				if s.over == d {
					s.shiftCount(labels[s.label], change)
				}
			}
		}
	}
}
