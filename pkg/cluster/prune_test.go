package cluster

import (
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// TestPruningKeepsTrimmedFields checks that trimming a pruned pod gives the same result as
// trimming the full pod.
func TestPruningKeepsTrimmedFields(t *testing.T) {
	checkPruning(t, prunedPodFields(), trim.Object)
}

// TestPruningKeepsFieldsForChecks checks the same for checks, which need more of a pod.
func TestPruningKeepsFieldsForChecks(t *testing.T) {
	checkPruning(t, prunedCheckedPodFields(), trim.ForChecks)
}

func checkPruning(t *testing.T, fields prunedFields, trimObject func(any)) {
	t.Helper()
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme.Scheme))
	smaller := 0
	for range 300 {
		full, pruned := &corev1.Pod{}, &corev1.Pod{}
		fill.Fill(full)
		full.Status.Conditions = []corev1.PodCondition{ // the random conditions have no type that is kept
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		}
		full.Spec.Containers = append(full.Spec.Containers, corev1.Container{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}},
		})
		full.Spec.Volumes = append(full.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}})
		encoded, err := full.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		kept := fields.appendPruned(nil, encoded)
		if err := pruned.Unmarshal(kept); err != nil {
			t.Fatal(err)
		}
		*full = corev1.Pod{} // decode the pod, because times and empty lists change by encoding
		if err := full.Unmarshal(encoded); err != nil {
			t.Fatal(err)
		}
		trimObject(full)
		trimObject(pruned)
		if !reflect.DeepEqual(full, pruned) {
			t.Fatalf("decoded and trimmed:\n%v\npruned, decoded and trimmed:\n%v", full, pruned)
		}
		if len(kept) < len(encoded) {
			smaller++
		}
	}
	if smaller < 200 {
		t.Errorf("%d of 300 pods are smaller", smaller)
	}
}

// FuzzPrune checks that pruning neither loses nor invents data if the input is not a message.
func FuzzPrune(f *testing.F) {
	pod := &corev1.Pod{}
	pod.Name, pod.ManagedFields = "web-0", nil
	encoded, err := pod.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Add([]byte{0x0a, 0x7f, 0x01})
	f.Fuzz(func(t *testing.T, message []byte) {
		once := prunedPodFields().appendPruned(nil, message)
		full, kept := &corev1.Pod{}, &corev1.Pod{}
		if full.Unmarshal(message) == nil {
			if err := kept.Unmarshal(once); err != nil {
				t.Fatalf("what could be decoded cannot be any more: %v", err)
			}
			trim.Object(full)
			trim.Object(kept)
			if !reflect.DeepEqual(full, kept) {
				t.Errorf("decoded:\n%v\npruned and decoded:\n%v", full, kept)
			}
		}
	})
}
