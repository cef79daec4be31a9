package cluster

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// background creates one object of each kind. None of them runs pods.
func (s *space) background(t *testing.T) {
	t.Helper()
	none := int32(0)
	meta := metav1.ObjectMeta{Name: s.name}
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"app": s.name}}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels.MatchLabels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/web:1"}}},
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	client := s.Client()
	_, err := client.AppsV1().Deployments(s.name).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &none, Selector: labels, Template: template},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.AppsV1().ReplicaSets(s.name).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"alone": "yes"}}, Template: labelled(template, "alone")},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.AppsV1().StatefulSets(s.name).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &none, Selector: labels, Template: template, PodManagementPolicy: appsv1.ParallelPodManagement},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: meta, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
		NodeAffinity: inZoneA(),
	}}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.CoreV1().PersistentVolumeClaims(s.name).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: s.name, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func labelled(template corev1.PodTemplateSpec, key string) corev1.PodTemplateSpec {
	template.Labels = map[string]string{key: "yes"}
	return template
}

func inZoneA() *corev1.VolumeNodeAffinity {
	here := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{here}}},
	}}
}

// own returns the object with the name.
func own[T metav1.Object](t *testing.T, name string, all []T) T {
	t.Helper()
	i := slices.IndexFunc(all, func(o T) bool { return o.GetName() == name })
	if i < 0 {
		t.Fatalf("no %T %s among %d", *new(T), name, len(all))
	}
	return all[i]
}

// testBackground checks that only the fields that plans need are read.
func testBackground(t *testing.T, s *space) {
	s.background(t)
	b, err := ReadObjects(t.Context(), s.client, inventory.ForForecasts)
	must(t, err)
	none := int32(0)
	deployment, set := own(t, s.name, b.Deployments), own(t, s.name, b.ReplicaSets)
	quarter := intstr.FromString("25%")
	rolling := appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &quarter, MaxSurge: &quarter},
	}
	if !reflect.DeepEqual(deployment.Spec, appsv1.DeploymentSpec{Replicas: &none, Strategy: rolling}) || !reflect.DeepEqual(set.Spec, appsv1.ReplicaSetSpec{Replicas: &none}) {
		t.Errorf("read %+v and %+v, want replicas and strategy alone", deployment.Spec, set.Spec)
	}
	stateful := own(t, s.name, b.StatefulSets).Spec
	if template := stateful.Template; template.Labels["app"] == "" || template.Spec.RestartPolicy != corev1.RestartPolicyAlways || len(template.Spec.Containers) > 0 {
		t.Errorf("read the template %+v, want it as pods are kept", template)
	}
	zero, one := int32(0), intstr.FromInt32(1)
	rollout := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &zero, MaxUnavailable: &one}}
	stateful.Template = corev1.PodTemplateSpec{}
	if want := (appsv1.StatefulSetSpec{Replicas: &none, PodManagementPolicy: appsv1.ParallelPodManagement, UpdateStrategy: rollout}); !reflect.DeepEqual(stateful, want) {
		t.Errorf("read %+v, want %+v", stateful, want)
	}
	if got := own(t, s.name, b.Claims).Spec; !reflect.DeepEqual(got, corev1.PersistentVolumeClaimSpec{VolumeName: s.name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}) {
		t.Errorf("read %+v, want the volume's name and access alone", got)
	}
	if got := own(t, s.name, b.Volumes).Spec; !reflect.DeepEqual(got, corev1.PersistentVolumeSpec{NodeAffinity: inZoneA()}) {
		t.Errorf("read %+v, want the affinity alone", got)
	}
	if deployment.UID == "" || deployment.ManagedFields != nil || len(b.Unread) > 0 {
		t.Errorf("UID %q, managers %v, unread %v", deployment.UID, deployment.ManagedFields, b.Unread)
	}
}

// testBackgroundForbidden checks that kinds which the user may not list are left out.
func testBackgroundForbidden(t *testing.T, s *space) {
	s.background(t)
	client := s.clientOf(t, s.name)
	s.allow(t, s.name, []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{"apps"}, Resources: []string{"replicasets", "statefulsets"}}})
	b, err := ReadObjects(t.Context(), client, inventory.ForForecasts)
	must(t, err)
	want := []string{
		"csinodes", "deployments", "mutatingwebhookconfigurations", "namespaces", "persistentvolumeclaims", "persistentvolumes", "resourceclaims", "services",
		"validatingwebhookconfigurations",
	}
	if !slices.Equal(b.Unread, want) {
		t.Errorf("unread %v, want %v", b.Unread, want)
	}
	own(t, s.name, b.ReplicaSets)
	if n := len(b.Deployments) + len(b.Claims) + len(b.Volumes); n > 0 {
		t.Errorf("read %d objects of forbidden kinds", n)
	}
}

// TestReadObjectsFailsIfServerIsUnreachable: the result must not be an empty cluster.
func TestReadObjectsFailsIfServerIsUnreachable(t *testing.T) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	must(t, err)
	if _, err := ReadObjects(t.Context(), client, inventory.ForForecasts); err == nil || apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "listing ") {
		t.Errorf("got error %v, want one that names the kind", err)
	}
}
