package cluster

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// listServer is a server that answers each list with one object, and records the requested paths.
type listServer struct {
	mu    sync.Mutex
	asked []string
	// absent are paths that do not exist, forbidden are paths that it refuses.
	absent, forbidden []string
}

// ServeHTTP implements http.Handler.
func (s *listServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	s.mu.Unlock()
	object := `{"metadata":{"name":"one"},"spec":{"targetGroupARN":"arn:web"}}`
	switch {
	case slices.Contains(s.forbidden, r.URL.Path):
		w.WriteHeader(http.StatusForbidden)
	case slices.Contains(s.absent, r.URL.Path):
		w.WriteHeader(http.StatusNotFound)
	case strings.Contains(r.URL.Path, "/namespaces/"):
		_, _ = io.WriteString(w, object)
	case !strings.Contains(r.Header.Get("Accept"), "application/json"): // custom resources have no protobuf either
		w.WriteHeader(http.StatusNotAcceptable)
	default:
		_, _ = io.WriteString(w, `{"kind":"AnyList","metadata":{},"items":[`+object+`]}`)
	}
}

// TestReadObjectsListsEachKindOnce checks that a use reads each of its kinds with one request, and no other kind.
func TestReadObjectsListsEachKindOnce(t *testing.T) {
	t.Parallel()
	const apps, admission, policies = "/apis/apps/v1/", "/apis/admissionregistration.k8s.io/v1/", "/api/v1/namespaces/kube-system/configmaps/"
	controllers := []string{apps + "deployments", apps + "replicasets", apps + "statefulsets"}
	places := []string{"/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes", "/api/v1/namespaces", "/apis/resource.k8s.io/v1/resourceclaims"}
	facts := []string{"/api/v1/services", admission + "mutatingwebhookconfigurations", admission + "validatingwebhookconfigurations"}
	bindings := "/apis/elbv2.k8s.aws/v1beta1/targetgroupbindings"
	pools := []string{"/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims"}
	cases := map[inventory.Use][]string{
		inventory.ForChecks: slices.Concat(controllers, places, facts, pools, []string{
			"/api/v1/nodes", "/api/v1/pods", "/api/v1/resourcequotas", "/apis/policy/v1/poddisruptionbudgets", apps + "daemonsets", "/apis/batch/v1/jobs",
			"/apis/autoscaling/v2/horizontalpodautoscalers", "/apis/networking.k8s.io/v1/ingresses", bindings,
			policies + "descheduler", policies + "descheduler-policy-configmap",
		}),
		inventory.ForForecasts: slices.Concat(controllers, places, facts, []string{"/apis/storage.k8s.io/v1/csinodes"}),
		inventory.ForViews:     {"/api/v1/nodes", "/api/v1/namespaces", "/apis/policy/v1/poddisruptionbudgets"},
		inventory.ForFacts:     facts,
		inventory.ForMoves:     {apps + "deployments", "/api/v1/persistentvolumeclaims"},
		inventory.ForBalancers: {bindings},
		inventory.ForNodePools: pools,
	}
	for use, want := range cases {
		s := &listServer{}
		c := connectTo(t, s.ServeHTTP)
		o, err := ReadObjects(t.Context(), c.Client, use)
		must(t, err)
		slices.Sort(s.asked)
		slices.Sort(want)
		if !slices.Equal(s.asked, want) {
			t.Errorf("for %b it asked for\n%q\nwant\n%q", use, s.asked, want)
		}
		if slices.Contains(want, bindings) && (len(o.Bindings) != 1 || o.Bindings[0].Name != "one" || o.Bindings[0].Spec.TargetGroup != "arn:web") {
			t.Errorf("for %b it read the bindings %v", use, o.Bindings)
		}
	}
}

// TestReadObjectsFailsOnlyForRequiredKinds: an optional kind that may not be listed is unread, and a kind that the cluster lacks has no
// objects.
func TestReadObjectsFailsOnlyForRequiredKinds(t *testing.T) {
	t.Parallel()
	claims := "/api/v1/persistentvolumeclaims"
	s := &listServer{forbidden: []string{claims, "/api/v1/namespaces/kube-system/configmaps/descheduler"}, absent: []string{
		"/apis/resource.k8s.io/v1/resourceclaims", "/apis/elbv2.k8s.aws/v1beta1/targetgroupbindings",
	}}
	c := connectTo(t, s.ServeHTTP)
	o, err := ReadObjects(t.Context(), c.Client, inventory.ForChecks)
	must(t, err)
	if want := []string{"configmaps", "persistentvolumeclaims"}; !slices.Equal(o.Unread, want) || len(o.Claims)+len(o.ResourceClaims)+len(o.Bindings) > 0 {
		t.Errorf("unread %v, want %v; read %v, %v and %v", o.Unread, want, o.Claims, o.ResourceClaims, o.Bindings)
	}
	if _, err := ReadObjects(t.Context(), c.Client, inventory.ForMoves); !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "listing persistentvolumeclaims: ") {
		t.Errorf("a required kind that may not be listed: %v", err)
	}
	s.absent = []string{claims}
	s.forbidden = nil
	if _, err := ReadObjects(t.Context(), c.Client, inventory.ForForecasts); !apierrors.IsNotFound(err) {
		t.Errorf("a kind that every cluster has is absent: %v", err)
	}
}
