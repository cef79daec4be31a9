package drain_test

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func service(namespace, name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Selector: selector}}
}

// labelled sets the pod's labels to only these.
func labelled(keysAndValues ...string) podChange {
	return func(pod *corev1.Pod) {
		pod.Labels = map[string]string{}
		for i := 0; i < len(keysAndValues); i += 2 {
			pod.Labels[keysAndValues[i]] = keysAndValues[i+1]
		}
	}
}

func TestPodTierDependsOnWebhookDNSAndStorageRole(t *testing.T) {
	facts := drain.NewFacts([]*corev1.Service{
		service(build.Namespace, "policy", map[string]string{"app": "policy", "role": "webhook"}),
		service(build.Namespace, "second", map[string]string{"app": "second"}),
		service(build.Namespace, "by-hand", nil),
	})
	type pods = []podChange
	cases := map[string]struct {
		pod  pods
		want drain.Tier
	}{
		"a pod of an application":              {nil, drain.Ordinary},
		"without labels":                       {pods{labelled()}, drain.Ordinary},
		"without a controller":                 {pods{build.Bare}, drain.Ordinary},
		"behind a webhook":                     {pods{labelled("app", "policy", "role", "webhook", "x", "y")}, drain.Serving},
		"behind another webhook":               {pods{build.App("second")}, drain.Serving},
		"behind a webhook, without controller": {pods{build.App("second"), build.Bare}, drain.Serving},
		"with one of two labels":               {pods{labelled("app", "policy")}, drain.Ordinary},
		"with another value":                   {pods{labelled("app", "policy", "role", "metrics")}, drain.Ordinary},
		"in another namespace":                 {pods{build.App("second"), build.In("other")}, drain.Ordinary},
		"of the cluster's DNS":                 {pods{labelled("k8s-app", "kube-dns")}, drain.Serving},
		"of another system component":          {pods{labelled("k8s-app", "kube-dns-metrics")}, drain.Ordinary},
		"a CSI controller, by its owner":       {pods{build.OwnedBy("ReplicaSet", "ebs-csi-controller-5d9f8c")}, drain.Storage},
		"a CSI sidecar, by its owner":          {pods{build.OwnedBy("StatefulSet", "csi-attacher")}, drain.Storage},
		"a CSI driver, by its last word":       {pods{build.OwnedBy("StatefulSet", "longhorn-csi")}, drain.Storage},
		"a CSI controller, by k8s-app":         {pods{labelled("k8s-app", "gcp-compute-persistent-disk-csi-driver")}, drain.Storage},
		"a CSI controller, by its name":        {pods{labelled("app.kubernetes.io/name", "aws-ebs-csi-driver")}, drain.Storage},
		"a CSI controller with a webhook":      {pods{labelled("app", "second", "app.kubernetes.io/name", "x-csi-driver")}, drain.Storage},
		"csi within a word":                    {pods{build.OwnedBy("ReplicaSet", "scsid-ecsi-7f")}, drain.Ordinary},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := drain.TierOf(build.Pod("web-0", c.pod...), facts); got != c.want {
				t.Errorf("got tier %d, want %d", got, c.want)
			}
		})
	}
	if got := drain.TierOf(build.Pod("web-0", build.App("second")), drain.Facts{}); got != drain.Ordinary {
		t.Errorf("without facts: got tier %d of a webhook's pod", got)
	}
}

func TestServicesOfWebhooksAndDNSAreCritical(t *testing.T) {
	webhooks := drain.Webhooks{}
	url := "https://example.com"
	ref := func(namespace, name string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: name}}
	}
	webhooks.AddMutating(&admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{
		{ClientConfig: ref("mesh", "injector")}, {ClientConfig: admissionv1.WebhookClientConfig{URL: &url}},
	}})
	webhooks.AddValidating(&admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{
		{ClientConfig: ref("policy", "a")}, {ClientConfig: ref("policy", "b")},
	}})
	cases := map[[2]string]bool{
		{"mesh", "injector"}: true, {"policy", "a"}: true, {"policy", "b"}: true, {"kube-system", "kube-dns"}: true,
		{"policy", "injector"}: false, {"mesh", "kube-dns"}: false, {"shop", "web"}: false,
	}
	for name, want := range cases {
		if got := webhooks.NeedsService(service(name[0], name[1], nil)); got != want {
			t.Errorf("service %s/%s is needed: %t, want %t", name[0], name[1], got, want)
		}
	}
}

// leaver returns a pod whose tier is the first letter of its name: o, s, or c for a CSI driver's.
func leaver(name string) *corev1.Pod {
	return build.Pod(name, build.App(map[byte]string{'o': "web", 's': "hook", 'c': "x-csi"}[name[0]])) // and so its controller's name
}

func TestPodsAreEvictedInOrderOfTheirTiers(t *testing.T) {
	facts := drain.NewFacts([]*corev1.Service{service(build.Namespace, "hook", map[string]string{"app": "hook"})})
	type names = []string
	cases := map[string]struct {
		evict, held, leaving, want names
	}{
		"nothing to evict":                         {nil, names{"o1"}, names{"o2"}, nil},
		"ordinary pods, in their order":            {names{"o2", "o1"}, nil, names{"c1"}, names{"o2", "o1"}},
		"ordinary pods before all others":          {names{"c1", "o1", "s1", "o2"}, nil, nil, names{"o1", "o2"}},
		"then those that serve":                    {names{"c1", "s2", "s1"}, nil, nil, names{"s2", "s1"}},
		"as soon as the ordinary ones are leaving": {names{"s1", "c1"}, nil, names{"o1"}, names{"s1"}},
		"storage last":                             {names{"c1", "c2"}, nil, nil, names{"c1", "c2"}},
		"storage once all others are gone":         {names{"c1"}, nil, names{"o1"}, nil},
		"storage after those that serve, too":      {names{"c1"}, nil, names{"s1"}, nil},
		"storage beside storage":                   {names{"c1"}, nil, names{"c2"}, names{"c1"}},
		"an ordinary pod that is held":             {names{"s1", "c1"}, names{"o1"}, nil, nil},
		"one that serves and is held":              {names{"s1", "c1"}, names{"s2"}, nil, names{"s1"}},
		"storage behind one that is held":          {names{"c1"}, names{"s1"}, nil, nil},
		"a later one that is held":                 {names{"o1", "s1"}, names{"c1"}, nil, names{"o1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pods := func(names []string) (pods []*corev1.Pod) {
				for _, name := range names {
					pods = append(pods, leaver(name))
				}
				return pods
			}
			var got []string
			for _, pod := range drain.PodsInTurn(drain.Leavers{Evict: pods(c.evict), Held: pods(c.held), Leaving: pods(c.leaving)}, facts) {
				got = append(got, pod.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// BenchmarkDue measures the cost of the order if no pod needs one, for a node's 110 pods.
func BenchmarkDue(b *testing.B) {
	facts := drain.NewFacts([]*corev1.Service{service("policy", "hook", map[string]string{"app": "hook"})})
	var l drain.Leavers
	for range 110 {
		l.Evict = append(l.Evict, build.Pod("web-0"))
	}
	b.ReportAllocs()
	for b.Loop() {
		drain.PodsInTurn(l, facts)
	}
}
