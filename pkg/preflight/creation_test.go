package preflight_test

import (
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// TestRemedyFitsReasonOfRefusedPodCreation uses messages that TestRefusedPodCreationsAreExplained of pkg/cluster gets from a real
// API server. If one more pod would exceed a quota, the refusal is permanent only if the new pod comes first, or if more is used
// than allowed already.
func TestRemedyFitsReasonOfRefusedPodCreation(t *testing.T) {
	quota := func(used, limited string) string {
		return `pods "web-x" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=500m, used: ` + used + ", limited: " + limited
	}
	for name, c := range map[string]struct {
		refusal      string
		first, later bool
		remedy       string
	}{
		"PodSecurity":            {refusal: `pods "web-x" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`, remedy: "pod-security.kubernetes.io/enforce"},
		"quota below its use":    {refusal: quota("pods=3,requests.cpu=1500m", "pods=2,requests.cpu=2"), remedy: "raise ResourceQuota q"},
		"quota used up":          {refusal: quota("pods=3,requests.cpu=1500m", "pods=3,requests.cpu=1.5"), later: true, remedy: "raise ResourceQuota q"},
		"quota for one more pod": {refusal: quota("pods=3,requests.cpu=1500m", "pods=3,requests.cpu=1.5"), first: true, remedy: "raise ResourceQuota q"},
		"quota unreadable":       {refusal: quota("pods=x", "pods=3"), remedy: "raise ResourceQuota q"},
		"quota without limit":    {refusal: quota("pods=3,requests.cpu=1", "pods=3"), remedy: "raise ResourceQuota q"},
		"quota that asks":        {refusal: `pods "web-x" is forbidden: failed quota: q: must specify limits.cpu for: c`, remedy: "LimitRange"},
		"ServiceAccount":         {refusal: `pods "web-x" is forbidden: error looking up service account shop/web: serviceaccount "web" not found`, remedy: "create the ServiceAccount again"},
		"PriorityClass":          {refusal: `pods "web-x" is forbidden: no PriorityClass with name high was found`, remedy: "create the PriorityClass again"},
		"webhook is down":        {refusal: `Internal error occurred: failed calling webhook "x": failed to call webhook: Post "https://x": dial tcp: connection refused`, remedy: "the webhook's pods are running"},
		"webhook denies":         {refusal: `admission webhook "x" denied the request: no`, remedy: "that the webhook denies"},
		"another reason":         {refusal: `pods "web-x" is forbidden: no`, remedy: "of the pod template"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := preflight.IsRefusedTemporarily(c.refusal, c.first); got != c.later {
				t.Errorf("created later: %t, want %t", got, c.later)
			}
			if got := preflight.RemedyOfRefusal(c.refusal); !strings.Contains(got, c.remedy) {
				t.Errorf("the remedy is %q, want one with %q", got, c.remedy)
			}
		})
	}
}
