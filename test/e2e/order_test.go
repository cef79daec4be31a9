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
	// hook is a workload behind an admission webhook. driver has the name of a CSI driver.
	hook   = "hook"
	driver = "x-csi-driver"
)

// neededLast drains a node with pods that other pods need: pods behind a webhook, and pods of a CSI driver.
func neededLast(t *testing.T, shared *fixture.Fixture) {
	s := openEmpty(t, shared, fixture.Group{Name: "needed", Zones: []string{zoneA}, Counts: []int{1}, Suspended: []string{rebalance}})
	s.askHook()
	s.addWorkloads(fixture.Workload{Name: hook, Replicas: 2, MaxUnavailable: "1"}, fixture.Workload{Name: driver, Replicas: 1})
	s.ready()
	s.surge = 1 // never more than the number of outdated nodes
	s.upgrade(0)
	s.checkDone()
	s.checkOrder()
}

// askHook registers a webhook with the hook's pods. It matches objects that do not exist, because nothing answers in this
// cluster.
func (s *testCase) askHook() {
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

// checkOrder checks in the audit log that the hook's pods were evicted after all ordinary pods, and the driver's pods after all
// others had terminated.
func (s *testCase) checkOrder() {
	s.t.Helper()
	events, err := s.Cluster.AuditEvents(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var story []string
	for _, e := range events {
		if what := s.happened(&e); what != "" {
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
		s.t.Errorf("in the order %q", story)
	}
}

// happened returns what a request did to a pod, eviction or deletion: "evicted web".
func (s *testCase) happened(e *controlplane.Event) string {
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
