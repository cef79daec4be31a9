package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

func testWatch(t *testing.T, s *space) {
	before := s.node(t, "before")
	pod := s.pods(t, before.Name, "web-0")[0]
	w := s.watcher(t)
	v := w.View()
	if got := v.Pods[before.Name]; len(got) != 1 || got[0].UID != pod.UID {
		t.Fatalf("the first view has the pods %v on the node", got)
	}
	if !slices.ContainsFunc(v.Nodes, func(n *corev1.Node) bool { return n.UID == before.UID }) {
		t.Error("the first view lacks the node")
	}
	s.budget(t, 0, 1)
	w.awaitView(t, "the budget over the pod", func(v drain.Snapshot) bool {
		covering := v.Budgets.Covering(pod)
		return len(covering) == 1 && covering[0].Status.DisruptionsAllowed == 1
	})
	s.pods(t, before.Name, "web-1")
	w.awaitView(t, "a second pod on the node", func(v drain.Snapshot) bool { return len(v.Pods[before.Name]) == 2 })
	if err := s.Client().CoreV1().Pods(s.name).Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.awaitView(t, "the end of the first pod", func(v drain.Snapshot) bool {
		return len(v.Pods[before.Name]) == 1 && v.Pods[before.Name][0].Name == "web-1"
	})
	w.takeSignals()
	s.node(t, "after")
	select {
	case <-w.NodesChanged():
	case <-time.After(waitLimit):
		t.Error("nothing tells of the second node")
	}
}

func testWatchEndingNamespace(t *testing.T, s *space) {
	w := s.watcher(t)
	keep := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "keep", Finalizers: []string{"example.com/keep"}}}
	if _, err := s.Client().CoreV1().ConfigMaps(s.name).Create(t.Context(), keep, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Client().CoreV1().Namespaces().Delete(t.Context(), s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.awaitView(t, "the namespace to end", func(v drain.Snapshot) bool { return v.EndingNamespaces[s.name] })
}

func testWatchDisruptedPods(t *testing.T, s *space) {
	pod := s.pods(t, s.node(t, "a").Name, "web-0", "web-1")[0]
	s.budget(t, 1, 1)
	w := s.watcher(t)
	before := time.Now()
	if err := Evict(t.Context(), s.client, evictionOf(pod), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	name := types.NamespacedName{Namespace: s.name, Name: "web-0"}
	v := w.awaitView(t, "the eviction in the budget's status", func(v drain.Snapshot) bool { _, ok := v.Disrupted[name]; return ok })
	if seen := v.Disrupted[name]; seen.Before(before) {
		t.Errorf("seen at %s, before the eviction at %s", seen, before)
	}
}

// testForbidden uses a user who may read all kinds except one, for each kind in turn.
func testForbidden(t *testing.T, s *space) {
	kinds := map[string]string{"nodes": "", "pods": "", "namespaces": "", "poddisruptionbudgets": "policy"}
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			user := s.name + "-" + kind
			client := s.clientOf(t, user)
			rules := []rbacv1.PolicyRule{}
			for other, group := range kinds {
				if other != kind {
					rules = append(rules, rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{group}, Resources: []string{other}})
				}
			}
			s.allow(t, user, rules)
			_, err := WatchCluster(t.Context(), client, time.Now)
			if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "watching "+kind+": ") {
				t.Errorf("watching: got error %v, want one that forbids %s", err, kind)
			}
			if _, err = readAll(t.Context(), client); !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "listing "+kind+": ") {
				t.Errorf("reading: got error %v, want one that forbids %s", err, kind)
			}
		})
	}
}

// clientOf returns a client of a user without permissions.
func (s *space) clientOf(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	path, err := s.KubeconfigFor(user)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // the product has no limit either
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// allow grants the user the permissions, and waits until the API server knows them.
func (s *space) allow(t *testing.T, user string, rules []rbacv1.PolicyRule) {
	t.Helper()
	meta, rbac := metav1.ObjectMeta{Name: user}, s.Client().RbacV1()
	if _, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := s.clientOf(t, user)
	s.eventually(t, "the rights of "+user, func(ctx context.Context) (bool, error) {
		for _, rule := range rules {
			get := client.CoreV1().RESTClient().Get().AbsPath("/api/v1", rule.Resources[0])
			if rule.APIGroups[0] != "" {
				get = client.CoreV1().RESTClient().Get().AbsPath("/apis", rule.APIGroups[0], "v1", rule.Resources[0])
			}
			if err := get.Param("limit", "1").Do(ctx).Error(); apierrors.IsForbidden(err) {
				return false, nil
			} else if err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

func TestWatchReturnsLastErrorOfServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of order", http.StatusInternalServerError)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = watchClusterWithin(t.Context(), client, time.Now, 500*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "it took longer than 500ms: watching ") || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("got error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := watchClusterWithin(ctx, client, time.Now, waitLimit); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: got error %v, want %v", err, context.Canceled)
	}
}

// readAll returns a View with its pods.
func readAll(ctx context.Context, client kubernetes.Interface) (drain.Snapshot, error) {
	v, err := ReadView(ctx, client, time.Now)
	if err != nil {
		return v, err
	}
	v.Pods, err = ListPods(ctx, client)
	return v, err
}

func testReadIsTheSameAsWatch(t *testing.T, s *space) {
	node := s.node(t, "a")
	s.pods(t, node.Name, "web-0", "web-1")
	s.budget(t, 1, 1)
	want := s.watcher(t).View()
	got, err := readAll(t.Context(), s.client)
	if err != nil {
		t.Fatal(err)
	}
	one := func(pods map[string][]*corev1.Pod) string { // other tests use the same server
		return podsOf(drain.Snapshot{Pods: map[string][]*corev1.Pod{node.Name: pods[node.Name]}})
	}
	if g, w := one(got.Pods), one(want.Pods); g != w || len(got.Pods[node.Name]) != 2 {
		t.Fatalf("got pods %q, want %q", g, w)
	}
	isOwn := func(n *corev1.Node) bool { return n.UID == node.UID }
	if !slices.ContainsFunc(got.Nodes, isOwn) || !slices.ContainsFunc(want.Nodes, isOwn) {
		t.Errorf("node %s is not among the nodes that were read", node.Name)
	}
	pod := got.Pods[node.Name][0]
	if len(got.Budgets.Covering(pod)) != 1 {
		t.Error("the budget does not cover the pod")
	}
	if pod.ManagedFields != nil || pod.Status.ContainerStatuses != nil {
		t.Error("the pods are not trimmed")
	}
	others := slices.Collect(maps.Keys(want.Pods))
	for len(others) <= maxListedNodes { // above this number, all pods of the cluster are listed
		others = append(others, fmt.Sprintf("no-%d", len(others)))
	}
	for _, wanted := range [][]string{{node.Name}, append(others[len(want.Pods):], node.Name)} {
		own, err := ListPodsOfNodes(t.Context(), s.client, wanted)
		if g, w := one(own), one(want.Pods); err != nil || g != w {
			t.Errorf("of %d nodes: got pods %q and error %v, want %q", len(wanted), g, err, w)
		}
		if len(own) > len(wanted) || own[""] != nil {
			t.Errorf("of %d nodes: read pods of %d", len(wanted), len(own))
		}
	}
	nodes, err := ListNodes(t.Context(), s.client)
	if err != nil || !slices.ContainsFunc(nodes, isOwn) {
		t.Errorf("got %d nodes and error %v, want node %s among them", len(nodes), err, node.Name)
	}
}

// testReadPages uses a server that returns two objects at a time, whatever the limit of the request
// is.
func testReadPages(t *testing.T, s *space) {
	node := s.node(t, "a")
	names := []string{"web-0", "web-1", "web-2", "web-3", "web-4"}
	s.pods(t, node.Name, names...)
	client, line := s.newBreakableClient(t)
	pages := map[string]int{}
	line.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		query := r.URL.Query()
		if query.Get("limit") != "" {
			t.Errorf("%s asks for %q objects at a time", r.URL.Path, query.Get("limit"))
		}
		query.Del("resourceVersion")
		query.Set("limit", "2")
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
		return next.RoundTrip(r)
	})
	v, err := readAll(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pod := range v.Pods[node.Name] {
		got = append(got, pod.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, names) {
		t.Errorf("read the pods %v, want %v", got, names)
	}
	events, err := s.AuditEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.UserAgent == s.name && e.Verb == "list" {
			pages[e.ObjectRef.Resource]++
		}
	}
	if kinds := slices.Sorted(maps.Keys(pages)); len(kinds) != 4 || pages["pods"] < 3 {
		t.Errorf("pages read: %v, want 3 or more of pods and one or more of 4 kinds", pages)
	}
}

func TestReadFailsIfOneListFails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/pods") {
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}`)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(t.Context(), client); err == nil || !strings.HasPrefix(err.Error(), "listing ") {
		t.Errorf("got error %v, want one that names the kind", err)
	}
}
