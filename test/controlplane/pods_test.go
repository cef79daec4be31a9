package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testPodIsReadyAfterGivenTime(t *testing.T, s *space) {
	s.addNode(t, "a")
	start := time.Now()
	s.createDeployment(t, 2, map[string]string{AnnotationReadyAfter: "1500ms"})
	if took := time.Since(start); took < 1500*time.Millisecond {
		t.Errorf("ready %s after the Deployment's creation, want 1.5 s or more", took)
	}
}

// testPodOfTerseKubelet checks that the kubelet of a terse pod sends only two requests: a patch and a deletion.
func testPodOfTerseKubelet(t *testing.T, s *space) {
	s.addNode(t, "a")
	start := time.Now()
	terse := map[string]string{AnnotationReadyAfter: "1500ms", AnnotationGoneAfter: "1s", AnnotationTerse: "true"}
	for _, pod := range s.createDeployment(t, 1, terse) {
		if took := time.Since(start); took < 1500*time.Millisecond {
			t.Errorf("ready %s after the Deployment's creation, want 1.5 s or more", took)
		}
		start = time.Now()
		s.deletePod(t, pod.Name, 30)
		s.waitForDeletion(t, pod)
		if took := time.Since(start); took < time.Second {
			t.Errorf("gone %s after its deletion, want 1 s or more", took)
		}
		s.waitForRequests(t, func(e Event) string {
			if e.ObjectRef.Name == pod.Name && strings.HasPrefix(e.UserAgent, "kwok") {
				return e.Verb
			}
			return ""
		}, []string{"patch", "delete"})
	}
}

func testPodStatusIsLikeAKubelets(t *testing.T, s *space) {
	node := s.addNode(t, "a")
	s.createPod(t, "full", nil, func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{
			{Name: "init", Image: "example.com/init:1"},
			{Name: "sidecar", Image: "example.com/sidecar:1", RestartPolicy: &always},
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "example.com/second:1"})
	})
	status := s.waitForPod(t, "full", "to be Ready", isReady).Status
	want := []string{
		"Running",
		"ContainersReady=True", "Initialized=True", "PodReadyToStartContainers=True", "PodScheduled=True", "Ready=True",
		"init: ready, ended with 0", "sidecar: ready, running", "main: ready, running", "second: ready, running",
	}
	if got := statusWords(status); !slices.Equal(got, want) {
		t.Errorf("the pod is\n%q, want\n%q", got, want)
	}
	if status.StartTime == nil || status.PodIP == "" || len(status.PodIPs) != 1 {
		t.Errorf("start %v, address %q, %v: want both", status.StartTime, status.PodIP, status.PodIPs)
	}
	if want := s.waitForNode(t, node, corev1.ConditionTrue).Status.Addresses[0].Address; status.HostIP != want {
		t.Errorf("host address is %q, want the node's, %q", status.HostIP, want)
	}
}

// statusWords returns the phase, the conditions in the order of their names, and the containers.
func statusWords(status corev1.PodStatus) []string {
	var conditions, containers []string
	for _, c := range status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	slices.Sort(conditions)
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		containers = append(containers, c.Name+": "+containerWords(c))
	}
	return slices.Concat([]string{string(status.Phase)}, conditions, containers)
}

func containerWords(c corev1.ContainerStatus) string {
	words := "not ready"
	if c.Ready {
		words = "ready"
	}
	switch {
	case c.State.Running != nil && !c.State.Running.StartedAt.IsZero():
		return words + ", running"
	case c.State.Terminated != nil:
		return fmt.Sprintf("%s, ended with %d", words, c.State.Terminated.ExitCode)
	case c.State.Waiting != nil:
		return words + ", waiting: " + c.State.Waiting.Reason
	default:
		return words
	}
}

// testPodNeverReady checks that a pod is not Ready at a time at which a pod that was created later is Ready.
func testPodNeverReady(t *testing.T, s *space) {
	s.addNode(t, "a")
	s.createPod(t, "never", map[string]string{AnnotationNeverReady: "true"})
	s.waitForPod(t, "never", "to run", isRunning)
	s.createPod(t, "other", map[string]string{AnnotationReadyAfter: "1s"})
	pods := s.waitForPods(t, "the other pod to be Ready", func(pods map[string]*corev1.Pod) bool {
		return pods["other"] != nil && isReady(pods["other"])
	})
	if never := pods["never"]; !isRunning(never) || isReady(never) || never.Status.ContainerStatuses[0].Ready {
		t.Errorf("the pod is %s", describePods(pods))
	}
}

func testPodInCrashLoop(t *testing.T, s *space) {
	s.addNode(t, "a")
	s.createPod(t, "crash", map[string]string{AnnotationCrashLoop: "true"})
	pod := s.waitForPod(t, "crash", "to run", isRunning)
	container := pod.Status.ContainerStatuses[0]
	if got, want := containerWords(container), "not ready, waiting: CrashLoopBackOff"; got != want || container.RestartCount == 0 {
		t.Errorf("the container is %s, after %d restarts, want %s after at least one restart", got, container.RestartCount, want)
	}
	if isReady(pod) {
		t.Error("the pod is Ready")
	}
}

// testPodCrashesOnSomeNodes checks that pods crash only on nodes whose names have the prefix.
func testPodCrashesOnSomeNodes(t *testing.T, s *space) {
	for _, prefix := range []string{"bad", "good"} {
		node := s.addNode(t, prefix)
		s.createPod(t, prefix, map[string]string{AnnotationCrashOn: s.name + "-bad"}, func(p *corev1.Pod) { p.Spec.NodeName = node })
	}
	s.waitForPod(t, "good", "to be Ready", isReady)
	pod := s.waitForPod(t, "bad", "to run", isRunning)
	if got, want := containerWords(pod.Status.ContainerStatuses[0]), "not ready, waiting: CrashLoopBackOff"; got != want || isReady(pod) {
		t.Errorf("the container is %s, want %s", got, want)
	}
}

func testPodWithReadinessGate(t *testing.T, s *space) {
	s.addNode(t, "a")
	const gate = "example.com/registered"
	s.createPod(t, "gated", nil, func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	})
	pod := s.waitForPod(t, "gated", "to have ready containers", func(p *corev1.Pod) bool {
		return podCondition(p, corev1.ContainersReady) == corev1.ConditionTrue
	})
	if isReady(pod) {
		t.Error("the pod is Ready before its gate is open")
	}
	s.patchPod(t, "gated", `{"status":{"conditions":[{"type":"`+gate+`","status":"True"}]}}`, "status")
	s.waitForPod(t, "gated", "to be Ready", isReady)
}

func testPodCompletes(t *testing.T, s *space) {
	s.addNode(t, "a")
	template := s.podTemplate(map[string]string{AnnotationCompletesAfter: "500ms"})
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	jobs := s.Client().BatchV1().Jobs(s.name)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: template}}
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForPods(t, "a completed pod", func(pods map[string]*corev1.Pod) bool {
		return len(pods) == 1 && firstByName(pods).Status.Phase == corev1.PodSucceeded
	})
	s.eventually(t, "the Job to be complete", func(ctx context.Context) error {
		job, err := jobs.Get(ctx, "job", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			err = fmt.Errorf("its status is %+v", job.Status)
		}
		return err
	})
}

// testPodNeverGone checks that a deleted pod still exists after a pod that was deleted later is gone.
func testPodNeverGone(t *testing.T, s *space) {
	s.addNode(t, "a")
	never := s.createPod(t, "never", map[string]string{AnnotationNeverGone: "true"})
	other := s.createPod(t, "other", nil)
	s.waitForPods(t, "both pods to run", func(pods map[string]*corev1.Pod) bool {
		return len(pods) == 2 && isRunning(pods["never"]) && isRunning(pods["other"])
	})
	s.deletePod(t, "never", 1)
	s.deletePod(t, "other", 1)
	pods := s.waitForDeletion(t, other)
	if pods["never"] == nil || pods["never"].DeletionTimestamp == nil || !isRunning(pods["never"]) {
		t.Errorf("pods are %s: want it Running and deleted", describePods(pods))
	}
	s.deletePod(t, "never", 0)
	s.waitForDeletion(t, never)
}

// testChangeDelaysNoTermination checks that a change of a terminating pod does not delay its end.
func testChangeDelaysNoTermination(t *testing.T, s *space) {
	s.addNode(t, "a")
	moment := time.Now().Add(3 * time.Second)
	pod := s.createPod(t, "late", map[string]string{AnnotationGoneAfter: moment.Format(time.RFC3339Nano)})
	s.waitForPod(t, "late", "to be Ready", isReady)
	s.deletePod(t, "late", 30)
	s.patchPod(t, "late", `{"metadata":{"labels":{"example.com/late":"true"}}}`)
	s.waitForDeletion(t, pod)
	if now := time.Now(); now.Before(moment) {
		t.Errorf("the pod was gone %s before its time", moment.Sub(now))
	}
}

func testPodWithFinalizer(t *testing.T, s *space) {
	s.addNode(t, "a")
	pod := s.createPod(t, "held", nil, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} })
	s.waitForPod(t, "held", "to be Ready", isReady)
	s.deletePod(t, "held", 30)
	s.waitForPod(t, "held", "to have ended, and to be there still", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed && p.Status.ContainerStatuses[0].State.Terminated != nil &&
			*p.DeletionGracePeriodSeconds == 0
	})
	s.patchPod(t, "held", `{"metadata":{"finalizers":null}}`)
	s.waitForDeletion(t, pod)
}

// testNewPodWithSameNameIsIndependent checks that changes for an evicted pod do not affect the new pod with the same name.
func testNewPodWithSameNameIsIndependent(t *testing.T, s *space) {
	s.addNode(t, "a")
	template := s.podTemplate(map[string]string{AnnotationGoneAfter: "100ms"})
	_, err := s.Client().AppsV1().StatefulSets(s.name).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := s.waitForPod(t, "db-0", "to be Ready", isReady)
	const restarts = 5
	for range restarts {
		if err := evict(t.Context(), s.Client(), old, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		old = s.waitForPod(t, "db-0", "to be another and Ready", func(p *corev1.Pod) bool {
			return p.UID != old.UID && isReady(p)
		})
	}
	s.waitForRequests(t, func(e Event) string {
		if e.ObjectRef.Namespace == s.name && e.ObjectRef.Resource == "pods" && e.Verb == "delete" {
			return e.User.Username
		}
		return ""
	}, slices.Repeat([]string{kwokUser}, restarts))
}
