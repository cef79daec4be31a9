package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

// testOwner is the owner that tests write on nodes.
var testOwner = nodemark.Owner{Namespace: "kube-system", Group: testGroup, Epoch: 3}

func TestNodePatchContainsOnlyChanges(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"nothing":      {func(*corev1.Node) {}, ``},
		"a label":      {func(n *corev1.Node) { n.Labels["x"] = "y" }, `{"metadata":{"labels":{"x":"y"},"resourceVersion":"1","uid":"a"}}`},
		"a label goes": {func(n *corev1.Node) { delete(n.Labels, "keep") }, `{"metadata":{"labels":{"keep":null},"resourceVersion":"1","uid":"a"}}`},
		"a cordon":     {func(n *corev1.Node) { n.Spec.Unschedulable = true }, `{"metadata":{"resourceVersion":"1","uid":"a"},"spec":{"unschedulable":true}}`},
		"a taint, as the whole list": {func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "ours", Effect: corev1.TaintEffectNoSchedule})
		}, `{"metadata":{"resourceVersion":"1","uid":"a"},"spec":{"taints":[{"effect":"NoSchedule","key":"foreign"},{"effect":"NoSchedule","key":"ours"}]}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			old := build.Node("a", "a", build.Tainted("foreign"))
			old.Labels["keep"] = "this"
			changed := old.DeepCopy()
			c.change(changed)
			patch, err := newNodePatch(old, changed)
			if err != nil || string(patch) != c.want {
				t.Errorf("got %s and error %v, want %s", patch, err, c.want)
			}
		})
	}
}

// marksOf returns what fencing and draining change on a node. It leaves out what controllers add
// and remove.
func marksOf(node *corev1.Node) string {
	node = node.DeepCopy()
	delete(node.Annotations, "node.alpha.kubernetes.io/ttl")
	maps.DeleteFunc(node.Labels, func(key, _ string) bool { return strings.HasPrefix(key, "beta.kubernetes.io/") })
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return strings.HasPrefix(taint.Key, "node.kubernetes.io/") })
	text, err := json.Marshal([]any{node.Labels, node.Annotations, node.Spec})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// testFenceKeepsForeignMarks fences, drains and releases a node, and checks that foreign labels
// and taints stay.
func testFenceKeepsForeignMarks(t *testing.T, s *space) {
	node := s.node(t, "a", func(spec *controlplane.NodeSpec) {
		spec.Labels = map[string]string{"team": "shop", "example.com/x": ""}
		spec.Annotations = map[string]string{"example.com/note": "kept as it is"}
		spec.Taints = []corev1.Taint{
			{Key: "dedicated", Value: "shop", Effect: corev1.TaintEffectNoSchedule}, {Key: "dedicated", Value: "shop", Effect: corev1.TaintEffectPreferNoSchedule},
		}
	})
	w := s.watcher(t)
	writer := NewWriter(s.client, w, "run-1", nodegroup.FenceTaint("aws"), testOwner)
	deadline := time.Now().Add(time.Hour)
	steps := []struct {
		what   string
		action func(*corev1.Node) nodegroup.Action
		shows  func(*corev1.Node) bool
	}{
		{"the fence", func(n *corev1.Node) nodegroup.Action {
			return nodemark.Fence{NodeVersion: nodemark.VersionOf(n), Before: `{"desired":3}`}
		}, func(n *corev1.Node) bool {
			return n.Annotations[nodemark.AnnotationGroupBaseline] == `{"desired":3}` && n.Spec.Unschedulable && nodemark.HasTaint(n, nodegroup.FenceTaint("aws")) && n.Annotations[nodemark.AnnotationRun] == "run-1" && len(n.Spec.Taints) >= 3
		}},
		{"the drain", func(n *corev1.Node) nodegroup.Action {
			return nodemark.StartDrain{NodeVersion: nodemark.VersionOf(n), Deadline: deadline}
		}, func(n *corev1.Node) bool {
			return n.Annotations[nodemark.AnnotationDeadline] == nodemark.FormatTime(deadline) && n.Labels[corev1.LabelNodeExcludeBalancers] == "true"
		}},
		{"the end of the fence", func(n *corev1.Node) nodegroup.Action {
			return nodemark.Unfence{NodeVersion: nodemark.VersionOf(n)}
		}, func(n *corev1.Node) bool { return marksOf(n) == marksOf(node) }},
		{"what keeps autoscalers away", func(n *corev1.Node) nodegroup.Action {
			return nodemark.HoldNode{NodeVersion: nodemark.VersionOf(n), Before: `{"desired":3}`}
		}, func(n *corev1.Node) bool {
			return n.Annotations[nodemark.AnnotationNoScaleDown] == "true" && n.Annotations[nodemark.AnnotationHeld] == "run-1" &&
				n.Annotations[nodemark.AnnotationGroupBaseline] == `{"desired":3}`
		}},
		{"the end of that", func(n *corev1.Node) nodegroup.Action {
			return nodemark.UnholdNode{NodeVersion: nodemark.VersionOf(n)}
		}, func(n *corev1.Node) bool { return marksOf(n) == marksOf(node) }},
	}
	var known *corev1.Node
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("before: %s\nlast:   %s", marksOf(node), marksOf(known))
		}
	})
	for _, step := range steps {
		s.eventually(t, step.what+" to be written", func(ctx context.Context) (bool, error) {
			known, _ = w.currentNode(node.Name)
			err := writer.Do(ctx, step.action(known))
			if apierrors.IsConflict(err) || errors.Is(err, nodegroup.ErrMoved) {
				return false, nil // a controller wrote the node at the same moment
			}
			return err == nil, err
		})
		w.awaitView(t, step.what+" on the node", func(drain.Snapshot) bool {
			known, _ = w.currentNode(node.Name)
			return step.shows(known)
		})
	}
}

// writerOf returns a writer that knows the objects as they were and gets no updates.
func (s *space) writerOf(objects ...any) *Writer {
	return NewWriter(s.client, newOfflineWatcher(objects...), "run-1", nodegroup.FenceTaint("aws"), testOwner)
}

func testStaleNodeIsNotPatched(t *testing.T, s *space) {
	node := s.node(t, "a")
	writer := s.writerOf(node)
	actions := map[string]nodegroup.Action{
		"an older version":   nodemark.Fence{NodeVersion: nodemark.NodeVersion{Node: node.Name, UID: node.UID, Version: "1"}},
		"another UID":        nodemark.Fence{NodeVersion: nodemark.NodeVersion{Node: node.Name, UID: "other", Version: node.ResourceVersion}},
		"no such node":       nodemark.Fence{NodeVersion: nodemark.NodeVersion{Node: "none", UID: node.UID, Version: node.ResourceVersion}},
		"an older drain":     nodemark.StartDrain{NodeVersion: nodemark.NodeVersion{Node: node.Name, UID: node.UID, Version: "1"}},
		"an older hold":      nodemark.HoldNode{NodeVersion: nodemark.NodeVersion{Node: node.Name, UID: node.UID, Version: "1"}},
		"an older free":      nodemark.UnholdNode{NodeVersion: nodemark.NodeVersion{Node: node.Name, UID: node.UID, Version: "1"}},
		"an older unfence":   nodemark.Unfence{NodeVersion: nodemark.NodeVersion{Node: node.Name, UID: node.UID, Version: "1"}},
		"nothing to unfence": nodemark.Unfence{NodeVersion: nodemark.VersionOf(node)},
	}
	for what, action := range actions {
		err := writer.Do(t.Context(), action)
		if what == "nothing to unfence" {
			if err != nil {
				t.Errorf("%s: got error %v", what, err)
			}
		} else if !errors.Is(err, nodegroup.ErrMoved) {
			t.Errorf("%s: got error %v, want %v", what, err, nodegroup.ErrMoved)
		}
	}
	if sent := s.requests(t); len(sent) > 0 {
		t.Errorf("sent %q, want nothing", sent)
	}
}

// testFenceAgainstAnotherWriter taints the node as an autoscaler does. The writer does not get this
// update before it sends the fence.
func testFenceAgainstAnotherWriter(t *testing.T, s *space) {
	before := s.node(t, "a")
	foreign := []byte(`{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","value":"1","effect":"NoSchedule"}]}}`)
	after, err := s.Client().CoreV1().Nodes().Patch(t.Context(), before.Name, types.MergePatchType, foreign, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.writerOf(before).Do(t.Context(), nodemark.Fence{NodeVersion: nodemark.VersionOf(before)})
	if !apierrors.IsConflict(err) {
		t.Errorf("got error %v, want 409", err)
	}
	now, err := s.Client().CoreV1().Nodes().Get(t.Context(), before.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(now.Spec, after.Spec) || now.Annotations[nodemark.AnnotationRun] != "" {
		t.Errorf("the node is now %s", marksOf(now))
	}
	if sent := s.requests(t); !slices.Equal(sent, []string{"patch nodes 409"}) {
		t.Errorf("sent %q, want one patch", sent)
	}
}

// testFenceLooksLikeCordonToControllers compares a fenced node with a node that was only cordoned,
// after the node controller has seen both.
func testFenceLooksLikeCordonToControllers(t *testing.T, s *space) {
	node, other := s.node(t, "a"), s.node(t, "b")
	w := s.watcher(t)
	s.eventually(t, "the fence to be written", func(ctx context.Context) (bool, error) {
		known, _ := w.currentNode(node.Name)
		if len(known.Spec.Taints) > 0 {
			return false, nil // the node became ready only now
		}
		err := NewWriter(s.client, w, "run-1", nodegroup.FenceTaint("aws"), testOwner).Do(ctx, nodemark.Fence{NodeVersion: nodemark.VersionOf(known)})
		if apierrors.IsConflict(err) || errors.Is(err, nodegroup.ErrMoved) {
			return false, nil
		}
		return err == nil, err
	})
	if _, err := s.Client().CoreV1().Nodes().Patch(t.Context(), other.Name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.awaitView(t, "the controller's taint on the other node", func(drain.Snapshot) bool {
		known, _ := w.currentNode(other.Name)
		return slices.ContainsFunc(known.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeUnschedulable })
	})
	now, err := s.Client().CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range now.ManagedFields {
		if strings.Contains(owner.FieldsV1.String(), `"f:taints"`) && owner.Manager != FieldManager {
			t.Errorf("%s wrote the taints of the fenced node, which are %v", owner.Manager, now.Spec.Taints)
		}
	}
}

// testTakeOver sends requests of the previous holder that were decided before the takeover.
func testTakeOver(t *testing.T, s *space) {
	before := s.node(t, "a")
	in := map[string]types.UID{before.Name: before.UID, "gone": "x"}
	if err := s.writerOf(before).TakeOver(t.Context(), in, 7); err != nil {
		t.Fatal(err)
	}
	now, err := s.Client().CoreV1().Nodes().Get(t.Context(), before.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := now.Annotations[nodemark.AnnotationEpoch]; got != "7" {
		t.Errorf("the node is marked with epoch %q, want 7", got)
	}
	late := nodemark.StartDrain{NodeVersion: nodemark.VersionOf(before), Deadline: time.Now()}
	if err := s.writerOf(before).Do(t.Context(), late); !apierrors.IsConflict(err) {
		t.Errorf("the late request of the holder before got error %v, want 409", err)
	}
}

func evictionOf(pod *corev1.Pod) schedule.Eviction {
	return schedule.Eviction{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName}
}

func testEvict(t *testing.T, s *space) {
	pod := s.pods(t, s.node(t, "a").Name, "web-0")[0]
	w := s.watcher(t)
	if err := NewWriter(s.client, w, "run-1", nodegroup.FenceTaint("aws"), testOwner).Do(t.Context(), evictionOf(pod)); err != nil {
		t.Fatal(err)
	}
	w.awaitView(t, "the pod to leave", func(drain.Snapshot) bool {
		known, ok := w.currentPod(pod.UID)
		return !ok || known.DeletionTimestamp != nil
	})
	if sent := s.requests(t); !slices.Equal(sent, []string{"create pods/eviction 201"}) {
		t.Errorf("sent %q, want one eviction", sent)
	}
}

func testEvictionOfMovedPodIsNotSent(t *testing.T, s *space) {
	pod := s.pods(t, s.node(t, "a").Name, "web-0")[0]
	writer := s.writerOf(pod)
	other, elsewhere := evictionOf(pod), evictionOf(pod)
	other.UID, elsewhere.Node = "another pod of that name", "another node"
	for what, action := range map[string]nodegroup.Action{"a pod of another UID": other, "a pod of another node": elsewhere} {
		if err := writer.Do(t.Context(), action); !errors.Is(err, nodegroup.ErrMoved) {
			t.Errorf("%s: got error %v, want %v", what, err, nodegroup.ErrMoved)
		}
	}
	if sent := s.requests(t); len(sent) > 0 {
		t.Errorf("sent %q, want nothing", sent)
	}
}

// testEvictionOfAnotherUID documents why the watch is checked first. The API server spends the
// budget before it compares the UID. The budget stays spent for two minutes although the pod stays
// (Kubernetes K01).
func testEvictionOfAnotherUID(t *testing.T, s *space) {
	pod := s.pods(t, s.node(t, "a").Name, "web-0", "web-1")[0]
	s.budget(t, 1, 1)
	wrong := evictionOf(pod)
	wrong.UID = "00000000-0000-0000-0000-000000000000"
	if err := Evict(t.Context(), s.client, wrong, metav1.DeleteOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("got error %v, want 409", err)
	}
	status := s.budgetStatus(t)
	if _, spent := status.DisruptedPods["web-0"]; !spent || status.DisruptionsAllowed != 0 {
		t.Errorf("the budget allows %d and lists %v, want 0 and the pod that was not evicted", status.DisruptionsAllowed, status.DisruptedPods)
	}
	if err := Evict(t.Context(), s.client, evictionOf(pod), metav1.DeleteOptions{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the right pod: got error %v, want 429", err)
	}
}

func testRefusedEviction(t *testing.T, s *space) {
	pod := s.pods(t, s.node(t, "a").Name, "web-0")[0]
	s.budget(t, 1, 0)
	err := s.writerOf(pod).Do(t.Context(), evictionOf(pod))
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("got error %v, want 429 with the cause DisruptionBudget", err)
	}
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if err := Evict(t.Context(), s.client, evictionOf(pod), dry); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a dry run: got error %v, want 429", err)
	}
	if sent := s.requests(t); !slices.Equal(sent, []string{"create pods/eviction 429", "create pods/eviction 429"}) {
		t.Errorf("sent %q, want each eviction once", sent)
	}
}

// TestEvictNamesTheUID checks that an eviction names the pod that was judged, and not a newer pod
// with its name.
func TestEvictNamesTheUID(t *testing.T) {
	var sent policyv1.Eviction
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	eviction := evictionOf(build.Pod("web-0"))
	for _, options := range []metav1.DeleteOptions{{}, {DryRun: []string{metav1.DryRunAll}}, {Preconditions: &metav1.Preconditions{}}} {
		sent = policyv1.Eviction{}
		if err := Evict(t.Context(), client, eviction, options); err != nil {
			t.Fatal(err)
		}
		if of := sent.DeleteOptions; of == nil || of.Preconditions == nil || of.Preconditions.UID == nil || *of.Preconditions.UID != eviction.UID || !slices.Equal(of.DryRun, options.DryRun) {
			t.Errorf("sent %+v, want the UID %s and dry run %v", sent.DeleteOptions, eviction.UID, options.DryRun)
		}
	}
}

// TestEvictIsNotRetriedByClientGo uses a server that asks for a retry, which client-go would do ten times.
func TestEvictIsNotRetriedByClientGo(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		var asked atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(code)
		}))
		client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		err = Evict(t.Context(), client, evictionOf(build.Pod("web-0")), metav1.DeleteOptions{})
		server.Close()
		if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 1 {
			t.Errorf("%d: got error %v, want one that says to wait", code, err)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%d: %d requests, want 1", code, n)
		}
	}
}

func testDelete(t *testing.T, s *space) {
	pods := s.pods(t, s.node(t, "a").Name, "web-0", "web-1")
	s.budget(t, 2, 0)
	writer := s.writerOf()
	wrong := schedule.Deletion{Namespace: s.name, Pod: "web-0", UID: pods[1].UID}
	if err := writer.Do(t.Context(), wrong); !apierrors.IsConflict(err) {
		t.Errorf("another UID: got error %v, want 409", err)
	}
	right := schedule.Deletion{Namespace: s.name, Pod: "web-0", UID: pods[0].UID}
	if err := writer.Do(t.Context(), right); err != nil {
		t.Errorf("past the budget: got error %v", err)
	}
	s.eventually(t, "the pod to be gone", func(ctx context.Context) (bool, error) {
		_, err := s.Client().CoreV1().Pods(s.name).Get(ctx, "web-0", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	events, err := s.AuditEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.UserAgent == s.name && strings.Contains(string(e.RequestObject), "gracePeriodSeconds") {
			t.Errorf("the pod does not keep its own grace: %s", e.RequestObject)
		}
	}
}

func testDeleteNode(t *testing.T, s *space) {
	node := s.node(t, "a")
	writer := s.writerOf()
	get := func() error {
		_, err := s.Client().CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
		return err
	}
	if err := writer.Do(t.Context(), nodemark.DeleteNode{Node: node.Name, UID: "another"}); !apierrors.IsConflict(err) {
		t.Errorf("another UID: got error %v, want 409", err)
	}
	if err := get(); err != nil {
		t.Fatalf("the node of another UID: %v", err)
	}
	if err := writer.Do(t.Context(), nodemark.DeleteNode{Node: node.Name, UID: node.UID}); err != nil {
		t.Errorf("got error %v", err)
	}
	if err := get(); !apierrors.IsNotFound(err) {
		t.Errorf("the node is still there: %v", err)
	}
}

func TestWriterRejectsCloudActions(t *testing.T) {
	err := NewWriter(nil, newOfflineWatcher(), "run-1", nodegroup.FenceTaint("aws"), testOwner).Do(t.Context(), nodegroup.Terminate{Instance: "i-1"})
	if err == nil || !strings.Contains(err.Error(), "terminate instance i-1") {
		t.Errorf("got error %v", err)
	}
}

// TestWriterDoesNotChangeFenceWithUnreadableAnnotation: the error names the annotation, and no request is sent.
func TestWriterDoesNotChangeFenceWithUnreadableAnnotation(t *testing.T) {
	node := build.Node("a", "a")
	node.Annotations = map[string]string{nodemark.AnnotationNodeBaseline: "{", nodemark.AnnotationRun: "r0"}
	writer := NewWriter(nil, newOfflineWatcher(node), "run-1", nodegroup.FenceTaint("aws"), testOwner)
	for _, action := range []nodegroup.Action{
		nodemark.Fence{NodeVersion: nodemark.NodeVersion{Node: "a", UID: "a", Version: "1"}}, nodemark.Unfence{NodeVersion: nodemark.NodeVersion{Node: "a", UID: "a", Version: "1"}},
	} {
		if err := writer.Do(t.Context(), action); err == nil || !strings.Contains(err.Error(), nodemark.AnnotationNodeBaseline) {
			t.Errorf("%s: got error %v, want one that names the annotation", action, err)
		}
	}
}
