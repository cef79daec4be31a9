package cluster

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// deployment creates a Deployment of one pod without requests.
func (s *space) deployment(t *testing.T, name string, change func(*appsv1.DeploymentSpec)) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers:  []corev1.Container{{Name: "app", Image: "app"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		// Other tests count the pods on their nodes. These pods run only on the node "a" of this test.
		NodeSelector: map[string]string{corev1.LabelHostname: s.name + "-a"},
	}}
	change(&d.Spec)
	d, err := s.Client().AppsV1().Deployments(s.name).Create(t.Context(), d, metav1.CreateOptions{})
	must(t, err)
	return d
}

// testMove moves the only pod of a Deployment by a rolling restart. Two requests lead to one write,
// and at every moment a pod is ready.
func testMove(t *testing.T, s *space) {
	s.node(t, "a")
	d := s.deployment(t, "solo", func(*appsv1.DeploymentSpec) {})
	workload := drain.Workload{Namespace: s.name, Kind: "Deployment", Name: "solo"}
	w := s.watcher(t)
	v := w.awaitView(t, "the pod to be ready", func(v drain.Snapshot) bool { r := v.Workloads.Named(workload); return r != nil && r.Ready == 1 })
	old := v.Workloads.Named(workload).Pods[0]
	movable, err := ReadMovable(t.Context(), s.client)
	must(t, err)
	uid, why := movable.FindDeployment(old)
	if uid != d.UID || why != "" {
		t.Fatalf("the Deployment is %q (%s), want %q", uid, why, d.UID)
	}
	writer := NewWriter(s.client, w, "run", corev1.Taint{}, testOwner)
	restart := schedule.Restart{Namespace: s.name, Deployment: "solo", UID: uid, Pod: old.UID}
	must(t, writer.Do(t.Context(), restart))
	must(t, writer.Do(t.Context(), restart))
	w.awaitView(t, "another pod alone", func(v drain.Snapshot) bool {
		r := v.Workloads.Named(workload)
		if r == nil || r.Ready == 0 {
			t.Fatal("there is no ready pod")
		}
		return len(r.Pods) == 1 && r.Pods[0].UID != old.UID
	})
	s.eventually(t, "one restart to be written", func(ctx context.Context) (bool, error) {
		d, err = s.Client().AppsV1().Deployments(s.name).Get(ctx, "solo", metav1.GetOptions{})
		return err == nil && d.Generation == 2 && d.Annotations[movedPod] == string(old.UID) && d.Spec.Template.Annotations[restartedAt] != "", err
	})
	restart.UID = "another"
	if err := writer.Do(t.Context(), restart); !errors.Is(err, nodegroup.ErrMoved) {
		t.Errorf("another Deployment: error %v, want %v", err, nodegroup.ErrMoved)
	}
	recreated := s.deployment(t, "again", func(spec *appsv1.DeploymentSpec) {
		spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	if err := writer.Do(t.Context(), schedule.Restart{Namespace: s.name, Deployment: "again", UID: recreated.UID, Pod: "p"}); !errors.Is(err, nodegroup.ErrMoved) {
		t.Errorf("a Deployment that would leave a gap: error %v, want %v", err, nodegroup.ErrMoved)
	}
}
