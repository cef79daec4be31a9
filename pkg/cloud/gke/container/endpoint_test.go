package container

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEndpoints(t *testing.T) {
	cases := map[string]struct{ want, err string }{
		"https://container.googleapis.com/":                {want: "https://container.googleapis.com/"},
		"https://europe-west1-container.googleapis.com":    {want: "https://europe-west1-container.googleapis.com/"},
		"https://proxy.example/gke":                        {want: "https://proxy.example/gke/"},
		"http://127.0.0.1:8080":                            {want: "http://127.0.0.1:8080/"},
		"http://localhost:8080/":                           {want: "http://localhost:8080/"},
		"http://[::1]:8080":                                {want: "http://[::1]:8080/"},
		"http://container.googleapis.com/":                 {err: "without encryption"},
		"http://10.0.0.1/":                                 {err: "without encryption"},
		"http://127.0.0.1.example.com/":                    {err: "without encryption"},
		"http://localhost.example.com/":                    {err: "without encryption"},
		"ftp://127.0.0.1/":                                 {err: "without encryption"},
		"container.googleapis.com":                         {err: "has no host"},
		"//container.googleapis.com":                       {err: "without encryption"},
		"https:///v1":                                      {err: "has no host"},
		"https://user:hunter2@container.googleapis.com/":   {err: "not allowed"},
		"https://container.googleapis.com/?key=hunter2":    {err: "not allowed"},
		"https://container.googleapis.com/#hunter2":        {err: "not allowed"},
		"https://user:hunter2@container.googleapis.com:x/": {err: "not a URL"},
	}
	for text, c := range cases {
		t.Run(text, func(t *testing.T) {
			got, err := parseEndpoint(text)
			switch {
			case c.err == "" && (err != nil || got.String() != c.want):
				t.Errorf("got %v, %v", got, err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), EndpointVariable)):
				t.Errorf("got %v, %v", got, err)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("the error contains a password: %v", err)
			}
		})
	}
}

func TestEndpointComesFromEnvironment(t *testing.T) {
	for variable, want := range map[string]string{"": DefaultEndpoint, "https://proxy.example/gke": "https://proxy.example/gke/"} {
		t.Setenv(EndpointVariable, variable)
		client, err := New(Options{Token: staticToken(secret)})
		if err != nil || client.endpoint.String() != want {
			t.Errorf("got %v, %v", client, err)
		}
	}
	t.Setenv(EndpointVariable, "http://proxy.example/")
	if _, err := New(Options{Token: staticToken(secret)}); err == nil {
		t.Error("the token would be sent without encryption")
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a client without credentials was opened")
	}
}

// TestTokenStaysAtItsHost redirects requests to other servers and to the same one.
func TestTokenStaysAtItsHost(t *testing.T) {
	asked := 0
	other := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked++
		t.Errorf("the other server was asked, with the header %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{other.URL + "/v1/x", "http://" + strings.TrimPrefix(other.URL, "https://"), "//" + strings.TrimPrefix(other.URL, "https://"), "/v1/loop", "%zz", ""} {
			requests := 0
			client := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			_, read := client.GetNodePool(t.Context(), testPool())
			_, write := client.UpdateNodePool(t.Context(), testPool(), UpdateNodePoolRequest{})
			for _, err := range []error{read, write} {
				if ClassOf(err) != ClassUnexpected || !strings.Contains(err.Error(), "redirected") {
					t.Errorf("%d to %q: %v", status, to, err)
				}
			}
			if requests != 2 {
				t.Errorf("%d to %q: %d requests", status, to, requests)
			}
		}
	}
	if asked != 0 {
		t.Errorf("the other server was asked %d times", asked)
	}
}

// straying is a Token whose transport sends requests elsewhere.
type straying struct {
	staticToken
	change func(*http.Request)
}

func (s straying) Wrap(next http.RoundTripper) (http.RoundTripper, error) {
	return roundTripFunc(func(r *http.Request) (*http.Response, error) {
		r.Header.Set("Authorization", "Bearer "+secret)
		s.change(r)
		return next.RoundTrip(r)
	}), nil
}

func TestGuardRefusesOtherHosts(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"scheme":      func(r *http.Request) { r.URL.Scheme = "http" },
		"host":        func(r *http.Request) { r.URL.Host = "example.com" },
		"port":        func(r *http.Request) { r.URL.Host = "container.googleapis.com:8443" },
		"Host header": func(r *http.Request) { r.Host = "example.com" },
	} {
		t.Run(name, func(t *testing.T) {
			client, err := New(Options{Token: straying{change: change}, Endpoint: DefaultEndpoint, Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
				t.Errorf("a request was sent to %s", r.URL)
				return nil, http.ErrServerClosed
			})})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.UpdateNodePool(t.Context(), testPool(), UpdateNodePoolRequest{}); ClassOf(err) != ClassUnauthenticated {
				t.Error(err)
			}
		})
	}
}
