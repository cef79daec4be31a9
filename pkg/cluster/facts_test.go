package cluster

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// webhooks creates a webhook of each kind that matches no request, each with a service, and a
// service without a webhook.
func (s *space) webhooks(t *testing.T) {
	t.Helper()
	for _, name := range []string{"mutates", "validates", "serves"} {
		_, err := s.Client().CoreV1().Services(s.name).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 443}}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	none, port := admissionv1.SideEffectClassNone, int32(443)
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"nothings"}},
	}}
	named := func(service string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: s.name, Name: service, Port: &port}}
	}
	admission, meta := s.Client().AdmissionregistrationV1(), metav1.ObjectMeta{Name: s.name}
	_, err := admission.MutatingWebhookConfigurations().Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{{
			Name: "m.example.com", ClientConfig: named("mutates"), Rules: rules, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = admission.ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "v.example.com", ClientConfig: named("validates"), Rules: rules, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
}

// tiers returns the tier of a pod behind each of the services.
func (s *space) tiers(facts drain.Facts) (tiers [3]drain.Tier) {
	for i, app := range []string{"mutates", "validates", "serves"} {
		tiers[i] = drain.TierOf(build.Pod(app, build.App(app), build.In(s.name)), facts)
	}
	return tiers
}

// testFacts checks that plans and the first view read the same facts, as far as the user may read
// them.
func testFacts(t *testing.T, s *space) {
	s.webhooks(t)
	const mutating, validating = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
	may := func(apiGroup string, kinds ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{apiGroup}, Resources: kinds}
	}
	admission := func(kinds ...string) rbacv1.PolicyRule { return may("admissionregistration.k8s.io", kinds...) }
	watched := []rbacv1.PolicyRule{may("", "nodes", "pods", "namespaces"), may("policy", "poddisruptionbudgets")}
	cases := map[string]struct {
		rules []rbacv1.PolicyRule
		want  [3]drain.Tier
	}{
		"all":      {append(watched, may("", "services"), admission(mutating, validating)), [3]drain.Tier{drain.Serving, drain.Serving, drain.Ordinary}},
		"none":     {watched, [3]drain.Tier{}},
		"services": {append(watched, may("", "services")), [3]drain.Tier{}},
		"one":      {append(watched, may("", "services"), admission(validating)), [3]drain.Tier{1: drain.Serving}},
		"webhooks": {append(watched, admission(mutating, validating)), [3]drain.Tier{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			user := s.name + "-" + name
			client := s.clientOf(t, user)
			s.allow(t, user, c.rules)
			w, err := WatchCluster(t.Context(), client, time.Now)
			must(t, err)
			background, err := ReadObjects(t.Context(), client, inventory.ForForecasts)
			must(t, err)
			if first, planned := s.tiers(w.View().Facts), s.tiers(background.Facts()); first != c.want || planned != c.want {
				t.Errorf("tiers %v when watched, %v when planned, want %v", first, planned, c.want)
			}
		})
	}
}
