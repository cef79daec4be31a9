package upgrade_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// owned returns a pod of the ReplicaSet web.
func owned(name string) *corev1.Pod {
	return build.Pod(name, build.App("web"), build.OwnedBy("ReplicaSet", "web"))
}

// The upgrade learns how long pods take to leave from pods that have left, counted from when their eviction was sent.
func TestUpgradeLearnsHowLongPodsTakeToTerminate(t *testing.T) {
	s := draining(t, owned("web-0"), owned("web-1"), owned("web-2"))
	owner := metav1.GetControllerOfNoCopy(s.at("old-a-1").Pods[0]).UID
	s.do(s.next().Actions...)
	s.pass(time.Second)
	s.next() // all pods are seen leaving
	s.pass(5 * time.Second)
	for _, c := range []struct{ after, want time.Duration }{
		{time.Second, 7 * time.Second},
		{100 * time.Millisecond, 7 * time.Second}, // learns nothing new
		{900 * time.Millisecond, 7500 * time.Millisecond},
	} {
		s.pass(c.after)
		s.at("old-a-1").Pods = s.at("old-a-1").Pods[1:]
		if got := s.next(); got.Notes.Gone[owner] != c.want {
			t.Errorf("gone after %s, want %s", got.Notes.Gone[owner], c.want)
		}
	}
}

// The upgrade learns how much longer a budget is closed than its pods take to become ready. It learns that from a
// budget that opens again for a pod that waits.
func TestUpgradeLearnsHowLongBudgetsStayClosed(t *testing.T) {
	s := draining(t, owned("web-0"), owned("web-1"))
	for _, pod := range s.at("old-a-1").Pods { // they were ready 10 s after their start
		pod.Status.StartTime = &metav1.Time{Time: start.Add(-time.Hour)}
		pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: start.Add(-time.Hour + 10*time.Second)}
	}
	s.budgets(build.Budget("web", build.Counts(4, 4, 3)))
	step := s.next()
	s.do(step.Actions...)
	s.budgets(build.Budget("web", build.Counts(4, 3, 3)))
	s.pass(time.Second)
	if got := s.next(); len(got.Blocked) != 1 || got.Notes.Lag != 0 {
		t.Fatalf("%d blocked, lag %s", len(got.Blocked), got.Notes.Lag)
	}
	s.pass(10 * time.Second)
	s.budgets(build.Budget("web", build.Counts(4, 4, 3)))
	step = s.next()
	action[schedule.Eviction](t, step)
	if got, want := step.Notes.Lag, (3*200*time.Millisecond+time.Second)/4; got != want {
		t.Errorf("lag %s, want %s: a quarter of the second it took longer, three of what was believed", got, want)
	}
}
