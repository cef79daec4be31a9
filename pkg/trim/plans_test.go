package trim_test

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// TestObjectsTrimmedForPlansKeepFieldsOfForecastsAndRules checks that for controllers and volumes both the fields for forecasts and the fields for rules are kept.
func TestObjectsTrimmedForPlansKeepFieldsOfForecastsAndRules(t *testing.T) {
	one := int32(1)
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"pool": "a"}}}
	template.Labels, template.Annotations = map[string]string{"app": "db"}, map[string]string{"a": "b"}
	set := &appsv1.StatefulSet{
		Spec:   appsv1.StatefulSetSpec{Replicas: &one, MinReadySeconds: 7, Template: template},
		Status: appsv1.StatefulSetStatus{ReadyReplicas: 1},
	}
	trim.ForPlans(set)
	if set.Spec.Template.Spec.NodeSelector["pool"] != "a" || set.Spec.Template.Labels["app"] != "db" || set.Spec.Template.Annotations["a"] != "b" || set.Spec.MinReadySeconds != 7 || set.Status.ReadyReplicas != 1 {
		t.Errorf("a StatefulSet is %+v", set)
	}
	replicas := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &one, Template: template}}
	trim.ForPlans(replicas)
	if replicas.Spec.Template.Spec.NodeSelector["pool"] != "a" || *replicas.Spec.Replicas != 1 {
		t.Errorf("a ReplicaSet is %+v", replicas)
	}
	volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs", VolumeHandle: "vol-1", FSType: "ext4"}},
		StorageClassName:       "fast",
	}}
	trim.ForPlans(volume)
	if want := (&corev1.CSIPersistentVolumeSource{Driver: "ebs", VolumeHandle: "vol-1"}); !reflect.DeepEqual(volume.Spec.CSI, want) || volume.Spec.StorageClassName != "fast" {
		t.Errorf("a volume is %+v", volume.Spec)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", ReadinessProbe: &corev1.Probe{}}}}}
	trim.ForPlans(pod)
	if pod.Spec.Containers[0].ReadinessProbe == nil {
		t.Errorf("a pod is %+v", pod.Spec)
	}
}
