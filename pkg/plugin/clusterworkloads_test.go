package plugin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// zoneBound returns a server with an outdated node in zone a, a current node in zone b, and a StatefulSet pod whose
// volume is in zone a.
func zoneBound() *apiServer {
	s := &apiServer{}
	for name, place := range map[string][2]string{"old": {"a", "v1"}, "new": {"b", "v2"}} {
		node := build.Node(name, place[0])
		node.Labels["kops.k8s.io/instancegroup"], node.Labels["image"] = "blue", place[1]
		s.nodes = append(s.nodes, *node)
	}
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	s.pods = []corev1.Pod{*build.Pod("db-0", build.OwnedBy("StatefulSet", "db"), build.On("old"), build.Volume(claim))}
	s.claims = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "disk"},
	}}
	zone := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	s.volumes = []corev1.PersistentVolume{{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}},
		}}},
	}}
	return s
}

// forbidding returns a function that refuses to list the kinds.
func forbidding(kinds ...string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		for _, kind := range kinds {
			if strings.HasSuffix(r.URL.Path, "/"+kind) {
				answer(w, http.StatusForbidden, metav1.Status{
					TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
					Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: kind + " is forbidden",
				})
				return true
			}
		}
		return false
	}
}

// TestPlanConsidersVolumes plans for a pod that can only run in the zone of its volume. Without the permission to read
// volumes, the plan must show its assumption.
func TestPlanConsidersVolumes(t *testing.T) {
	const reach = "node(s) didn't match PersistentVolume's node affinity"
	cases := map[string]struct {
		forbidden []string
		finding   string
		assumed   string
	}{
		"volumes are known":       {finding: reach},
		"volumes may not be read": {forbidden: []string{"persistentvolumes"}, assumed: "volumes can move with their pods to any node: you may not list persistentvolumes"},
		"controllers may not be read": {
			forbidden: []string{"deployments", "replicasets", "statefulsets"}, finding: reach,
			assumed: "you may not list deployments, replicasets, statefulsets",
		},
		"webhooks may not be read": {
			forbidden: []string{"mutatingwebhookconfigurations", "services"}, finding: reach,
			assumed: "in no special order: you may not list mutatingwebhookconfigurations, services",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := zoneBound()
			s.refuse = forbidding(c.forbidden...)
			s.serve(t)
			stdout, stderr, _ := invoke(t, "blue", "--current=image=v2", "--wait-replacement=false", "--dry-run", "-o", "json")
			var plan report.Plan
			if err := json.Unmarshal([]byte(stdout), &plan); err != nil {
				t.Fatalf("%v: %s%s", err, stdout, stderr)
			}
			if found := fmt.Sprint(plan.Findings); strings.Contains(found, reach) != (c.finding != "") {
				t.Errorf("findings %s, want one that says %q", found, c.finding)
			}
			assumed := strings.Join(plan.Unread, "\n")
			if !strings.Contains(assumed, c.assumed) || strings.Contains(assumed, "you may not list") != (c.assumed != "") {
				t.Errorf("assumes\n%s\nwant %q", assumed, c.assumed)
			}
		})
	}
}

// TestPlanConsidersPodsOfServicesAndWebhooks checks plans of a cluster and of its dump.
func TestPlanConsidersPodsOfServicesAndWebhooks(t *testing.T) {
	hook := build.Pod("hook-0", build.App("hook"))
	named := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: build.Namespace, Name: "hook"}}
	services := []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "hook"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "hook"}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal}},
	}
	s := zoneBound()
	s.services, s.webhooks = services, []admissionv1.ValidatingWebhookConfiguration{{Webhooks: []admissionv1.ValidatingWebhook{{ClientConfig: named}}}}
	s.serve(t)
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	live, err := cluster.ReadObjects(t.Context(), client, inventory.ForForecasts)
	if err != nil {
		t.Fatal(err)
	}
	dumped := &inventory.Objects{
		Services: []*corev1.Service{&services[0], &services[1]},
		Mutating: []*admissionv1.MutatingWebhookConfiguration{{Webhooks: []admissionv1.MutatingWebhook{{ClientConfig: named}}}},
	}
	for name, background := range map[string]*inventory.Objects{"live": live, "dumped": dumped} {
		if h, w := drain.TierOf(hook, background.Facts()), drain.TierOf(build.Pod("web-0"), background.Facts()); h != drain.Serving || w != drain.Ordinary {
			t.Errorf("%s: the webhook's pod is of tier %d, another of %d", name, h, w)
		}
		local := slices.ContainsFunc(background.Services, func(s *corev1.Service) bool {
			return s.Name == "web" && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
		})
		if !local {
			t.Errorf("%s: nothing tells that service web is reached only where its pods are: %v", name, background.Services)
		}
	}
}

// TestPlanNamesServicesThatLoseTraffic drains nodes with all pods of a service in parallel (GKE G21).
func TestPlanNamesServicesThatLoseTraffic(t *testing.T) {
	s := twoGroups()
	s.pods = []corev1.Pod{*build.Pod("web-0", build.App("web"), build.On("b1")), *build.Pod("web-1", build.App("web"), build.On("b2"))}
	s.services = []corev1.Service{{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal},
	}}
	s.serve(t)
	for window, want := range map[string]bool{"1": false, "2": true} {
		stdout, stderr, _ := invoke(t, "blue", "--current=image=v3", "--wait-replacement=false", "--max-unavailable="+window, "--dry-run", "-o", "json")
		var plan report.Plan
		if err := json.Unmarshal([]byte(stdout), &plan); err != nil || len(plan.Nodes) != 2 {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		named := slices.ContainsFunc(plan.Findings, func(f preflight.Finding) bool {
			return f.Rule == "LB006" && f.Object == "Service "+build.Namespace+"/web"
		})
		if named != want {
			t.Errorf("with --max-unavailable=%s: named %t in %v", window, named, plan.Findings)
		}
	}
}

// TestPlanListsPodsToSkipOrWaitFor checks that the plan lists the pods that stay and the pods that the upgrade waits for.
func TestPlanListsPodsToSkipOrWaitFor(t *testing.T) {
	cases := map[string]struct {
		wish               string
		pods, staying      int
		blocked, evictions string
		code               int
	}{
		"skip":           {"skip", 1, 1, "[]", "1", exitDone},
		"wait-completed": {"wait-completed", 2, 0, "[pod shop/web-1 (completion)]", "1", exitStructural},
		"nothing":        {"", 2, 0, "[]", "2", exitDone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			s.pods = []corev1.Pod{*build.Pod("web-0", build.On("b1")), *build.Pod("web-1", build.On("b1"))}
			if c.wish != "" {
				s.pods[1].Labels[drain.Label] = c.wish
			}
			s.serve(t)
			stdout, stderr, code := invoke(t, "blue", "--current=image=v2", "--wait-replacement=false", "--dry-run", "-o", "json")
			var plan report.Plan
			if err := json.Unmarshal([]byte(stdout), &plan); err != nil || len(plan.Nodes) != 1 {
				t.Fatalf("%v: %s%s", err, stdout, stderr)
			}
			n := plan.Nodes[0]
			if n.Pods != c.pods || n.Staying != c.staying || fmt.Sprint(n.BlockedBy) != c.blocked || fmt.Sprint(*plan.Evictions) != c.evictions || code != c.code {
				t.Errorf("%d pods, %d staying, blocked by %v, %d evictions, exit code %d; want %+v", n.Pods, n.Staying, n.BlockedBy, *plan.Evictions, code, c)
			}
		})
	}
}

// TestPlanFailsIfServerFails checks that a plan fails if a list fails for another reason than a missing permission,
// because the objects may exist.
func TestPlanFailsIfServerFails(t *testing.T) {
	s := zoneBound()
	s.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		fails := strings.HasSuffix(r.URL.Path, "/replicasets")
		if fails {
			http.Error(w, "out of order", http.StatusNotFound)
		}
		return fails
	}
	s.serve(t)
	stdout, stderr, code := invoke(t, "blue", "--current=image=v2", "--dry-run")
	if code != exitError || stdout != "" || !strings.HasPrefix(stderr, "error: reading the cluster: listing replicasets: ") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
