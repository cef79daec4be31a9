package simulate_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func priority(p int32) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Spec.Priority = &p } }

// afterMove evicts the pod mover from node "from" and waits until nothing changes any more. It returns the node of
// the pod's successor, or why no node takes the successor.
func afterMove(t *testing.T, spec simulate.Spec) string {
	t.Helper()
	c := simulate.New(spec)
	if a := execute(c, schedule.Eviction{Namespace: build.Namespace, Pod: "mover", UID: uidOf(spec, "mover"), Node: "from"}); a.Outcome != nodegroup.OutcomeDone {
		t.Fatalf("evicting the pod: %s %s", a.Outcome, a.Detail)
	}
	for range 100 {
		if !c.Advance(time.Time{}) {
			break
		}
	}
	for _, m := range c.World(request()).Members {
		for _, p := range m.Pods {
			if strings.HasPrefix(p.Name, "mover-r") || p.Name == "mover" && p.DeletionTimestamp == nil {
				return m.Name()
			}
		}
	}
	for _, u := range c.Unplaced() {
		if strings.HasPrefix(u.Pod.Name, "mover") {
			return u.Reason
		}
	}
	return "gone"
}

func uidOf(spec simulate.Spec, name string) types.UID {
	for _, pod := range spec.Pods {
		if pod.Name == name {
			return pod.UID
		}
	}
	return ""
}

// placing returns a cluster with the pod mover on a cordoned node "from", and with other nodes.
func placing(mover *corev1.Pod, pods []*corev1.Pod, nodes ...*corev1.Node) simulate.Spec {
	mover.Name, mover.Namespace, mover.Spec.NodeName = "mover", build.Namespace, "from"
	from := node("from", "z", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	return simulate.Spec{
		Now: start, Group: nodegroup.Group{Name: "workers", Provider: "manual"}, Outdated: func(*corev1.Node) bool { return false },
		Nodes: append([]*corev1.Node{from}, nodes...), Pods: append([]*corev1.Pod{mover}, pods...),
		Times: simulate.Times{Gone: func(*corev1.Pod) time.Duration { return 10 * time.Second }},
	}
}

func TestPodOfHigherPriorityEvictsOthers(t *testing.T) {
	full := func(p int32) *corev1.Pod {
		return build.Pod("small", build.App("small"), build.On("a"), requests("1", "1Gi"), priority(p))
	}
	never := corev1.PreemptNever
	cases := map[string]struct {
		mover *corev1.Pod
		other *corev1.Pod
		want  string
	}{
		"others have less priority":    {build.Pod("mover", build.App("mover"), requests("1", "1Gi")), full(-1), "a"},
		"others have the same":         {build.Pod("mover", build.App("mover"), requests("1", "1Gi"), priority(-1)), full(-1), "Insufficient cpu"},
		"it is too large for the node": {build.Pod("mover", build.App("mover"), requests("3", "1Gi")), full(-1), "Insufficient cpu"},
		"it is not to preempt":         {build.Pod("mover", build.App("mover"), requests("1", "1Gi"), func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never }), full(-1), "Insufficient cpu"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := afterMove(t, placing(c.mover, []*corev1.Pod{c.other}, node("a", "a", allocatable("1500m", "4Gi", "10"))))
			if !strings.Contains(got, c.want) {
				t.Errorf("it is at %q, want %q", got, c.want)
			}
		})
	}
}

// The next pod has the requests of its controller's template, and a pending rollout's template.
func TestNextPodHasRequestsOfControllersTemplate(t *testing.T) {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "mover"}}}
	pod := &corev1.Pod{}
	requests("3", "1Gi")(pod)
	template.Spec = pod.Spec
	small := func() *corev1.Pod {
		return build.Pod("mover", build.App("mover"), build.OwnedBy("StatefulSet", "mover"), requests("200m", "1Gi"), func(p *corev1.Pod) { p.Labels[appsv1.ControllerRevisionHashLabelKey] = "one" })
	}
	selected := template.DeepCopy()
	selected.Spec.NodeSelector = map[string]string{"disk": "fast"}
	selected.Spec.Containers = small().Spec.Containers
	cases := map[string]struct {
		workload simulate.Workload
		want     string
	}{
		"no template is known":                  {simulate.Workload{Replicas: 1}, "a"},
		"the running pod was resized":           {simulate.Workload{Replicas: 1, Template: template}, "Insufficient cpu"},
		"the next pod has the pending template": {simulate.Workload{Replicas: 1, Template: selected, Rollout: &simulate.Rollout{Revision: "two"}}, "didn't match Pod's node affinity/selector"},
		"it is before the partition":            {simulate.Workload{Replicas: 1, Template: selected, Rollout: &simulate.Rollout{Revision: "two", From: 1}}, "a"},
		"it has that template already":          {simulate.Workload{Replicas: 1, Template: selected, Rollout: &simulate.Rollout{Revision: "one"}}, "a"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := placing(small(), nil, node("a", "a", allocatable("2", "4Gi", "10")))
			spec.Workloads = map[types.UID]simulate.Workload{metav1.GetControllerOf(spec.Pods[0]).UID: c.workload}
			if got := afterMove(t, spec); !strings.Contains(got, c.want) {
				t.Errorf("it is at %q, want %q", got, c.want)
			}
		})
	}
}

// An exclusive claim is free once its pod has ended, wherever the next pod goes.
func TestExclusiveClaimIsFreeOnceItsPodHasEnded(t *testing.T) {
	mover := build.Pod("mover", build.App("mover"), build.Volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}))
	spec := placing(mover, nil, node("a", "a"))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	spec.Claims = []*corev1.PersistentVolumeClaim{claim}
	if got := afterMove(t, spec); got != "a" {
		t.Errorf("it is at %q", got)
	}
}
