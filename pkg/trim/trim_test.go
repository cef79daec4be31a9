package trim

import (
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// addUnusedFields adds large fields that no decision needs.
func addUnusedFields(pod *corev1.Pod) {
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	pod.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "team": "shop"}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}}
}

// podChanges returns changes of a pod. Some decision depends on each of them.
func podChanges() []func(*corev1.Pod) {
	grace := int64(90)
	return []func(*corev1.Pod){
		build.Bare, build.Unready, build.Phase(corev1.PodPending), build.Phase(corev1.PodFailed), build.Ending(epoch),
		build.Created(epoch), build.OwnedBy("DaemonSet", "agent"), build.In("other"), build.App("api"), build.On("node-1"),
		build.Tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}),
		build.Volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}),
		func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		},
		func(pod *corev1.Pod) { pod.Labels[drain.Label] = "wait-completed" },
		build.OwnedBy("ReplicaSet", "ebs-csi-controller"), build.Evicted(epoch),
		func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &grace },
	}
}

// decision is everything that is decided about one pod.
type decision struct {
	judged, judgedLost, judgedFree drain.Verdict
	predicted, predictedEnding     drain.Prediction
	tolerates, ready, evicted      bool
	grace                          *int64
	claims                         int
	tier                           drain.Tier
}

func decide(pod *corev1.Pod) decision {
	budgets := drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("web"), build.Budget("api", build.Counts(1, 1, 1))})
	d := decision{
		judged: drain.Judge(pod, drain.Policy{}, false), judgedLost: drain.Judge(pod, drain.Policy{}, true),
		judgedFree: drain.Judge(pod, drain.Policy{EvictUnmanaged: true}, false),
		predicted:  drain.Predict(pod, budgets, nil, false), predictedEnding: drain.Predict(pod, budgets, nil, true),
		tier:      drain.TierOf(pod, drain.NewFacts([]*corev1.Service{{ObjectMeta: pod.ObjectMeta, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "api"}}}})),
		tolerates: drain.ToleratesTaint(pod, nodegroup.FenceTaint("aws")), ready: drain.Ready(pod), evicted: drain.IsEvictedSince(pod, epoch), grace: pod.Spec.TerminationGracePeriodSeconds,
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].PersistentVolumeClaim != nil {
			d.claims++
		}
	}
	return d
}

// TestTrimChangesNoDecision generates pods, and compares the decisions about them before and after
// trimming.
func TestTrimChangesNoDecision(t *testing.T) {
	changes := podChanges()
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfNDistinct(rapid.IntRange(0, len(changes)-1), 0, 5, rapid.ID[int]).Draw(t, "changes")
		pod := build.Pod("web-0", addUnusedFields)
		for _, i := range drawn {
			changes[i](pod)
		}
		before, node := decide(pod), pod.Spec.NodeName
		Object(pod)
		if after := decide(pod); !reflect.DeepEqual(before, after) || pod.Spec.NodeName != node {
			t.Errorf("decided %+v on node %q before, %+v on node %q after", before, node, after, pod.Spec.NodeName)
		}
	})
}

func TestTrimRemovesUnusedFields(t *testing.T) {
	pod := build.Pod("web-0", addUnusedFields, build.Volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	kept := pod.ObjectMeta.DeepCopy()
	kept.ManagedFields = nil
	delete(kept.Annotations, corev1.LastAppliedConfigAnnotation)
	Object(pod)
	if !reflect.DeepEqual(pod.ObjectMeta, *kept) {
		t.Errorf("its metadata is %+v, want %+v", pod.ObjectMeta, *kept)
	}
	if len(pod.Spec.Volumes)+len(pod.Status.ContainerStatuses) > 0 || len(pod.Spec.Containers) > 0 && pod.Spec.Containers[0].Env != nil {
		t.Errorf("it keeps what nobody looks at: %+v %+v", pod.Spec, pod.Status)
	}
}

func TestTrimmedNodeLosesOnlyUnusedFields(t *testing.T) {
	node := build.Node("a", "a", build.Tainted("dedicated"))
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	node.Annotations = map[string]string{nodemark.AnnotationRun: "r1", corev1.LastAppliedConfigAnnotation: "{}"}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "v"}}
	want := node.DeepCopy()
	want.ManagedFields, want.Status.Images = nil, nil
	delete(want.Annotations, corev1.LastAppliedConfigAnnotation)
	if Object(node); !reflect.DeepEqual(node, want) {
		t.Errorf("got %+v, want %+v", node, want)
	}
}

func TestTrimmedNamespaceAndBudgetKeepUsedFields(t *testing.T) {
	ending := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", ResourceVersion: "7", Labels: map[string]string{"a": "b"}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
	}
	budget := build.Budget("web")
	budget.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	cases := map[string]struct{ object, want any }{
		"a namespace keeps its name, labels and phase": {ending, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", ResourceVersion: "7", Labels: map[string]string{"a": "b"}}, Status: ending.Status,
		}},
		"a budget keeps all but its managers": {budget, build.Budget("web")},
		"what is not known is left alone":     {"x", "x"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if Object(c.object); !reflect.DeepEqual(c.object, c.want) {
				t.Errorf("got %+v, want %+v", c.object, c.want)
			}
		})
	}
}

// TestTrimKeepsCausesOfMissingPods checks that two things are kept: why a ReplicaSet has too few
// pods, and the names of the claims of a StatefulSet's pods.
func TestTrimKeepsCausesOfMissingPods(t *testing.T) {
	for name, trim := range map[string]func(any){"for forecasts": Object, "for checks": ForChecks} {
		set := &appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Replicas: 3, Conditions: []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}}}}
		trim(set)
		if want := (appsv1.ReplicaSetStatus{Replicas: 3, Conditions: []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue}}}); !reflect.DeepEqual(set.Status, want) {
			t.Errorf("%s: a ReplicaSet keeps %+v, want %+v", name, set.Status, want)
		}
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
		full := *claim.DeepCopy()
		full.Spec.VolumeName = "v"
		stateful := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{full}}}
		trim(stateful)
		if got := stateful.Spec.VolumeClaimTemplates; !reflect.DeepEqual(got, []corev1.PersistentVolumeClaim{claim}) {
			t.Errorf("%s: a StatefulSet keeps %+v, want %+v", name, got, claim)
		}
	}
}
