package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// prepareRunners creates a runner on each outdated node and starts an upgrade. The upgrade must warn about both runners, because no
// controller would create them again. It is refused because of their budget. Then the runners get the label that makes an upgrade
// wait for them (POD013, L19).
func prepareRunners(s *testCase) {
	s.kubectl("wait", "--for=condition=Established", "crd/ephemeralrunners.actions.example.com")
	for i := range 2 {
		s.addRunner(i)
	}
	refused := s.startLabelled("--wait-replacement=false")
	refused.awaitEvent("a warning of both runners", func(e event) bool {
		return e.Type == "note" && strings.Contains(e.Text, "POD013") && strings.Contains(e.Text, runnerName(0)+" and 1 more") && strings.Contains(e.Text, drain.Label+"=wait-completed")
	})
	refused.awaitExit(3)
	s.kubectl("label", "pods", "-n", s.Namespace, "-l", "app=runner", drain.Label+"=wait-completed")
}

// endAwaitedRunners ends each runner's job once the upgrade waits for the runner.
func endAwaitedRunners(s *testCase, c *command) {
	for i := range 2 {
		name := runnerName(i)
		awaitDrainBlockedBy(name)(s, c)
		pod, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil || pod.DeletionTimestamp != nil || !drain.Ready(pod) {
			s.t.Fatalf("pod %s does not run while the upgrade waits for it: %v", name, err)
		}
		s.endPod(pod, 0)
	}
}

func runnerName(i int) string { return fmt.Sprintf("runner-%d", i) }

// addRunner creates a runner and its pod, as the runner's controller would, and waits until the pod runs.
func (s *testCase) addRunner(i int) {
	s.t.Helper()
	const version, kind = "actions.example.com/v1", "EphemeralRunner"
	name := runnerName(i)
	object, err := json.Marshal(metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}})
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), name+".json")
	if err := os.WriteFile(file, object, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.kubectl("create", "-f", file)
	uid := runKubectl(s.t, s.Fixture, "get", "ephemeralrunner", "-n", s.Namespace, name, "-o", "jsonpath={.metadata.uid}").Stdout
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "runner"}, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: version, Kind: kind, Name: name, UID: types.UID(uid), Controller: &yes},
		}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, NodeSelector: map[string]string{corev1.LabelHostname: fmt.Sprintf("%s-old-%d", s.group, i)},
			Containers: []corev1.Container{{Name: "runner", Image: "pause"}},
		},
	}
	client := s.Cluster.Client().CoreV1().Pods(s.Namespace)
	if _, err := client.Create(s.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.waitFor("pod "+name+" to run", func() bool {
		p, err := client.Get(s.t.Context(), name, metav1.GetOptions{})
		return err == nil && drain.Ready(p)
	})
}
