package trim

import (
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestSharedPodsEqualOriginalPods generates pods of a few controllers, and checks that sharing does not
// change their content.
func TestSharedPodsEqualOriginalPods(t *testing.T) {
	changes := podChanges()
	rapid.Check(t, func(t *rapid.T) {
		s := NewSharer()
		var pods, want []*corev1.Pod
		for n := range rapid.IntRange(1, 8).Draw(t, "pods") {
			pod := build.Pod(fmt.Sprintf("web-%d", n), addUnusedFields)
			for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(changes)-1), 0, 3, rapid.ID[int]).Draw(t, "changes") {
				changes[i](pod)
			}
			Object(pod)
			pods, want = append(pods, pod), append(want, pod.DeepCopy())
			s.Pod(pod)
		}
		if !reflect.DeepEqual(pods, want) {
			t.Errorf("shared %+v, want %+v", pods, want)
		}
	})
}

func TestPodsOfOneControllerShareEqualParts(t *testing.T) {
	pod := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		pod := build.Pod(name, append([]func(*corev1.Pod){build.Tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})}, change...)...)
		pod.Labels = map[string]string{"app": "web"}
		return pod
	}
	newer := func(pod *corev1.Pod) { pod.Spec.Tolerations[0].Key = "newer" }
	cases := map[string]struct {
		pods [2]*corev1.Pod
		want bool
	}{
		"what is alike is one":          {[2]*corev1.Pod{pod("a"), pod("b")}, true},
		"what differs is not":           {[2]*corev1.Pod{pod("a"), pod("b", newer)}, false},
		"another controller's pods not": {[2]*corev1.Pod{pod("a"), pod("b", build.OwnedBy("DaemonSet", "agent"))}, false},
		"pods of nobody do not":         {[2]*corev1.Pod{pod("a", build.Bare), pod("b", build.Bare)}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := NewSharer()
			for _, pod := range c.pods {
				s.Pod(pod)
			}
			first, second := unsafe.SliceData(c.pods[0].Spec.Tolerations), unsafe.SliceData(c.pods[1].Spec.Tolerations)
			if (first == second) != c.want {
				t.Errorf("they share their tolerations: %t, want %t", first == second, c.want)
			}
		})
	}
}

// TestTrimmingAgainDoesNotWriteToSharedPods trims shared pods again, as informers may do, while other
// goroutines read them.
func TestTrimmingAgainDoesNotWriteToSharedPods(t *testing.T) {
	s := NewSharer()
	pods := []*corev1.Pod{build.Pod("a", addUnusedFields), build.Pod("b", addUnusedFields)}
	for _, pod := range pods {
		Object(pod)
		s.Pod(pod)
	}
	want := pods[1].DeepCopy()
	done := make(chan metav1.ObjectMeta)
	go func() { done <- *pods[0].ObjectMeta.DeepCopy() }()
	Object(pods[1])
	if <-done; !reflect.DeepEqual(pods[1], want) {
		t.Errorf("trimmed again it is %+v, want %+v", pods[1], want)
	}
}
