package cluster

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newOfflineWatcher returns a Watcher that knows these objects and gets no updates.
func newOfflineWatcher(objects ...any) *Watcher {
	w := &Watcher{index: newClusterIndex(), now: time.Now, changed: make(chan struct{}, 1), nodes: make(chan struct{}, 1)}
	for _, object := range objects {
		w.storeObject(object, true)
	}
	w.takeSignals()
	return w
}

// takeSignals reports which of the two signals were sent since the last call.
func (w *Watcher) takeSignals() (changed, nodes bool) {
	return len(drainChannel(w.changed)) > 0, len(drainChannel(w.nodes)) > 0
}

func drainChannel(c chan struct{}) (got []struct{}) {
	for {
		select {
		case x := <-c:
			got = append(got, x)
		default:
			return got
		}
	}
}

// podsOf returns the pods of a View as "node: pod pod", sorted by node and pod.
func podsOf(v drain.Snapshot) string {
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(v.Pods)) {
		var names []string
		for _, pod := range v.Pods[node] {
			names = append(names, string(pod.UID))
		}
		slices.Sort(names)
		lines = append(lines, node+": "+strings.Join(names, " "))
	}
	return strings.Join(lines, "; ")
}

// successor returns a new pod with the name of an old one, as a StatefulSet creates them.
func successor(name, uid, node string) *corev1.Pod {
	pod := build.Pod(name, build.On(node))
	pod.UID = types.UID(uid)
	return pod
}

func TestWatcherKeepsPodsOfEachNodeUpToDate(t *testing.T) {
	db := successor("db-0", "db-0", "a")
	cases := map[string]struct {
		happens func(*Watcher)
		want    string
	}{
		"nothing":                 {func(*Watcher) {}, "a: db-0 web-0; b: web-1"},
		"a pod comes":             {func(w *Watcher) { w.storeObject(build.Pod("web-2", build.On("a")), true) }, "a: db-0 web-0 web-2; b: web-1"},
		"a pod that is not bound": {func(w *Watcher) { w.storeObject(build.Pod("web-2"), true) }, ": web-2; a: db-0 web-0; b: web-1"},
		"a pod is bound": {func(w *Watcher) {
			pod := build.Pod("web-2")
			w.storeObject(pod, true)
			w.updateObject(pod, build.Pod("web-2", build.On("b")))
		}, "a: db-0 web-0; b: web-1 web-2"},
		"a pod changes":                                  {func(w *Watcher) { w.updateObject(db, successor("db-0", "db-0", "a")) }, "a: db-0 web-0; b: web-1"},
		"a pod goes":                                     {func(w *Watcher) { w.removeObject(db) }, "a: web-0; b: web-1"},
		"the last pod of a node goes":                    {func(w *Watcher) { w.removeObject(build.Pod("web-1", build.On("b"))) }, "a: db-0 web-0"},
		"a pod was gone during a gap":                    {func(w *Watcher) { w.removeObject(cache.DeletedFinalStateUnknown{Key: "shop/db-0", Obj: db}) }, "a: web-0; b: web-1"},
		"another pod of that name after a gap":           {func(w *Watcher) { w.updateObject(db, successor("db-0", "db-0'", "b")) }, "a: web-0; b: db-0' web-1"},
		"another pod of that name on the node after one": {func(w *Watcher) { w.updateObject(db, successor("db-0", "db-0'", "a")) }, "a: db-0' web-0; b: web-1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newOfflineWatcher(db, build.Pod("web-0", build.On("a")), build.Pod("web-1", build.On("b")))
			w.View()
			c.happens(w)
			if got := podsOf(w.View()); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if changed, _ := w.takeSignals(); changed != (name != "nothing" && name != "a pod that is not bound") {
				t.Errorf("a change was told: %t", changed)
			}
		})
	}
}

// TestLostReadinessIsRemembered checks that a pod which was unready in between counts as ready only after half a minute. It
// does not count for a workload that it has left.
func TestLostReadinessIsRemembered(t *testing.T) {
	named := func(name string) drain.Workload {
		return drain.Workload{Namespace: "shop", Kind: "StatefulSet", Name: name}
	}
	ready := func(owner string, with ...func(*corev1.Pod)) *corev1.Pod {
		pod := build.Pod("web-0", append(with, build.On("a"), build.OwnedBy("StatefulSet", owner))...)
		pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: epoch}
		return pod
	}
	w := newOfflineWatcher(ready("web"))
	w.updateObject(ready("web"), ready("web", build.Unready))
	w.updateObject(ready("web", build.Unready), ready("web"))
	web := w.View().Workloads.Named(named("web"))
	if early, late := web.CountSettled(0, epoch.Add(29*time.Second)), web.CountSettled(0, epoch.Add(30*time.Second)); early != 0 || late != 1 {
		t.Errorf("%d pods count as ready after 29s, and %d after 30s", early, late)
	}
	w.updateObject(ready("web"), ready("other"))
	if now := w.View().Workloads; now.Named(named("web")) != nil || len(now.Named(named("other")).Pods) != 1 {
		t.Errorf("its former workload is %v, and its present one %v", now.Named(named("web")), now.Named(named("other")))
	}
}

func TestLaterEventsDoNotChangeView(t *testing.T) {
	w := newOfflineWatcher(build.Node("a", "a"), build.Pod("web-0", build.On("a")), build.Budget("web"))
	before := w.View()
	w.storeObject(build.Node("b", "a"), true)
	w.storeObject(build.Pod("web-1", build.On("a")), true)
	w.storeObject(build.Budget("web", withDisruptedPod("web-0")), false)
	w.storeObject(namespace("shop", corev1.NamespaceTerminating), false)
	w.removeObject(build.Pod("web-0", build.On("a")))
	if got := podsOf(before); got != "a: web-0" {
		t.Errorf("its pods are now %q", got)
	}
	covering := before.Budgets.Covering(build.Pod("web-0"))
	if len(before.Nodes) != 1 || len(before.Disrupted)+len(before.EndingNamespaces) != 0 || len(covering) != 1 || covering[0].Status.DisruptedPods != nil {
		t.Errorf("it is now %+v", before)
	}
}

// TestViewsShareNodes checks that Views share their nodes until one changes, so that they need to be joined only once.
func TestViewsShareNodes(t *testing.T) {
	cases := map[string]struct {
		happens func(*Watcher)
		want    bool
	}{
		"nothing":        {func(*Watcher) {}, true},
		"a pod comes":    {func(w *Watcher) { w.storeObject(build.Pod("web-0", build.On("a")), true) }, true},
		"a node comes":   {func(w *Watcher) { w.storeObject(build.Node("c", "a"), true) }, false},
		"a node goes":    {func(w *Watcher) { w.removeObject(build.Node("b", "a")) }, false},
		"a node changes": {func(w *Watcher) { w.updateObject(build.Node("b", "a"), build.Node("b", "a")) }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newOfflineWatcher(build.Node("b", "a"), build.Node("a", "a"))
			before := w.View().Nodes
			c.happens(w)
			after := w.View().Nodes
			if shared := &before[0] == &after[0]; shared != c.want || before[0].Name != "a" {
				t.Errorf("the nodes are shared: %t, want %t; the first is %q, want a", shared, c.want, before[0].Name)
			}
		})
	}
}

func namespace(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
}

func withDisruptedPod(pod string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptedPods = map[string]metav1.Time{pod: {Time: epoch}}
	}
}

func TestWatcherKeepsBudgetsUpToDate(t *testing.T) {
	w := newOfflineWatcher(build.Budget("web"))
	pod := build.Pod("web-0")
	steps := []struct {
		what    string
		happens func()
		want    int
	}{
		{"one budget", func() {}, 1},
		{"a second one", func() {
			w.storeObject(build.Budget("all", build.Selecting(&metav1.LabelSelector{})), true)
		}, 2},
		{"it selects other pods", func() {
			w.storeObject(build.Budget("all", build.Selecting(nil)), false)
		}, 1},
		{"the first is gone", func() { w.removeObject(build.Budget("web")) }, 0},
	}
	for _, s := range steps {
		s.happens()
		v := w.View()
		if got := len(v.Budgets.Covering(pod)); got != s.want {
			t.Errorf("%s: %d budgets cover the pod, want %d", s.what, got, s.want)
		}
	}
	if v := w.View(); len(v.PDBs) != 1 || v.PDBs[0].Name != "all" {
		t.Errorf("the budgets are %v", v.PDBs)
	}
}

// TestDisruptedPodsAreRemembered checks that a pod in disruptedPods is remembered for a while after a budget's status no longer
// shows it.
func TestDisruptedPodsAreRemembered(t *testing.T) {
	x, at := newClusterIndex(), epoch
	web := types.NamespacedName{Namespace: build.Namespace, Name: "web-0"}
	look := func(after time.Duration, budget *policyv1.PodDisruptionBudget) (time.Time, bool) {
		at = at.Add(after)
		x.storeBudget(budget, at)
		seen, ok := x.buildView().Disrupted[web]
		return seen, ok
	}
	if _, ok := look(0, build.Budget("web")); ok {
		t.Error("a pod is seen that no budget names")
	}
	if seen, ok := look(time.Minute, build.Budget("web", withDisruptedPod("web-0"))); !ok || !seen.Equal(at) {
		t.Errorf("seen at %s, want %s", seen, at)
	}
	shown := at
	if seen, ok := look(time.Second, build.Budget("web")); !ok || !seen.Equal(shown) {
		t.Errorf("the pod left the status and is seen at %s, want still %s", seen, shown)
	}
	if seen, ok := look(disruptedFor, build.Budget("web")); ok {
		t.Errorf("still seen at %s after %s", seen, disruptedFor)
	}
}

func TestWatcherReportsNamespacesThatAreDeleted(t *testing.T) {
	w := newOfflineWatcher(namespace("shop", corev1.NamespaceActive))
	ending := func() bool { return w.View().EndingNamespaces["shop"] }
	if ending() {
		t.Error("an active namespace is ending")
	}
	w.updateObject(namespace("shop", corev1.NamespaceActive), namespace("shop", corev1.NamespaceTerminating))
	if !ending() {
		t.Error("a namespace that is being deleted is not ending")
	}
	w.removeObject(namespace("shop", corev1.NamespaceTerminating))
	if ending() {
		t.Error("a namespace that is gone is ending")
	}
}

func TestOnlyNodeChangesAreReasonToReadCloud(t *testing.T) {
	a := build.Node("a", "a")
	labelled, other := a.DeepCopy(), a.DeepCopy()
	labelled.Labels["x"] = "y"
	other.UID = "another machine of that name"
	cases := map[string]struct {
		happens func(*Watcher)
		want    bool
	}{
		"a node comes":                   {func(w *Watcher) { w.storeObject(build.Node("b", "a"), true) }, true},
		"a node goes":                    {func(w *Watcher) { w.removeObject(a) }, true},
		"a node is no longer ready":      {func(w *Watcher) { w.updateObject(a, build.Node("a", "a", build.NotReady(epoch))) }, true},
		"a node is another":              {func(w *Watcher) { w.updateObject(a, other) }, true},
		"a node's label changes":         {func(w *Watcher) { w.updateObject(a, labelled) }, false},
		"a pod comes":                    {func(w *Watcher) { w.storeObject(build.Pod("web-0", build.On("a")), true) }, false},
		"a node that was never heard of": {func(w *Watcher) { w.storeObject(build.Node("c", "a"), false) }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newOfflineWatcher(a)
			c.happens(w)
			if changed, nodes := w.takeSignals(); !changed || nodes != c.want {
				t.Errorf("told of a change: %t, of nodes: %t; want true and %t", changed, nodes, c.want)
			}
		})
	}
}

// TestPodStatusOnUncordonedNodeCausesNoStep: most changes of an upgrade's cluster are such pod statuses, and a step for each
// would be most of the cost.
func TestPodStatusOnUncordonedNodeCausesNoStep(t *testing.T) {
	fenced := build.Node("fenced", "a")
	fenced.Spec.Unschedulable = true
	ready := func(name, node string) *corev1.Pod { return build.Pod(name, build.On(node)) }
	cases := map[string]struct {
		happens func(*Watcher)
		want    bool
	}{
		"it waits for a node":                {func(w *Watcher) { w.storeObject(build.Pod("web-9"), true) }, false},
		"it comes to a node":                 {func(w *Watcher) { w.storeObject(ready("waits", "open"), false) }, true},
		"it changes on a node":               {func(w *Watcher) { w.storeObject(ready("on-open", "open"), false) }, false},
		"it changes on a cordoned node":      {func(w *Watcher) { w.storeObject(ready("on-fenced", "fenced"), false) }, true},
		"it changes on a node nobody knows":  {func(w *Watcher) { w.storeObject(ready("on-unknown", "unknown"), false) }, true},
		"it comes to a node nobody cordoned": {func(w *Watcher) { w.storeObject(ready("web-9", "open"), true) }, true},
		"it leaves a node nobody cordoned":   {func(w *Watcher) { w.removeObject(ready("on-open", "open")) }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newOfflineWatcher(fenced, build.Node("open", "a"), build.Pod("waits"), ready("on-open", "open"), ready("on-fenced", "fenced"), ready("on-unknown", "unknown"))
			c.happens(w)
			if changed, _ := w.takeSignals(); changed != c.want {
				t.Errorf("told of a change: %t, want %t", changed, c.want)
			}
		})
	}
}

func TestWatcherFindsSingleObjects(t *testing.T) {
	w := newOfflineWatcher(build.Node("a", "a"), build.Pod("web-0", build.On("a")))
	if node, ok := w.currentNode("a"); !ok || node.Name != "a" {
		t.Errorf("got %v", node)
	}
	if _, ok := w.currentNode("b"); ok {
		t.Error("a node is found that is not there")
	}
	if pod, ok := w.currentPod("web-0"); !ok || pod.Spec.NodeName != "a" {
		t.Errorf("got %v", pod)
	}
	if _, ok := w.currentPod("web-1"); ok {
		t.Error("a pod is found that is not there")
	}
}
