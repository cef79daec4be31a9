package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// waitFor polls until ok returns true.
func (s *testCase) waitFor(what string, ok func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, commandLimit, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		s.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// waitForNodes waits until the group has n nodes and all of them accept pods.
func (s *testCase) waitForNodes(n int) {
	s.t.Helper()
	if err := s.AwaitNodes(s.t.Context(), "pool="+s.group, n); err != nil {
		s.t.Fatal(err)
	}
}

// nodeOf returns the node of the only pod of a workload.
func (s *testCase) nodeOf(app string) string {
	s.t.Helper()
	for _, pod := range s.pods() {
		if pod.Labels["app"] == app {
			return pod.Spec.NodeName
		}
	}
	s.t.Fatalf("no pod of %s", app)
	return ""
}

// changeNode changes a node as a user would.
func (s *testCase) changeNode(name string, change func(*corev1.Node)) {
	s.t.Helper()
	if err := s.ChangeNode(s.t.Context(), name, change); err != nil {
		s.t.Fatal(err)
	}
}

// deleteBudget deletes a budget, so that its pods can be evicted.
func (s *testCase) deleteBudget(budget string) {
	s.t.Helper()
	err := s.Cluster.Client().PolicyV1().PodDisruptionBudgets(s.Namespace).Delete(s.t.Context(), budget, metav1.DeleteOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// groupRequests lists the requests to the cloud about the group whose operation is one of names, in order.
func (s *testCase) groupRequests(names ...string) []string {
	var found []string
	for _, r := range s.Cloud.Requests() {
		if r.Params["AutoScalingGroupName"] == s.group && slices.Contains(names, r.Operation) {
			found = append(found, r.Operation)
		}
	}
	return found
}

// deletedPods lists the names of the case's pods that the plugin deleted instead of evicting them.
func (s *testCase) deletedPods() []string {
	s.t.Helper()
	var found []string
	for _, e := range s.podDeletions() {
		found = append(found, e.ObjectRef.Name)
	}
	return found
}

// podDeletions returns the plugin's delete requests for the case's pods.
func (s *testCase) podDeletions() []controlplane.Event {
	s.t.Helper()
	events, err := s.Cluster.AuditEvents(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(events, func(e controlplane.Event) bool {
		return !fixture.IsOurs(e) || e.Verb != "delete" || e.ObjectRef.Resource != "pods" || e.ObjectRef.Namespace != s.Namespace
	})
}

// status is the part of the output of "kubectl nodeupgrade status GROUP -o json" that tests use.
type status struct {
	Run    string `json:"run"`
	Result string `json:"result"`
	Holder string `json:"holder"`
	Status struct {
		Phase   string `json:"phase"`
		Waiting string `json:"waiting"`
		Nodes   []struct {
			Name  string `json:"name"`
			State string `json:"state"`
			Batch int    `json:"batch"`
		} `json:"nodes"`
	} `json:"status"`
}

func (s *testCase) status() status {
	s.t.Helper()
	return s.statusOf(s.group)
}

func (s *testCase) statusOf(group ...string) status {
	s.t.Helper()
	result := runKubectl(s.t, s.Fixture, append([]string{"nodeupgrade", "status", "-o", "json"}, group...)...)
	var found status
	if err := json.NewDecoder(strings.NewReader(result.Stdout)).Decode(&found); err != nil {
		s.t.Fatalf("reading the status: %v\n%s%s", err, result.Stdout, result.Stderr)
	}
	return found
}

// startedNodes lists the nodes that the upgrade has started.
func (s *testCase) startedNodes() []string {
	s.t.Helper()
	var names []string
	for _, n := range s.status().Status.Nodes {
		if n.Batch > 0 {
			names = append(names, n.Name)
		}
	}
	return names
}
