package plugin

import (
	"net/http"
	"strings"
)

// retryReads has client-go repeat reads that a server in trouble answers: it repeats requests that
// the server asks to have repeated (client-go, rest/with_retry.go), which one that fails with 500
// or stands behind a failing proxy does not ask for. A watch is opened again by those who watch.
func retryReads(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil || !isReadRequest(r) || response.Header.Get("Retry-After") != "" {
			return response, err
		}
		switch response.StatusCode {
		case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			response.Header.Set("Retry-After", "1")
		}
		return response, nil
	})
}

// roundTripper is a function that carries out requests.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// isReadRequest reports whether the request changes nothing and is answered at once; a review is a
// question, too.
func isReadRequest(r *http.Request) bool {
	question := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews")
	return question || (r.Method == http.MethodGet && r.URL.Query().Get("watch") == "")
}
