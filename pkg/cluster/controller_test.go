package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// testReadController reads the scale of controllers whose pods a quota refuses, and the reason.
func testReadController(t *testing.T, s *space) {
	core, apps, ctx := s.client.CoreV1(), s.client.AppsV1(), t.Context()
	_, err := core.ResourceQuotas(s.name).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	must(t, err)
	s.eventually(t, "the quota to be counted", func(ctx context.Context) (bool, error) {
		quota, err := core.ResourceQuotas(s.name).Get(ctx, "none", metav1.GetOptions{})
		return err == nil && len(quota.Status.Hard) > 0, err
	})
	three, labels := int32(3), map[string]string{"app": "web"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		// Other tests count the pods on their nodes. If the quota takes effect late, the pods run only on this test's nodes.
		NodeSelector: map[string]string{"space": s.name}, Containers: []corev1.Container{{Name: "app", Image: "app"}},
	}}
	meta := metav1.ObjectMeta{Name: "web"}
	_, err = apps.Deployments(s.name).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &three, Selector: selector, Template: template}}, metav1.CreateOptions{})
	must(t, err)
	_, err = apps.StatefulSets(s.name).Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &three, Selector: selector, Template: template}}, metav1.CreateOptions{})
	must(t, err)
	reader := NewControllerReader(s.client, time.Now)
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		w := drain.Workload{Namespace: s.name, Kind: kind, Name: "web"}
		s.eventually(t, "the "+kind+" to say that a quota refuses its pods", func(ctx context.Context) (bool, error) {
			read := reader.ReadController(ctx, w)
			return read.Replicas == 3 && read.Ordered == (kind == "StatefulSet") && read.Unread == "" && strings.Contains(read.Refused, "exceeded quota"), ctx.Err()
		})
	}
	if read := reader.ReadController(ctx, drain.Workload{Namespace: s.name, Kind: "Deployment", Name: "gone"}); read != (drain.Controller{}) {
		t.Errorf("a Deployment that is not there: %+v, want none", read)
	}
	orphan := metav1.DeletePropagationOrphan
	must(t, apps.Deployments(s.name).Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &orphan}))
	s.eventually(t, "the ReplicaSet of a Deployment that is gone to be read", func(ctx context.Context) (bool, error) {
		_, err := apps.Deployments(s.name).Get(ctx, "web", metav1.GetOptions{})
		read := reader.ReadController(ctx, drain.Workload{Namespace: s.name, Kind: "Deployment", Name: "web"})
		return apierrors.IsNotFound(err) && read.Replicas == 3 && strings.Contains(read.Refused, "exceeded quota"), ctx.Err()
	})
	_, err = apps.DaemonSets(s.name).Create(ctx, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
	must(t, err)
	node, err := core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + s.name, Labels: map[string]string{"space": s.name}}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = core.Nodes().Delete(context.WithoutCancel(ctx), node.Name, metav1.DeleteOptions{}) })
	s.eventually(t, "the DaemonSet to say that a quota refuses its pods", func(ctx context.Context) (bool, error) {
		read := reader.ReadController(ctx, drain.Workload{Namespace: s.name, Kind: "DaemonSet", Name: "web"})
		return read.Uncreated > 0 && read.Uncreated == read.Replicas && strings.Contains(read.Refused, "exceeded quota"), ctx.Err()
	})
	if read := reader.ReadController(ctx, drain.Workload{Namespace: s.name, Kind: "DaemonSet", Name: "gone"}); read != (drain.Controller{}) {
		t.Errorf("a DaemonSet that is not there: %+v, want none", read)
	}
	if read := reader.ReadController(ctx, drain.Workload{Namespace: s.name, Kind: "CloneSet", Name: "web"}); read.Unread == "" {
		t.Errorf("a controller of an unknown kind: %+v, want one that is not read", read)
	}
	denied := NewControllerReader(s.clientOf(t, "nobody-"+s.name), time.Now)
	if read := denied.ReadController(ctx, drain.Workload{Namespace: s.name, Kind: "Deployment", Name: "web"}); !strings.Contains(read.Unread, "forbidden") {
		t.Errorf("a controller that may not be read: %+v", read)
	}
}
