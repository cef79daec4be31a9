package preflight_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestConcurrentDrainsWithLocalTrafficPolicyAreFound checks G21: with externalTrafficPolicy: Local, several nodes must not be
// drained concurrently.
func TestConcurrentDrainsWithLocalTrafficPolicyAreFound(t *testing.T) {
	const local = corev1.ServiceExternalTrafficPolicyLocal
	cases := map[string]struct {
		window   int
		strategy record.Strategy
		nodes    int
		outdated bool
		selector map[string]string
		policy   corev1.ServiceExternalTrafficPolicy
		says     string
	}{
		"LB006 two at once":              {2, record.Surge, 3, true, map[string]string{"app": "web"}, local, "2 of these nodes may be drained at the same time"},
		"LB006 no more than there are":   {20, record.Surge, 3, true, map[string]string{"app": "web"}, local, "3 of these nodes may be drained at the same time"},
		"one at a time":                  {1, record.Surge, 3, true, map[string]string{"app": "web"}, local, ""},
		"pods on one node":               {2, record.Surge, 1, true, map[string]string{"app": "web"}, local, ""},
		"pods on nodes that stay":        {2, record.Surge, 3, false, map[string]string{"app": "web"}, local, ""},
		"pods of others":                 {2, record.Surge, 3, true, map[string]string{"app": "db"}, local, ""},
		"endpoints that a person writes": {2, record.Surge, 3, true, nil, local, ""},
		"reached by way of any node":     {2, record.Surge, 3, true, map[string]string{"app": "web"}, corev1.ServiceExternalTrafficPolicyCluster, ""},
		"nothing is drained":             {2, record.ShortLived, 3, true, map[string]string{"app": "web"}, local, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var members []nodegroup.Member
			for range c.nodes {
				members = append(members, nodegroup.Member{Outdated: c.outdated, Pods: []*corev1.Pod{build.Pod("web", build.App("web"))}})
			}
			service := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: members[0].Pods[0].Namespace, Name: "web"},
				Spec:       corev1.ServiceSpec{Selector: c.selector, ExternalTrafficPolicy: c.policy},
			}
			found := preflight.CheckServices(members, &record.Request{Window: c.window, Strategy: c.strategy}, []*corev1.Service{service})
			if c.says == "" && len(found) > 0 || c.says != "" && (len(found) != 1 || !strings.Contains(found[0].String(), c.says)) {
				t.Errorf("got %v, want %q", found, c.says)
			}
		})
	}
}
