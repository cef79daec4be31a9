package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

const (
	// hook is the name of a workload that serves an admission webhook. driver is the name of a CSI driver's workload.
	hook   = "hook"
	driver = "x-csi-driver"
)

// testNeededPodsMoveLast checks that pods which other pods need are evicted last: the pods of a webhook and of a CSI driver.
func testNeededPodsMoveLast(t *testing.T, shared *fixture.Fixture) {
	s := openEmptyCase(t, shared, fixture.Group{Name: "needed", Zones: []string{zoneA}, Counts: []int{1}, Suspended: []string{rebalance}})
	s.registerWebhook()
	s.addDefaultWorkloads(fixture.Workload{Name: hook, Replicas: 2, MaxUnavailable: "1"}, fixture.Workload{Name: driver, Replicas: 1})
	s.startObserving()
	s.surge = 1 // never more than the number of outdated nodes
	s.runUpgrade(0)
	s.checkUpgraded()
	s.checkEvictionOrder()
}

// registerWebhook registers a webhook that the hook's pods serve. It matches only objects that do not exist, because the simulated
// pods cannot answer.
func (s *testCase) registerWebhook() {
	s.t.Helper()
	ctx, client := s.t.Context(), s.Cluster.Client()
	if err := s.AddService(ctx, "asked", hook); err != nil {
		s.t.Fatal(err)
	}
	none := admissionv1.SideEffectClassNone
	configs := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configs.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "nothings.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: s.Namespace, Name: "asked"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"nothings"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := configs.Delete(context.WithoutCancel(s.t.Context()), s.Namespace, metav1.DeleteOptions{}); err != nil {
			s.t.Error(err)
		}
	})
}

// checkEvictionOrder checks in the audit log that the hook's pods were evicted after all ordinary pods, and the driver's pods after all
// other pods had terminated.
func (s *testCase) checkEvictionOrder() {
	s.t.Helper()
	events, err := s.Cluster.AuditEvents(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var story []string
	for _, e := range events {
		if what := s.describePodEvent(&e); what != "" {
			story = append(story, what)
		}
	}
	last := func(what string) int {
		for i := len(story) - 1; i >= 0; i-- {
			if story[i] == what {
				return i
			}
		}
		s.t.Fatalf("there is no %q in %q", what, story)
		return -1
	}
	hooked, driven := slices.Index(story, "evicted "+hook), slices.Index(story, "evicted "+driver)
	if hooked < max(last("evicted web"), last("evicted db")) || driven < max(last("evicted "+hook), last("gone web"), last("gone db"), last("gone "+hook)) {
		s.t.Errorf("wrong order of evictions and deletions: %q", story)
	}
}

// describePodEvent describes an eviction or the deletion of a pod, such as "evicted web". For other requests it returns "".
func (s *testCase) describePodEvent(e *controlplane.Event) string {
	if e.ObjectRef.Namespace != s.Namespace || e.ObjectRef.Resource != "pods" || e.ResponseStatus.Code >= http.StatusBadRequest {
		return ""
	}
	what := ""
	switch {
	case e.IsEviction():
		what = "evicted "
	case e.Verb == "delete" && e.IsFromComponent():
		what = "gone "
	default:
		return ""
	}
	for _, app := range []string{"web", "db", hook, driver} {
		if strings.HasPrefix(e.ObjectRef.Name, app+"-") {
			return what + app
		}
	}
	return ""
}
