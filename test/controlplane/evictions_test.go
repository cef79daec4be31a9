package controlplane

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

func testEvictedPodIsReplaced(t *testing.T, s *space) {
	s.addNode(t, "a")
	const goneAfter = 3 * time.Second
	before := s.createDeployment(t, 2, map[string]string{AnnotationGoneAfter: goneAfter.String()})
	start, evicted := time.Now(), firstByName(before)
	if err := evict(t.Context(), s.Client(), evicted, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	going := s.waitForPod(t, evicted.Name, "to terminate", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if got := podCondition(going, corev1.DisruptionTarget); got != corev1.ConditionTrue {
		t.Errorf("condition DisruptionTarget is %q, want True", got)
	}
	s.waitForDeletion(t, evicted)
	if took := time.Since(start); took < goneAfter {
		t.Errorf("gone %s after the eviction, want %s or more", took, goneAfter)
	}
	s.waitForPods(t, "a replacement", func(pods map[string]*corev1.Pod) bool {
		return len(pods) == 2 && len(readyPods(pods)) == 2 && pods[evicted.Name] == nil
	})
}

// createBudget creates a PodDisruptionBudget for the space's pods and waits until it allows the given number of disruptions.
func (s *space) createBudget(t *testing.T, minAvailable int, allowed int32) {
	t.Helper()
	value := intstr.FromInt(minAvailable)
	budgets := s.Client().PolicyV1().PodDisruptionBudgets(s.name)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &value,
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the budget to be counted", func(ctx context.Context) error {
		pdb, err := budgets.Get(ctx, "web", metav1.GetOptions{})
		if err == nil && (pdb.Status.ObservedGeneration == 0 || pdb.Status.DisruptionsAllowed != allowed) {
			err = fmt.Errorf("its status is %+v", pdb.Status)
		}
		return err
	})
}

func (s *space) deleteBudget(t *testing.T) {
	t.Helper()
	err := s.Client().PolicyV1().PodDisruptionBudgets(s.name).Delete(t.Context(), "web", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func testEvictionAgainstBudget(t *testing.T, s *space) {
	s.addNode(t, "a")
	pods := s.createDeployment(t, 2, nil)
	s.createBudget(t, 2, 0)
	err := evict(t.Context(), s.Client(), firstByName(pods), metav1.DeleteOptions{})
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("got error %v, want 429 with the cause DisruptionBudget", err)
	}
}

func testEvictionOfAnotherUID(t *testing.T, s *space) {
	s.addNode(t, "a")
	pod := firstByName(s.createDeployment(t, 1, nil))
	other := types.UID("00000000-0000-0000-0000-000000000000")
	err := evict(t.Context(), s.Client(), pod, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if !apierrors.IsConflict(err) {
		t.Errorf("got error %v, want 409", err)
	}
}

func testAuditListsEvictions(t *testing.T, s *space) {
	s.addNode(t, "a")
	pod := firstByName(s.createDeployment(t, 1, nil))
	s.createBudget(t, 1, 0)
	const agent = "evictor/1"
	config := s.RESTConfig()
	config.UserAgent = agent
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := evict(t.Context(), client, pod, metav1.DeleteOptions{}); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("got error %v, want 429", err)
	}
	s.deleteBudget(t)
	for _, options := range []metav1.DeleteOptions{{DryRun: []string{metav1.DryRunAll}}, {}} {
		if err := evict(t.Context(), client, pod, options); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range s.auditEvents(t) {
		if e.UserAgent == agent && e.IsEviction() && e.ObjectRef.Name == pod.Name {
			got = append(got, fmt.Sprintf("%d dry run %t", e.ResponseStatus.Code, e.IsDryRun()))
		}
	}
	want := []string{"429 dry run false", "201 dry run true", "201 dry run false"}
	if !slices.Equal(got, want) {
		t.Errorf("the audit log has the evictions %q, want %q", got, want)
	}
}
