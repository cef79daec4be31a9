package simulate_test

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
)

func TestWorkloadsAreReadFromControllers(t *testing.T) {
	three, five := int32(3), int32(5)
	meta := func(uid string, owner ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{UID: types.UID(uid)}
		for _, o := range owner {
			yes := true
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{UID: types.UID(o), Controller: &yes})
		}
		return m
	}
	got := simulate.WorkloadsOf(
		[]*appsv1.Deployment{{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Replicas: &five}}},
		[]*appsv1.ReplicaSet{
			{ObjectMeta: meta("web-old", "web"), Spec: appsv1.ReplicaSetSpec{Replicas: &three}},
			{ObjectMeta: meta("web-new", "web"), Spec: appsv1.ReplicaSetSpec{Replicas: &three}},
			{ObjectMeta: meta("alone"), Spec: appsv1.ReplicaSetSpec{Replicas: &three}},
			{ObjectMeta: meta("rolled", "somebody"), Spec: appsv1.ReplicaSetSpec{Replicas: &three}},
		},
		[]*appsv1.StatefulSet{
			{ObjectMeta: meta("db")},
			{ObjectMeta: meta("cache"), Spec: appsv1.StatefulSetSpec{Replicas: &five, PodManagementPolicy: appsv1.ParallelPodManagement}},
		},
	)
	pods := func(kind string, count int) *simulate.PodSet { return &simulate.PodSet{Kind: kind, Count: count} }
	want := map[types.UID]simulate.Workload{
		"web-old": {Replicas: 5, Of: "web", Pods: pods("ReplicaSet", 3)}, "web-new": {Replicas: 5, Of: "web", Pods: pods("ReplicaSet", 3)},
		"alone": {Replicas: 3, Pods: pods("ReplicaSet", 3)}, "rolled": {Replicas: 3, Pods: pods("ReplicaSet", 3)},
		"db": {Replicas: 1, Ordered: true, Pods: pods("StatefulSet", 1)}, "cache": {Replicas: 5, Pods: pods("StatefulSet", 5)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
