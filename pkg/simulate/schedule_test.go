package simulate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// scene is a cluster from which a pod must leave the cordoned node "from".
type scene struct {
	pod     []func(*corev1.Pod)
	nodes   []*corev1.Node
	pods    []*corev1.Pod
	claims  []*corev1.PersistentVolumeClaim
	volumes []*corev1.PersistentVolume
	// before runs before the pod leaves.
	before []nodegroup.Action
}

// move evicts the pod and returns the node of its successor, or why no node takes the successor.
func (s scene) move(t *testing.T) string {
	t.Helper()
	from := node("from", "z", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	pod := build.Pod("mover", append([]func(*corev1.Pod){build.App("mover"), build.On("from")}, s.pod...)...)
	c := simulate.New(simulate.Spec{
		Now: start, Group: nodegroup.Group{Name: "workers", Provider: "manual"}, Outdated: func(*corev1.Node) bool { return false },
		Nodes: append([]*corev1.Node{from}, s.nodes...), Pods: append([]*corev1.Pod{pod}, s.pods...), Claims: s.claims, Volumes: s.volumes,
	})
	for _, action := range s.before {
		if a := execute(c, action); a.Outcome != nodegroup.OutcomeDone {
			t.Fatalf("%s: %s %s", action, a.Outcome, a.Detail)
		}
	}
	if a := execute(c, schedule.Eviction{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: "from"}); a.Outcome != nodegroup.OutcomeDone {
		t.Fatalf("evicting the pod: %s %s", a.Outcome, a.Detail)
	}
	for _, m := range c.World(request()).Members {
		for _, p := range m.Pods {
			if strings.HasPrefix(p.Name, "mover-r") {
				return m.Name()
			}
		}
	}
	for _, u := range c.Unplaced() {
		return u.Reason
	}
	t.Fatal("the pod has no successor")
	return ""
}

func node(name, zone string, with ...func(*corev1.Node)) *corev1.Node {
	n := build.Node(name, zone, with...)
	n.Labels[corev1.LabelHostname] = name
	return n
}

func pods(app, on string, with ...func(*corev1.Pod)) *corev1.Pod {
	return build.Pod(app+"-on-"+on, append([]func(*corev1.Pod){build.App(app), build.On(on)}, with...)...)
}

func selecting(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

// zoneAffinity requires one of the zones by node affinity.
func zoneAffinity(zones ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: inZones(zones...)}}
	}
}

func inZones(zones ...string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}},
	}}}
}

func near(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: together(app, key)}}
	}
}

func apart(app, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: together(app, key)}}
	}
}

func together(app, key string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{LabelSelector: selector(app), TopologyKey: key}}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// spread adds a constraint with a maximum skew of 1 for the pod's own app.
func spread(key string, with ...func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	con := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector("mover")}
	for _, change := range with {
		change(&con)
	}
	return func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, con) }
}

func claim(p *corev1.Pod) {
	build.Volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})(p)
}

// disk is the claim "data" bound to a volume that is reachable from one zone.
func disk(zone string) ([]*corev1.PersistentVolumeClaim, []*corev1.PersistentVolume) {
	data := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "data"}}
	data.Spec.VolumeName = "pv"
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: inZones(zone)}
	return []*corev1.PersistentVolumeClaim{data}, []*corev1.PersistentVolume{pv}
}

func TestSimulatedSchedulerObeysPlacementRules(t *testing.T) {
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	honorTaints := func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &honor }
	ignoreLabels := func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &ignore }
	zone, host := corev1.LabelTopologyZone, corev1.LabelHostname
	all := corev1.Toleration{Operator: corev1.TolerationOpExists}
	claims, volumes := disk("b")
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	only := "0/2 nodes are available: 1 node(s) were unschedulable" // texts that sort earlier may precede it
	nearBoth := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: append(together("db", zone), together("cache", zone)...)}}
	}
	cases := map[string]struct {
		scene
		want string
	}{
		"an open node":                       {scene{nodes: []*corev1.Node{node("a", "a")}}, "a"},
		"cordoned":                           {scene{nodes: []*corev1.Node{node("a", "a", cordoned)}}, "0/2 nodes are available: 2 node(s) were unschedulable"},
		"cordoned, and the pod tolerates it": {scene{pod: []func(*corev1.Pod){build.Tolerating(all)}, nodes: []*corev1.Node{node("a", "a", cordoned)}}, "a"},
		"tainted":                            {scene{nodes: []*corev1.Node{node("a", "a", build.Tainted("gpu"))}}, "1 node(s) had untolerated taint(s)"},
		"tainted, and the pod tolerates it": {scene{
			pod: []func(*corev1.Pod){build.Tolerating(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists})}, nodes: []*corev1.Node{node("a", "a", build.Tainted("gpu"))},
		}, "a"},
		"not ready":                  {scene{nodes: []*corev1.Node{node("a", "a", build.NotReady(start))}}, "1 node(s) had untolerated taint(s)"},
		"a selector of another node": {scene{pod: []func(*corev1.Pod){selecting(zone, "b")}, nodes: []*corev1.Node{node("a", "a")}}, "1 node(s) didn't match Pod's node affinity/selector"},
		"a selector of the node":     {scene{pod: []func(*corev1.Pod){selecting(zone, "a")}, nodes: []*corev1.Node{node("a", "a")}}, "a"},
		"affinity to another zone":   {scene{pod: []func(*corev1.Pod){zoneAffinity("b", "c")}, nodes: []*corev1.Node{node("a", "a")}}, "1 node(s) didn't match Pod's node affinity/selector"},
		"affinity to the zone":       {scene{pod: []func(*corev1.Pod){zoneAffinity("b", "c")}, nodes: []*corev1.Node{node("a", "a"), node("b", "b")}}, "b"},
		"too little CPU":             {scene{pod: []func(*corev1.Pod){requests("2", "1Gi")}, nodes: []*corev1.Node{node("a", "a", allocatable("1", "8Gi", "10"))}}, "1 Insufficient cpu"},
		"just enough CPU":            {scene{pod: []func(*corev1.Pod){requests("1", "1Gi")}, nodes: []*corev1.Node{node("a", "a", allocatable("1", "8Gi", "10"))}}, "a"},
		"CPU that others hold": {scene{
			pod: []func(*corev1.Pod){requests("1", "1Gi")}, nodes: []*corev1.Node{node("a", "a", allocatable("1", "8Gi", "10"))}, pods: []*corev1.Pod{pods("x", "a", requests("100m", "1Gi"))},
		}, "1 Insufficient cpu"},
		"CPU that a finished pod held": {scene{
			pod: []func(*corev1.Pod){requests("1", "1Gi")}, nodes: []*corev1.Node{node("a", "a", allocatable("1", "8Gi", "10"))},
			pods: []*corev1.Pod{pods("x", "a", requests("100m", "1Gi"), build.Phase(corev1.PodSucceeded))},
		}, "a"},
		"too little memory":     {scene{pod: []func(*corev1.Pod){requests("1", "9Gi")}, nodes: []*corev1.Node{node("a", "a", allocatable("1", "8Gi", "10"))}}, "1 Insufficient memory"},
		"just enough memory":    {scene{pod: []func(*corev1.Pod){requests("1", "8Gi")}, nodes: []*corev1.Node{node("a", "a", allocatable("1", "8Gi", "10"))}}, "a"},
		"no place for a pod":    {scene{nodes: []*corev1.Node{node("a", "a", allocatable("1", "8Gi", "1"))}, pods: []*corev1.Pod{pods("x", "a")}}, "1 Too many pods"},
		"a place for one":       {scene{nodes: []*corev1.Node{node("a", "a", allocatable("1", "8Gi", "2"))}, pods: []*corev1.Pod{pods("x", "a")}}, "a"},
		"a disk elsewhere":      {scene{pod: []func(*corev1.Pod){claim}, nodes: []*corev1.Node{node("a", "a")}, claims: claims, volumes: volumes}, "1 node(s) didn't match PersistentVolume's node affinity"},
		"a disk in the zone":    {scene{pod: []func(*corev1.Pod){claim}, nodes: []*corev1.Node{node("a", "a"), node("b", "b")}, claims: claims, volumes: volumes}, "b"},
		"a claim nobody knows":  {scene{pod: []func(*corev1.Pod){claim}, nodes: []*corev1.Node{node("a", "a")}}, "a"},
		"a friend elsewhere":    {scene{pod: []func(*corev1.Pod){near("db", zone)}, nodes: []*corev1.Node{node("a", "a"), node("b", "b", cordoned)}, pods: []*corev1.Pod{pods("db", "b")}}, "1 node(s) didn't match pod affinity rules"},
		"a friend in the zone":  {scene{pod: []func(*corev1.Pod){near("db", zone)}, nodes: []*corev1.Node{node("a", "a"), node("b", "b", cordoned), node("b2", "b")}, pods: []*corev1.Pod{pods("db", "b")}}, "b2"},
		"a friend nowhere":      {scene{pod: []func(*corev1.Pod){near("db", zone)}, nodes: []*corev1.Node{node("a", "a")}}, "1 node(s) didn't match pod affinity rules"},
		"a foe on the node":     {scene{pod: []func(*corev1.Pod){apart("db", host)}, nodes: []*corev1.Node{node("a", "a")}, pods: []*corev1.Pod{pods("db", "a")}}, "1 node(s) didn't match pod anti-affinity rules"},
		"a foe beside the node": {scene{pod: []func(*corev1.Pod){apart("db", host)}, nodes: []*corev1.Node{node("a", "a"), node("a2", "a")}, pods: []*corev1.Pod{pods("db", "a")}}, "a2"},
		"a foe in the zone":     {scene{pod: []func(*corev1.Pod){apart("db", zone)}, nodes: []*corev1.Node{node("a", "a"), node("a2", "a")}, pods: []*corev1.Pod{pods("db", "a")}}, "2 node(s) didn't match pod anti-affinity rules"},
		"a foe in another namespace": {scene{
			pod: []func(*corev1.Pod){apart("db", host)}, nodes: []*corev1.Node{node("a", "a")}, pods: []*corev1.Pod{pods("db", "a", build.In("other"))},
		}, "a"},
		"repelled by a pod":          {scene{nodes: []*corev1.Node{node("a", "a")}, pods: []*corev1.Pod{pods("db", "a", apart("mover", host))}}, "1 node(s) didn't satisfy existing pods anti-affinity rules"},
		"not repelled by a pod":      {scene{nodes: []*corev1.Node{node("a", "a")}, pods: []*corev1.Pod{pods("db", "a", apart("other", host))}}, "a"},
		"a zone that has its share":  {scene{pod: []func(*corev1.Pod){spread(zone)}, nodes: []*corev1.Node{node("a", "a"), node("b", "b")}, pods: []*corev1.Pod{pods("mover", "a")}}, "b"},
		"only that zone takes pods":  {scene{pod: []func(*corev1.Pod){spread(zone)}, nodes: []*corev1.Node{node("a", "a"), node("b", "b", cordoned)}, pods: []*corev1.Pod{pods("mover", "a")}}, "1 node(s) didn't match pod topology spread constraints"},
		"taints honoured":            {scene{pod: []func(*corev1.Pod){spread(zone, honorTaints)}, nodes: []*corev1.Node{node("a", "a"), node("b", "b", cordoned)}, pods: []*corev1.Pod{pods("mover", "a")}}, "a"},
		"one of two honours taints":  {scene{pod: []func(*corev1.Pod){spread(host, honorTaints), spread(zone)}, nodes: []*corev1.Node{node("a", "a", cordoned), node("b", "a"), node("c", "b")}, pods: []*corev1.Pod{pods("mover", "a")}}, "c"},
		"two friends, none of both":  {scene{pod: []func(*corev1.Pod){nearBoth}, nodes: []*corev1.Node{node("a", "a"), node("b", "b")}, pods: []*corev1.Pod{pods("db", "a"), pods("cache", "a")}}, "2 node(s) didn't match pod affinity rules"},
		"labels honoured":            {scene{pod: []func(*corev1.Pod){spread(zone, honorTaints), zoneAffinity("a")}, nodes: []*corev1.Node{node("a", "a"), node("b", "b")}, pods: []*corev1.Pod{pods("mover", "a")}}, "a"},
		"labels ignored":             {scene{pod: []func(*corev1.Pod){spread(zone, honorTaints, ignoreLabels), zoneAffinity("a")}, nodes: []*corev1.Node{node("a", "a"), node("b", "b")}, pods: []*corev1.Pod{pods("mover", "a")}}, "1 node(s) didn't match pod topology spread constraints"},
		"no label to spread over":    {scene{pod: []func(*corev1.Pod){spread("rack")}, nodes: []*corev1.Node{node("a", "a")}}, "(missing required label)"},
		"the least allocated":        {scene{nodes: []*corev1.Node{node("a", "a", allocatable("2", "8Gi", "9")), node("b", "b", allocatable("2", "8Gi", "9"))}, pods: []*corev1.Pod{pods("x", "a", requests("1", "1Gi"))}}, "b"},
		"the first name of two":      {scene{nodes: []*corev1.Node{node("b", "b"), node("a", "a")}}, "a"},
		"nothing but the node it is": {scene{}, strings.Replace(only, "0/2", "0/1", 1)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.move(t)
			if placed := len(c.want) < 3; got != c.want && (placed || !strings.Contains(got, c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The counts of a spread constraint follow changes of pods and nodes.
func TestSpreadConstraintCountsFollowPodsAndNodes(t *testing.T) {
	honor := corev1.NodeInclusionPolicyHonor
	honored := spread(corev1.LabelTopologyZone, func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &honor })
	counted := spread(corev1.LabelTopologyZone)
	fence := func(node string) nodegroup.Action {
		return nodemark.Fence{NodeVersion: nodemark.NodeVersion{Node: node, UID: types.UID(node)}}
	}
	gone := func(node string) nodegroup.Action { return nodemark.DeleteNode{Node: node, UID: types.UID(node)} }
	evict := func(pod *corev1.Pod) nodegroup.Action {
		return schedule.Eviction{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName}
	}
	on := func(node string) *corev1.Pod { return pods("mover", node, build.Bare) }
	const refused = "1 node(s) didn't match pod topology spread constraints"
	cases := map[string]struct {
		spread func(*corev1.Pod)
		pods   []*corev1.Pod
		before []nodegroup.Action
		want   string
	}{
		"nothing happened":                   {counted, []*corev1.Pod{on("a")}, nil, "b"},
		"a fenced node counts":               {counted, []*corev1.Pod{on("a")}, []nodegroup.Action{fence("b")}, refused},
		"not where taints are honoured":      {honored, []*corev1.Pod{on("a")}, []nodegroup.Action{fence("b")}, "a"},
		"a node that is gone counts no more": {counted, []*corev1.Pod{on("a")}, []nodegroup.Action{gone("b"), gone("b2")}, "a"},
		"nor do its pods":                    {counted, []*corev1.Pod{on("a"), on("b"), on("b2")}, []nodegroup.Action{gone("b2"), fence("a")}, "b"},
		"a pod that leaves counts no more":   {counted, []*corev1.Pod{on("a"), on("b")}, []nodegroup.Action{evict(on("a")), fence("b")}, "a"},
		"a pod that stays counts":            {counted, []*corev1.Pod{on("a"), on("b")}, []nodegroup.Action{evict(on("b")), fence("b")}, refused},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			// The zone of the old node has enough pods of its kind that it does not matter.
			s := scene{pod: []func(*corev1.Pod){c.spread}, nodes: []*corev1.Node{node("a", "a"), node("b", "b"), node("b2", "b", func(n *corev1.Node) { n.Spec.Unschedulable = true })}, pods: c.pods, before: c.before}
			s.pods = append(s.pods, pods("mover", "from", build.Bare), build.Pod("second", build.App("mover"), build.Bare, build.On("from")))
			if got := s.move(t); got != c.want && (len(c.want) < 3 || !strings.Contains(got, c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The state of a node before its change does not keep pods away.
func TestNodeTakesPodsOnceItHasTheirLabel(t *testing.T) {
	const key = corev1.LabelNodeExcludeBalancers // the one label that an upgrade puts on nodes
	early := build.Pod("early", build.App("early"), build.On("from"), selecting(key, "true"))
	s := scene{
		pod: []func(*corev1.Pod){selecting(key, "true")}, nodes: []*corev1.Node{node("a", "a")}, pods: []*corev1.Pod{early},
		before: []nodegroup.Action{
			schedule.Eviction{Namespace: early.Namespace, Pod: early.Name, UID: early.UID, Node: "from"}, nodemark.StartDrain{NodeVersion: nodemark.NodeVersion{Node: "a", UID: "a"}, Deadline: start},
		},
	}
	if got := s.move(t); got != "a" {
		t.Errorf("got %q, want a", got)
	}
}

// A pod that is pending for a reason that the simulation does not know does not keep similar pods pending.
func TestPendingPodDoesNotBlockSimilarPods(t *testing.T) {
	waiting := build.Pod("gated", build.App("mover"), build.Phase(corev1.PodPending))
	s := scene{nodes: []*corev1.Node{node("a", "a")}, pods: []*corev1.Pod{waiting}}
	if got := s.move(t); got != "a" {
		t.Errorf("got %q, want a", got)
	}
}

func TestWaitingPodTakesTheRoomThatAnotherLeaves(t *testing.T) {
	spec := simulate.Spec{
		Now: start, Group: nodegroup.Group{Name: "workers", Provider: "manual"}, Outdated: func(*corev1.Node) bool { return false },
		Nodes: []*corev1.Node{node("from", "a", func(n *corev1.Node) { n.Spec.Unschedulable = true }), node("to", "a", allocatable("1", "1Gi", "9"))},
		Pods: []*corev1.Pod{
			build.Pod("mover", build.App("mover"), build.On("from"), requests("1", "1Gi")), build.Pod("job", build.Bare, build.On("to"), requests("1", "1Gi")),
		},
	}
	c := simulate.New(spec)
	execute(c, schedule.Eviction{Namespace: build.Namespace, Pod: "mover", UID: "mover", Node: "from"})
	if waiting := c.Unplaced(); len(waiting) != 1 || waiting[0].Owner != "ReplicaSet shop/mover" {
		t.Fatalf("waiting: %v", waiting)
	}
	execute(c, schedule.Eviction{Namespace: build.Namespace, Pod: "job", UID: "job", Node: "to"})
	c.Advance(start)
	if waiting := c.Unplaced(); len(waiting) != 0 {
		t.Errorf("still waiting: %v", waiting)
	}
}
