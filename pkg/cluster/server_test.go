package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

// waitLimit is much longer than any wait here on a busy machine.
const waitLimit = time.Minute

// TestClusterAccessWorksWithRealAPIServer checks what fakes do not have: preconditions, conflicts, budgets and watches.
func TestClusterAccessWorksWithRealAPIServer(t *testing.T) {
	c := controlplane.ForTest(t, controlplane.Options{})
	tests := map[string]func(*testing.T, *space){
		"watch":                testWatch,
		"watch-ending":         testWatchEndingNamespace,
		"watch-disrupted":      testWatchDisruptedPods,
		"forbidden":            testForbidden,
		"permissions":          testPermissions,
		"read":                 testReadIsTheSameAsWatch,
		"read-pages":           testReadPages,
		"background":           testBackground,
		"background-forbidden": testBackgroundForbidden,
		"facts":                testFacts,
		"fence":                testFenceKeepsForeignMarks,
		"fence-stale":          testStaleNodeIsNotPatched,
		"fence-conflict":       testFenceAgainstAnotherWriter,
		"fence-alone":          testFenceLooksLikeCordonToControllers,
		"take-over":            testTakeOver,
		"move":                 testMove,
		"controller":           testReadController,
		"evict":                testEvict,
		"evict-moved":          testEvictionOfMovedPodIsNotSent,
		"evict-wrong-uid":      testEvictionOfAnotherUID,
		"evict-refused":        testRefusedEviction,
		"delete":               testDelete,
		"delete-node":          testDeleteNode,
		"store":                testStore,
		"store-groups":         testStoreOfManyGroups,
		"store-contended":      testStoreWithConcurrentWriters,
		"store-lost-answer":    testStoreLostAnswer,
		"store-repeats":        testStoreRepeatsUnansweredWrites,
		"store-foreign":        testStoreOfNewerProgram,
		"store-ask":            testAsk,
		"store-follow":         testFollowRecord,
		"lease":                testLease,
		"lease-held":           testLeaseHeld,
		"lease-raced":          testLeaseWithTwoClaims,
		"lease-lost-answer":    testLeaseLostAnswer,
		"lease-expires":        testLeaseExpires,
		"lease-takeover":       testLeaseTakeover,
		"lease-given-back":     testLeaseReleased,
		"lease-unreachable":    testLeaseUnreachable,
		"lease-overtaken":      testLeaseOvertaken,
		"lease-may-not-be-had": testLeaseRefused,
		"lease-given-up":       testWaitForLeaseIsInterrupted,
		"lease-patient":        testLeasePatient,
		"lease-patience-ends":  testLeasePatientStopped,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has its own namespace and nodes
			test(t, newSpace(t, c))
		})
	}
}

// space is a sub-test's part of the cluster: a namespace, and nodes and clients named after it.
type space struct {
	*controlplane.Cluster
	name string
	// client sends its requests with the space's name.
	client kubernetes.Interface
}

func newSpace(t *testing.T, c *controlplane.Cluster) *space {
	t.Helper()
	s := &space{Cluster: c, name: path.Base(t.Name())}
	s.client = s.clientWith(t, func(*rest.Config) {})
	s.namespace(t, s.name)
	return s
}

func (s *space) clientWith(t *testing.T, change func(*rest.Config)) kubernetes.Interface {
	t.Helper()
	config := s.RESTConfig()
	config.UserAgent = s.name
	change(config)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (s *space) namespace(t *testing.T, name string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.Client().CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// node adds a Ready node.
func (s *space) node(t *testing.T, suffix string, change ...func(*controlplane.NodeSpec)) *corev1.Node {
	t.Helper()
	spec := controlplane.NodeSpec{Name: s.name + "-" + suffix}
	for _, f := range change {
		f(&spec)
	}
	if err := s.AddNode(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	node, err := s.WaitForNode(ctx, spec.Name, corev1.ConditionTrue)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// pods creates pods without a controller and with the label app=web on a node, and waits until they
// are ready.
func (s *space) pods(t *testing.T, node string, names ...string) []*corev1.Pod {
	t.Helper()
	client := s.Client().CoreV1().Pods(s.name)
	for _, name := range names {
		_, err := client.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{
				NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "example.com/web:1"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	var pods []*corev1.Pod
	for _, name := range names {
		s.eventually(t, "pod "+name+" to be ready", func(ctx context.Context) (bool, error) {
			pod, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil || !isPodReady(pod) {
				return false, err
			}
			pods = append(pods, pod)
			return true, nil
		})
	}
	return pods
}

func isPodReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// budget creates a PodDisruptionBudget for the pods with the label app=web, and waits until it
// allows this number of disruptions.
func (s *space) budget(t *testing.T, minAvailable int, allowed int32) {
	t.Helper()
	least := intstr.FromInt(minAvailable)
	_, err := s.Client().PolicyV1().PodDisruptionBudgets(s.name).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.eventually(t, fmt.Sprintf("the budget to allow %d", allowed), func(context.Context) (bool, error) {
		status := s.budgetStatus(t)
		return status.ObservedGeneration > 0 && status.CurrentHealthy > 0 && status.DisruptionsAllowed == allowed, nil
	})
}

func (s *space) budgetStatus(t *testing.T) policyv1.PodDisruptionBudgetStatus {
	t.Helper()
	budget, err := s.Client().PolicyV1().PodDisruptionBudgets(s.name).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return budget.Status
}

func (s *space) eventually(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, waitLimit, true, done); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// watcher watches the cluster for as long as the sub-test runs.
func (s *space) watcher(t *testing.T) *Watcher {
	t.Helper()
	w, err := WatchCluster(t.Context(), s.client, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// awaitView waits, by the Watcher's own signal, for a View that satisfies the condition.
func (w *Watcher) awaitView(t *testing.T, what string, holds func(drain.Snapshot) bool) drain.Snapshot {
	t.Helper()
	limit := time.After(waitLimit)
	for {
		if v := w.View(); holds(v) {
			return v
		}
		select {
		case <-w.Changed():
		case <-limit:
			t.Fatalf("the view does not show %s", what)
		}
	}
}

// requests returns the space's own requests for changes that the server has answered, as "verb
// resource code".
func (s *space) requests(t *testing.T) []string {
	t.Helper()
	events, err := s.AuditEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range events {
		if e.UserAgent == s.name && e.IsMutating() {
			found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Verb, path.Join(e.ObjectRef.Resource, e.ObjectRef.Subresource), fmt.Sprint(e.ResponseStatus.Code))))
		}
	}
	return found
}

// breakableConnection is a connection that a test can break.
type breakableConnection struct {
	next  http.RoundTripper
	spoil atomic.Pointer[func(*http.Request, http.RoundTripper) (*http.Response, error)]

	mu      sync.Mutex // guards the fields below
	watches []context.CancelFunc
}

// RoundTrip implements http.RoundTripper.
func (s *breakableConnection) RoundTrip(r *http.Request) (*http.Response, error) {
	if spoil := s.spoil.Load(); spoil != nil {
		return (*spoil)(r, s.next)
	}
	if r.URL.Query().Get("watch") == "true" {
		ctx, cancel := context.WithCancel(r.Context())
		s.mu.Lock()
		s.watches = append(s.watches, cancel)
		s.mu.Unlock()
		r = r.WithContext(ctx)
	}
	return s.next.RoundTrip(r)
}

// cutWatches ends all open watches.
func (s *breakableConnection) cutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cut := range s.watches {
		cut()
	}
}

// set replaces the connection; nil restores it.
func (s *breakableConnection) set(spoil func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	if spoil == nil {
		s.spoil.Store(nil)
		return
	}
	s.spoil.Store(&spoil)
}

// newBreakableClient returns a client whose connection the test can break.
func (s *space) newBreakableClient(t *testing.T) (kubernetes.Interface, *breakableConnection) {
	t.Helper()
	line := &breakableConnection{}
	client := s.clientWith(t, func(config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { line.next = next; return line })
	})
	return client, line
}

// loseAnswer sends the request and then reports that the connection was cut.
func loseAnswer(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(r)
	if err == nil {
		response.Body.Close()
	}
	return nil, errors.New("the connection was cut")
}

// silentUntil does not answer until mended is closed; then it reports that the connection was cut.
func silentUntil(mended <-chan struct{}) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-mended:
			return nil, errors.New("the connection was cut")
		}
	}
}
