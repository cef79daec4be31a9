package cluster

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestAbortNeedsNoEvictions checks the permissions that an abort needs.
func TestAbortNeedsNoEvictions(t *testing.T) {
	request := record.Request{OnTimeout: record.Force}
	texts := func(evicts bool) string {
		var all []string
		for _, right := range listNeededRights(&request, evicts, "kube-system") {
			all = append(all, describeRight(&right))
		}
		return strings.Join(all, "; ")
	}
	for _, moves := range []string{"create pods/eviction", "delete pods"} {
		if on, undo := texts(true), texts(false); !strings.Contains(on, moves) || strings.Contains(undo, moves) || !strings.Contains(undo, "patch nodes") {
			t.Errorf("%s: an upgrade needs %q, an abort %q", moves, on, undo)
		}
	}
}

// TestCronJobUsesPublishedRoles checks that docs/cronjob.md binds each role of docs/permissions, and nothing else.
func TestCronJobUsesPublishedRoles(t *testing.T) {
	var published, bound []string
	for _, file := range []string{"kubernetes-read.yaml", "kubernetes-operate.yaml"} {
		for _, object := range readObjects(t, "../../docs/permissions/"+file) {
			published = append(published, object.Kind+" "+object.Namespace+"/"+object.Name)
		}
	}
	for _, object := range readObjects(t, "../../docs/cronjob.md") {
		if object.Ref.Name != "" {
			bound = append(bound, object.Ref.Kind+" "+object.Namespace+"/"+object.Ref.Name)
		}
	}
	slices.Sort(published)
	slices.Sort(bound)
	if len(published) != 4 || !slices.Equal(published, bound) {
		t.Errorf("the page binds %q, and docs/permissions has %q", bound, published)
	}
}

// object is the part that bindings and roles have in common.
type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Ref               rbacv1.RoleRef      `json:"roleRef"`
	Rules             []rbacv1.PolicyRule `json:"rules"`
}

// readObjects reads objects from a file, or from the code block on a page.
func readObjects(t *testing.T, file string) []object {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, block, isPage := bytes.Cut(text, []byte("```yaml\n")); isPage {
		text, _, _ = bytes.Cut(block, []byte("```"))
	}
	var objects []object
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		var o object
		if err := yaml.Unmarshal(part, &o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// TestOptionalPartsAreOmittedWithoutPermission checks which parts are left out, and that the published roles grant each permission that is missing then.
func TestOptionalPartsAreOmittedWithoutPermission(t *testing.T) {
	granted := map[authorizationv1.ResourceAttributes]bool{}
	for _, file := range []string{"kubernetes-read.yaml", "kubernetes-operate.yaml"} {
		for _, role := range readObjects(t, "../../docs/permissions/"+file) {
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[authorizationv1.ResourceAttributes{Verb: verb, Group: rule.APIGroups[0], Resource: resource, Namespace: role.Namespace}] = true
					}
				}
			}
		}
	}
	cases := map[string]struct {
		request record.Request
		protect bool
		lines   int
	}{
		"surge":                   {record.Request{Strategy: record.Surge}, true, 4},
		"blue-green":              {record.Request{Strategy: record.BlueGreen}, true, 4},
		"without implicit budget": {record.Request{Strategy: record.Surge, NoImplicitBudgets: true}, false, 4},
		"by the cloud":            {record.Request{Strategy: record.Delegated}, false, 0},
		"short-lived":             {record.Request{Strategy: record.ShortLived}, false, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := listOptionalParts(&c.request)
			if protect := slices.ContainsFunc(all, func(s optionalPart) bool { return strings.Contains(s.without, "last ready pod") }); protect != c.protect || len(all) != c.lines {
				t.Errorf("got %+v", all)
			}
			for _, s := range all {
				for _, right := range s.rights {
					if !granted[right] {
						t.Errorf("docs/permissions does not allow to %s", describeRight(&right))
					}
				}
			}
		})
	}
}

// TestMissingPermissionsAreNamed checks that each missing permission is named, and each permission for which the server gives no answer.
func TestMissingPermissionsAreNamed(t *testing.T) {
	answers := map[string]int{"list services": http.StatusForbidden, "get statefulsets": http.StatusForbidden, "list events": http.StatusTeapot}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SelfSubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		status := answers[describeRight(review.Spec.ResourceAttributes)]
		if review.Status.Allowed = status == 0; status == http.StatusTeapot {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	got := (&Connection{Client: client}).DescribeOmittedParts(t.Context(), &record.Request{Strategy: record.Surge})
	want := []string{"you may not list services: the last ready pod behind a Service is evicted", "you may not get statefulsets: if such a workload", "the server did not say whether you may list events: if not, the upgrade cannot show why"}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got %q, want %q", got, want)
	}
}
