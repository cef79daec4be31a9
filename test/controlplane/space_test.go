package controlplane

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// waitLimit is the time limit of each wait. It is much longer than any step takes on a busy machine.
const waitLimit = time.Minute

// space is a subtest's part of the cluster: a namespace, and nodes with the namespace's name as a label.
type space struct {
	*Cluster
	name string
}

func newSpace(t *testing.T, c *Cluster) *space {
	t.Helper()
	name := strings.ToLower(filepath.Base(t.Name()))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.Client().CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return &space{Cluster: c, name: name}
}

// addNode adds a node to the space, waits until it is Ready, and returns its name.
func (s *space) addNode(t *testing.T, suffix string) string {
	t.Helper()
	name := s.name + "-" + suffix
	spec := NodeSpec{Name: name, Labels: map[string]string{"space": s.name}}
	if err := s.AddNode(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	s.waitForNode(t, name, corev1.ConditionTrue)
	return name
}

func (s *space) waitForNode(t *testing.T, name string, ready corev1.ConditionStatus) *corev1.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	node, err := s.WaitForNode(ctx, name, ready)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func (s *space) podTemplate(annotations map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: annotations},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"space": s.name},
			Containers:   []corev1.Container{{Name: "main", Image: "example.com/web:1"}},
		},
	}
}

// createPod creates a pod without a controller.
func (s *space) createPod(t *testing.T, name string, annotations map[string]string, edit ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	template := s.podTemplate(annotations)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = name
	for _, f := range edit {
		f(pod)
	}
	pod, err := s.Client().CoreV1().Pods(s.name).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// createDeployment creates a Deployment and waits until its pods are Ready.
func (s *space) createDeployment(t *testing.T, replicas int32, annotations map[string]string) map[string]*corev1.Pod {
	t.Helper()
	_, err := s.Client().AppsV1().Deployments(s.name).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: s.podTemplate(annotations),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.waitForPods(t, "all replicas Ready", func(pods map[string]*corev1.Pod) bool {
		return len(readyPods(pods)) == int(replicas)
	})
}

// waitForPods watches the pods of the space until done returns true, and returns them by name.
func (s *space) waitForPods(t *testing.T, what string, done func(map[string]*corev1.Pod) bool) map[string]*corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	pods := map[string]*corev1.Pod{}
	atFirst := func(store cache.Store) (bool, error) {
		for _, object := range store.List() {
			pod := object.(*corev1.Pod)
			pods[pod.Name] = pod
		}
		return done(pods), nil
	}
	list := cache.NewListWatchFromClient(s.Client().CoreV1().RESTClient(), "pods", s.name, fields.Everything())
	_, err := watchtools.UntilWithSync(ctx, list, &corev1.Pod{}, atFirst, func(e watch.Event) (bool, error) {
		pod := e.Object.(*corev1.Pod)
		if e.Type == watch.Deleted {
			delete(pods, pod.Name)
		} else {
			pods[pod.Name] = pod
		}
		return done(pods), nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; last seen: %s", what, err, describePods(pods))
	}
	return pods
}

// waitForPod waits until the pod exists and done returns true for it.
func (s *space) waitForPod(t *testing.T, name, what string, done func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	return s.waitForPods(t, name+" "+what, func(pods map[string]*corev1.Pod) bool {
		return pods[name] != nil && done(pods[name])
	})[name]
}

// waitForDeletion waits until the pod is gone. A new pod with the same name does not count.
func (s *space) waitForDeletion(t *testing.T, pod *corev1.Pod) map[string]*corev1.Pod {
	t.Helper()
	return s.waitForPods(t, "the end of "+pod.Name, func(pods map[string]*corev1.Pod) bool {
		return pods[pod.Name] == nil || pods[pod.Name].UID != pod.UID
	})
}

// eventually calls ask until it returns nil.
func (s *space) eventually(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := poll(ctx, ask); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func (s *space) auditEvents(t *testing.T) []Event {
	t.Helper()
	events, err := s.AuditEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// waitForRequests waits until the audit log has as many matching requests as want, and compares them with want. describe returns a
// request's description, or "" if the request does not match. The wait is necessary because a watch may show a change before the log
// contains its request.
func (s *space) waitForRequests(t *testing.T, describe func(Event) string, want []string) {
	t.Helper()
	var got []string
	s.eventually(t, fmt.Sprintf("the requests %q in the audit log", want), func(context.Context) error {
		got = nil
		for _, e := range s.auditEvents(t) {
			if did := describe(e); did != "" {
				got = append(got, did)
			}
		}
		if len(got) < len(want) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
	if !slices.Equal(got, want) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
}

func evict(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, options metav1.DeleteOptions) error {
	return client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, DeleteOptions: &options,
	})
}

func (s *space) patchPod(t *testing.T, name, patch string, subresource ...string) {
	t.Helper()
	_, err := s.Client().CoreV1().Pods(s.name).Patch(t.Context(), name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	if err != nil {
		t.Fatal(err)
	}
}

func (s *space) patchNode(t *testing.T, name, patch string) {
	t.Helper()
	_, err := s.Client().CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *space) deletePod(t *testing.T, name string, graceSeconds int64) {
	t.Helper()
	err := s.Client().CoreV1().Pods(s.name).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &graceSeconds})
	if err != nil {
		t.Fatal(err)
	}
}

func isReady(pod *corev1.Pod) bool { return podCondition(pod, corev1.PodReady) == corev1.ConditionTrue }

func isRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

func readyPods(pods map[string]*corev1.Pod) map[string]*corev1.Pod {
	ready := maps.Clone(pods)
	maps.DeleteFunc(ready, func(_ string, p *corev1.Pod) bool { return !isReady(p) || p.DeletionTimestamp != nil })
	return ready
}

func describePods(pods map[string]*corev1.Pod) string {
	var out []string
	for name, p := range pods {
		out = append(out, name+": "+string(p.Status.Phase)+", Ready="+string(podCondition(p, corev1.PodReady)))
	}
	return strings.Join(slices.Sorted(slices.Values(out)), "; ")
}

// firstByName returns the pod whose name sorts first.
func firstByName(pods map[string]*corev1.Pod) *corev1.Pod {
	return pods[slices.Min(slices.Collect(maps.Keys(pods)))]
}
