package cluster

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestUnauthorizedRequestIsRetriedOnce(t *testing.T) {
	cases := map[string]struct {
		method  string
		answers []int
		want    int
	}{
		"credentials that ended on the way":   {http.MethodGet, []int{401, 200}, 200},
		"credentials that are wrong":          {http.MethodGet, []int{401, 401, 200}, 401},
		"an eviction is left to the engine":   {http.MethodPost, []int{401, 201}, 401},
		"a missing permission is an answer":   {http.MethodGet, []int{403, 200}, 403},
		"credentials that the server accepts": {http.MethodGet, []int{200, 500}, 200},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			transport := retryUnauthorized(roundTripper(func(*http.Request) (*http.Response, error) {
				recorder := httptest.NewRecorder()
				recorder.WriteHeader(c.answers[0])
				c.answers = c.answers[1:]
				return recorder.Result(), nil
			}))
			response, err := transport.RoundTrip(httptest.NewRequest(c.method, "/api/v1/nodes", http.NoBody))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != c.want {
				t.Errorf("answered %d, want %d", response.StatusCode, c.want)
			}
		})
	}
}

func TestWriteRequestsAreDetected(t *testing.T) {
	for request, want := range map[string]bool{
		"GET /api/v1/nodes": false, "GET /api/v1/nodes?watch=true": false, "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": false,
		"POST /api/v1/namespaces/shop/pods?dryRun=All": false, "POST /api/v1/namespaces/shop/pods/web-0/eviction": true,
		"PATCH /api/v1/nodes/a": true, "PUT /api/v1/namespaces/kube-system/configmaps/a": true, "DELETE /api/v1/nodes/a": true,
	} {
		var written atomic.Bool
		transport := recordWrites(&written)(roundTripper(func(*http.Request) (*http.Response, error) { return httptest.NewRecorder().Result(), nil }))
		method, target, _ := strings.Cut(request, " ")
		response, err := transport.RoundTrip(httptest.NewRequest(method, target, http.NoBody))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if written.Load() != want {
			t.Errorf("%s: noted as a write: %t, want %t", request, written.Load(), want)
		}
	}
}

func TestFailedReadsGetRetryAfterHeader(t *testing.T) {
	cases := map[string]struct {
		method, target string
		status         int
		asked          string // Retry-After in the server's answer
		want           string
	}{
		"a list that fails":              {http.MethodGet, "/api/v1/nodes?limit=1000", 500, "", "1"},
		"a gateway without a server":     {http.MethodGet, "/api/v1/nodes", 502, "", "1"},
		"a server that is starting":      {http.MethodGet, "/version", 503, "", "1"},
		"the server's own wish":          {http.MethodGet, "/api/v1/nodes", 503, "7", "7"},
		"a question about permissions":   {http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 504, "", "1"},
		"an eviction may have been done": {http.MethodPost, "/api/v1/namespaces/shop/pods/web-0/eviction", 500, "", ""},
		"a watch is opened by others":    {http.MethodGet, "/api/v1/nodes?watch=true", 500, "", ""},
		"not found is an answer":         {http.MethodGet, "/api/v1/nodes/a", 404, "", ""},
		"a list":                         {http.MethodGet, "/api/v1/nodes", 200, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			transport := retryReads(roundTripper(func(*http.Request) (*http.Response, error) {
				recorder := httptest.NewRecorder()
				if c.asked != "" {
					recorder.Header().Set("Retry-After", c.asked)
				}
				recorder.WriteHeader(c.status)
				return recorder.Result(), nil
			}))
			response, err := transport.RoundTrip(httptest.NewRequest(c.method, c.target, http.NoBody))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got := response.Header.Get("Retry-After"); got != c.want {
				t.Errorf("Retry-After %q, want %q", got, c.want)
			}
		})
	}
}
