package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

// invoke runs the command line as main does, without a terminal.
func invoke(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = Run(t.Context(), args, strings.NewReader("yes\n"), &out, &errOut)
	if err := contract.CheckOutput(args, out.String(), errOut.String(), code); err != nil {
		t.Error(err)
	}
	return out.String(), errOut.String(), code
}

// kubeconfig makes the commands of this test use a server.
func kubeconfig(t *testing.T, server string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"test","contexts":[{"name":"test","context":{"cluster":"test","user":"test"}}],
		"clusters":[{"name":"test","cluster":{"server":%q}}],"users":[{"name":"test"}]}`, server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// nowhere is an address that refuses connections.
const nowhere = "http://127.0.0.1:1"

// apiServer is an API server that answers reads with the given objects and records requests for changes.
type apiServer struct {
	nodes   []corev1.Node
	pods    []corev1.Pod
	budgets []policyv1.PodDisruptionBudget
	maps    []corev1.ConfigMap
	// Objects for plans and checks.
	statefulSets []appsv1.StatefulSet
	claims       []corev1.PersistentVolumeClaim
	volumes      []corev1.PersistentVolume
	services     []corev1.Service
	webhooks     []admissionv1.ValidatingWebhookConfiguration
	// refuse, if it returns true, has answered the request in place of the server.
	refuse func(http.ResponseWriter, *http.Request) bool
	// readOnly is true if the user may only read.
	readOnly bool

	mu      sync.Mutex
	changes []string
}

// recordRequest records a request for a change. It may be called concurrently.
func (s *apiServer) recordRequest(request string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, request)
}

// sentRequests returns the recorded requests as "METHOD /path".
func (s *apiServer) sentRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}

// serve makes the commands of this test use the server.
func (s *apiServer) serve(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	kubeconfig(t, server.URL)
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.refuse != nil && s.refuse(w, r) {
		return
	}
	if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		answer(w, http.StatusCreated, authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: !s.readOnly},
		})
		return
	}
	if r.Method != http.MethodGet {
		s.recordRequest(r.Method + " " + r.URL.Path)
		answer(w, http.StatusCreated, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
		return
	}
	list := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }
	admission := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{Kind: kind, APIVersion: "admissionregistration.k8s.io/v1"}
	}
	apps := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "apps/v1"} }
	lists := map[string]any{
		"/version":                     map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
		"/api/v1/nodes":                corev1.NodeList{TypeMeta: list("NodeList"), Items: s.nodes},
		"/api/v1/pods":                 corev1.PodList{TypeMeta: list("PodList"), Items: s.podsOn(r.URL.Query().Get("fieldSelector"))},
		"/api/v1/namespaces/shop/pods": corev1.PodList{TypeMeta: list("PodList"), Items: s.podsNamed(r.URL.Query().Get("fieldSelector"))},
		"/api/v1/namespaces":           corev1.NamespaceList{TypeMeta: list("NamespaceList")},
		"/apis/policy/v1/poddisruptionbudgets": policyv1.PodDisruptionBudgetList{
			TypeMeta: metav1.TypeMeta{Kind: "PodDisruptionBudgetList", APIVersion: "policy/v1"}, Items: s.budgets,
		},
		"/apis/apps/v1/daemonsets": appsv1.DaemonSetList{TypeMeta: apps("DaemonSetList")},
		"/apis/batch/v1/jobs":      batchv1.JobList{TypeMeta: metav1.TypeMeta{Kind: "JobList", APIVersion: "batch/v1"}},
		"/apis/networking.k8s.io/v1/ingresses": networkingv1.IngressList{
			TypeMeta: metav1.TypeMeta{Kind: "IngressList", APIVersion: "networking.k8s.io/v1"},
		},
		"/apis/autoscaling/v2/horizontalpodautoscalers": autoscalingv2.HorizontalPodAutoscalerList{
			TypeMeta: metav1.TypeMeta{Kind: "HorizontalPodAutoscalerList", APIVersion: "autoscaling/v2"},
		},
		"/apis/apps/v1/deployments":      appsv1.DeploymentList{TypeMeta: apps("DeploymentList")},
		"/apis/apps/v1/replicasets":      appsv1.ReplicaSetList{TypeMeta: apps("ReplicaSetList")},
		"/apis/apps/v1/statefulsets":     appsv1.StatefulSetList{TypeMeta: apps("StatefulSetList"), Items: s.statefulSets},
		"/api/v1/persistentvolumeclaims": corev1.PersistentVolumeClaimList{TypeMeta: list("PersistentVolumeClaimList"), Items: s.claims},
		"/apis/storage.k8s.io/v1/csinodes": storagev1.CSINodeList{
			TypeMeta: metav1.TypeMeta{Kind: "CSINodeList", APIVersion: "storage.k8s.io/v1"},
		},
		"/api/v1/resourcequotas":    corev1.ResourceQuotaList{TypeMeta: list("ResourceQuotaList")},
		"/api/v1/persistentvolumes": corev1.PersistentVolumeList{TypeMeta: list("PersistentVolumeList"), Items: s.volumes},
		"/api/v1/services":          corev1.ServiceList{TypeMeta: list("ServiceList"), Items: s.services},
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": admissionv1.MutatingWebhookConfigurationList{
			TypeMeta: admission("MutatingWebhookConfigurationList"),
		},
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": admissionv1.ValidatingWebhookConfigurationList{
			TypeMeta: admission("ValidatingWebhookConfigurationList"), Items: s.webhooks,
		},
		"/api/v1/namespaces/kube-system/configmaps": corev1.ConfigMapList{TypeMeta: list("ConfigMapList"), Items: s.maps},
	}
	for i := range s.maps {
		lists["/api/v1/namespaces/kube-system/configmaps/"+s.maps[i].Name] = s.maps[i]
	}
	if object, ok := lists[r.URL.Path]; ok {
		answer(w, http.StatusOK, object)
		return
	}
	answer(w, http.StatusNotFound, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
	})
}

// podsOn returns the pods that a field selector on the node's name matches, all pods without a selector.
func (s *apiServer) podsOn(selector string) []corev1.Pod {
	node, chosen := strings.CutPrefix(selector, "spec.nodeName=")
	return slices.DeleteFunc(slices.Clone(s.pods), func(p corev1.Pod) bool { return chosen && p.Spec.NodeName != node })
}

// podsNamed returns the pods that a field selector on the pod's name matches.
func (s *apiServer) podsNamed(selector string) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.pods), func(p corev1.Pod) bool { return selector != "metadata.name="+p.Name })
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		panic(err)
	}
}

// twoGroups returns a server with two groups for --current=image=v2: "blue" with an outdated and a current node, and
// "green" with a current one.
func twoGroups() *apiServer {
	s := &apiServer{}
	for name, labels := range map[string][2]string{"b1": {"blue", "v1"}, "b2": {"blue", "v2"}, "g1": {"green", "v2"}} {
		node := build.Node(name, "a")
		node.Labels["kops.k8s.io/instancegroup"], node.Labels["image"] = labels[0], labels[1]
		s.nodes = append(s.nodes, *node)
	}
	s.pods = []corev1.Pod{*build.Pod("web-0", build.On("b1")), *build.Pod("web-1", build.On("b2"))}
	return s
}
