package upgrade_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// The usual start time of a workload's pods is the one measured before the upgrade. Pods that the upgrade has moved may be
// slow because of a fault of the new nodes.
func TestUsualPodStartTimeIsThatFromBeforeUpgrade(t *testing.T) {
	slow := func(app string) *corev1.Pod {
		pod := build.Pod(app+"-0", build.App(app))
		began := metav1.NewTime(start.Add(-time.Hour))
		pod.Status.StartTime, pod.Status.Conditions[0].LastTransitionTime = &began, metav1.NewTime(began.Add(5*time.Minute))
		return pod
	}
	known, unknown := slow("web"), slow("cart")
	s := newScene(t, old("old-a-1", known, unknown), current("cur-a-1"))
	index := drain.NewWorkloadIndex(drain.Facts{})
	index.Store(known)
	index.Store(unknown)
	s.Workloads = index.Current()
	s.do(s.next().Actions...)
	s.Record.Workloads = map[string]record.WorkloadRecord{"shop/ReplicaSet/web": {Usual: duration(10 * time.Second)}}

	step := s.until(record.PhaseUpgrade)
	wantState(t, step, "old-a-1", record.NodeDraining)
	for name, want := range map[string]time.Duration{"shop/ReplicaSet/web": 10 * time.Second, "shop/ReplicaSet/cart": 5 * time.Minute} {
		if got := step.Record.Workloads[name]; got.Ready != 1 || got.Usual.Duration != want {
			t.Errorf("of %s %d pods are ready, which usually takes %s; want 1 and %s", name, got.Ready, got.Usual, want)
		}
	}
}
