package hostile_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

const path = "/api/v1/nodes/n1"

// all returns a plan that disturbs every request.
func all(h hostile.Harm) hostile.Plan {
	h.Share = 1
	return hostile.Plan{Harms: []hostile.Harm{h}}
}

func TestProxyWithoutFaultsPassesRequests(t *testing.T) {
	o, front, client := before(t, hostile.Plan{})
	if err := client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).Param("x", "1").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	seen := o.requests()
	if len(seen) != 1 || seen[0].Method != http.MethodPatch || seen[0].RequestURI != path+"?x=1" {
		t.Fatalf("the server saw %v", seen)
	}
	if !seen[0].TLS.PeerCertificates[0].Equal(o.Certificate()) {
		t.Error("the front did not log in with the kubeconfig's certificate")
	}
	if seen[0].Header.Get("Authorization") != "" {
		t.Error("the front's own token went on to the server")
	}
	if tally := front.Tally(); tally.Harmed() != 0 || tally.Asked() != 1 || tally.Writes["PATCH "+path] != 1 {
		t.Errorf("tally %+v", tally)
	}
}

func TestProxyRejectsClientsWithAnotherToken(t *testing.T) {
	o, front, _ := before(t, hostile.Plan{})
	config := rest.CopyConfig(configOf(t, front))
	config.BearerToken = "another"
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(front.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized || len(o.requests()) != 0 {
		t.Errorf("answered %s, and the server saw %d requests", response.Status, len(o.requests()))
	}
}

// TestProxyRejectsTokensThatBecameInvalid uses a token that becomes invalid during the test.
func TestProxyRejectsTokensThatBecameInvalid(t *testing.T) {
	o, front, client := before(t, hostile.Plan{})
	good := true
	front.Admit(func(string) bool { return good })
	if err := ask(t, client, "GET", path); err != nil || len(o.requests()) != 1 {
		t.Errorf("a good token: %v, and the server saw %d requests", err, len(o.requests()))
	}
	good = false
	if err := ask(t, client, "PUT", path); !apierrors.IsUnauthorized(err) || len(o.requests()) != 1 {
		t.Errorf("a bad token: %v, and the server saw %d requests", err, len(o.requests()))
	}
}

func TestProxyAnswersWithInjectedErrors(t *testing.T) {
	cases := map[int]func(error) bool{
		http.StatusInternalServerError: apierrors.IsInternalError,
		http.StatusServiceUnavailable:  apierrors.IsServiceUnavailable,
		http.StatusGatewayTimeout:      apierrors.IsTimeout,
		http.StatusUnauthorized:        apierrors.IsUnauthorized,
		http.StatusForbidden:           apierrors.IsForbidden,
		http.StatusConflict:            apierrors.IsConflict,
		http.StatusTooManyRequests:     apierrors.IsTooManyRequests,
	}
	for status, is := range cases {
		t.Run(http.StatusText(status), func(t *testing.T) {
			o, front, client := before(t, all(hostile.Harm{Status: status}))
			if err := ask(t, client, "PUT", path); !is(err) {
				t.Errorf("answered %v", err)
			}
			if seen := o.requests(); len(seen) != 0 {
				t.Errorf("the server saw %v", seen)
			}
			if got, want := front.Tally().Harms, map[string]int{fmt.Sprint(status): 1}; !maps.Equal(got, want) {
				t.Errorf("harms %v, want %v", got, want)
			}
		})
	}
}

// TestInjected429DiffersFromBudgetRefusal: an injected 429 has the headers and the text of the API
// server's Priority and Fairness.
func TestInjected429DiffersFromBudgetRefusal(t *testing.T) {
	_, front, client := before(t, all(hostile.Harm{Status: http.StatusTooManyRequests, RetryAfter: 3 * time.Second}))
	err := ask(t, client, "POST", "/api/v1/namespaces/default/pods/p/eviction")
	if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 3 {
		t.Errorf("told to wait %d s, want 3: %v", seconds, err)
	}
	if apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("it looks like a budget's refusal: %v", err)
	}
	httpClient, err := rest.HTTPClientFor(configOf(t, front))
	if err != nil {
		t.Fatal(err)
	}
	response, err := httpClient.Get(front.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID"} {
		if response.Header.Get(header) == "" {
			t.Errorf("no header %s", header)
		}
	}
	if string(body) != "Too many requests, please try again later.\n" {
		t.Errorf("it says %q", body)
	}
}

func TestRequestsAreClassifiedAsReadWriteOrWatch(t *testing.T) {
	cases := map[string]struct{ write, watch, read bool }{
		"GET /api/v1/nodes":            {read: true},
		"GET /api/v1/nodes?watch=true": {watch: true},
		"GET /api/v1/nodes?watch=0":    {read: true},
		"POST /api/v1/nodes":           {write: true},
		"PUT " + path:                  {write: true},
		"PATCH " + path:                {write: true},
		"DELETE " + path:               {write: true},
		"PUT " + path + "?dryRun=All":  {},
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews":       {},
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews?x=yes": {},
	}
	for line, want := range cases {
		t.Run(line, func(t *testing.T) {
			var method, target string
			if _, err := fmt.Sscan(line, &method, &target); err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(t.Context(), method, target, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := struct{ write, watch, read bool }{hostile.Write(r), hostile.Watch(r), hostile.Read(r)}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestCloseStopsProxyAndDeletesKubeconfig(t *testing.T) {
	_, front, client := before(t, hostile.Plan{})
	front.Close()
	if err := ask(t, client, "GET", path); err == nil {
		t.Error("it still answers")
	}
	if _, err := os.Stat(front.Kubeconfig); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}
}
