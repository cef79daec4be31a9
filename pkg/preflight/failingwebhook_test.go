package preflight_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// A forecast follows the webhooks of WH001: it needs the pods that serve each of them, and the pods for which it is called.
func TestFailingWebhooksKnowTheirPods(t *testing.T) {
	cases := map[string]string{ // the Deployments whose pods serve it, are created with it, and are evicted with it
		"WH001":            "serves policy-server; admits pods of policy-server web; evictions of",
		"WH001.evictions":  "serves policy-server; admits pods of; evictions of web",
		"WH001.others":     "serves policy-server; admits pods of web; evictions of",
		"WH001.gone":       "serves; admits pods of web; evictions of",
		"WH001.young":      "serves policy; admits pods of policy web; evictions of",
		"WH001.conditions": "", // it is not known which requests the matchConditions select
		"WH001.pass":       "",
	}
	for name, want := range cases {
		text, err := os.ReadFile("testdata/rules/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		scene := readScene(t, text)
		found := preflight.Check(scene, preflight.Catalogue(), nil)
		hooks := preflight.ListFailingWebhooks(found)
		var got []string
		for _, hook := range hooks {
			got = append(got, fmt.Sprintf("serves%s; admits pods of%s; evictions of%s",
				appsOf(scene.Pods, hook.Serves), appsOf(scene.Pods, hook.AdmitsPod), appsOf(scene.Pods, hook.AdmitsEviction)))
		}
		if all := strings.Join(got, "\n"); all != want {
			t.Errorf("%s: %q, want %q", name, all, want)
		}
		for i := range found {
			found[i].Skipped = "agreed"
		}
		if hooks := preflight.ListFailingWebhooks(found); len(hooks) > 0 {
			t.Errorf("%s: the webhook %s of a skipped finding is listed", name, hooks[0].Name())
		}
	}
}

// appsOf returns the values of the label app of the selected pods, each after a blank.
func appsOf(pods []*corev1.Pod, selects func(*corev1.Pod) bool) string {
	apps := map[string]bool{}
	for _, pod := range pods {
		if selects(pod) {
			apps[" "+pod.Labels["app"]] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(apps)), "")
}
