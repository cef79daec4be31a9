package drain_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestDeploymentStrategiesThatCauseOutageAreFound(t *testing.T) {
	rolling := func(surge, unavailable string) appsv1.DeploymentStrategy {
		s, u := intstr.Parse(surge), intstr.Parse(unavailable)
		return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}}
	}
	one, four := int32(1), int32(4)
	for name, c := range map[string]struct {
		spec appsv1.DeploymentSpec
		want string
	}{
		"defaults":                        {appsv1.DeploymentSpec{Strategy: rolling("25%", "25%"), Replicas: &one}, ""},
		"nothing is written":              {appsv1.DeploymentSpec{}, ""},
		"Recreate":                        {appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}}, "its strategy is Recreate"},
		"no surge":                        {appsv1.DeploymentSpec{Strategy: rolling("0", "1"), Replicas: &one}, "its maxSurge is 0"},
		"the old one may go first":        {appsv1.DeploymentSpec{Strategy: rolling("1", "1"), Replicas: &one}, "its maxUnavailable allows all of its pods to be missing"},
		"of four one may be missing":      {appsv1.DeploymentSpec{Strategy: rolling("1", "1"), Replicas: &four}, ""},
		"paused":                          {appsv1.DeploymentSpec{Strategy: rolling("1", "0"), Paused: true}, "its rollout is paused"},
		"percentages of one: 1 up, 0 not": {appsv1.DeploymentSpec{Strategy: rolling("10%", "90%"), Replicas: &one}, ""},
	} {
		if got := drain.WhyRestartGap(&appsv1.Deployment{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSinglePodOfDeploymentCanMoveWithoutEviction(t *testing.T) {
	web := func(pod *corev1.Pod) {
		build.OwnedBy("ReplicaSet", "web-1")(pod)
		pod.Labels["pod-template-hash"] = "1"
	}
	claim := func(name string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		}
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: build.Namespace, Name: name, UID: "uid-web"}
	}
	movable := drain.NewMovable([]*appsv1.Deployment{{ObjectMeta: meta("web")}}, []*corev1.PersistentVolumeClaim{
		{ObjectMeta: meta("own"), Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}},
		{ObjectMeta: meta("shared"), Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}},
	})
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a Deployment":         {build.Pod("p", web), ""},
		"a shared volume":      {build.Pod("p", web, claim("shared")), ""},
		"a volume of its own":  {build.Pod("p", web, claim("own")), "its volume own can be used on only one node at a time"},
		"a StatefulSet":        {build.Pod("p", build.OwnedBy("StatefulSet", "db")), "only a Deployment can start another pod first"},
		"one that is not read": {build.Pod("p", web, build.In("other")), "its Deployment is unknown"},
	} {
		uid, why := movable.FindDeployment(c.pod)
		if why != c.want || (why == "") != (uid == "uid-web") {
			t.Errorf("%s: %q, %q, want %q", name, uid, why, c.want)
		}
	}
	two := int32(2)
	for name, c := range map[string]struct {
		replicas *int32
		pod      *corev1.Pod
		want     bool
	}{
		"the only pod":                 {nil, build.Pod("p", web), true},
		"one that is not ready":        {nil, build.Pod("p", web, build.Unready), false},
		"one with a volume of its own": {nil, build.Pod("p", web, claim("own")), false},
		"one of two":                   {&two, build.Pod("p", web), false},
	} {
		of := drain.NewMovable([]*appsv1.Deployment{{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Replicas: c.replicas}}}, nil)
		if got := of.CanMoveWithoutEviction(c.pod); got != c.want {
			t.Errorf("%s is moved: %t, want %t", name, got, c.want)
		}
	}
	if !movable.IsKnown() || (drain.Movable{}).IsKnown() {
		t.Error("IsKnown does not report whether Deployments were read")
	}
}
