package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

const (
	// DefaultEndpoint is Google's endpoint of the API.
	DefaultEndpoint = "https://container.googleapis.com/"
	// EndpointVariable is gcloud's environment variable for another endpoint.
	EndpointVariable = "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER"
)

// parseEndpoint returns the URL of an endpoint, with a slash at its end. The access token is sent there, so the scheme must be
// https, or http for this machine.
func parseEndpoint(text string) (*url.URL, error) {
	endpoint, err := url.Parse(text)
	const remedy = "set " + EndpointVariable + " to a URL such as " + DefaultEndpoint
	switch {
	case err != nil: // err repeats the text, which may contain a password
		return nil, errors.New("reading the endpoint of the GKE API: not a URL: " + remedy)
	case endpoint.User != nil || endpoint.RawQuery != "" || endpoint.ForceQuery || endpoint.Fragment != "":
		return nil, errors.New("reading the endpoint of the GKE API: a user, query or fragment is not allowed: " + remedy)
	case endpoint.Hostname() == "":
		return nil, fmt.Errorf("reading the endpoint of the GKE API: %q has no host: %s", text, remedy)
	case endpoint.Scheme != "https" && (endpoint.Scheme != "http" || !isLoopback(endpoint.Hostname())):
		return nil, fmt.Errorf("reading the endpoint of the GKE API: the access token would be sent to %s without encryption: %s", endpoint.Host, remedy)
	}
	return endpoint.JoinPath("/"), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

var (
	errOtherHost = errors.New("a request with an access token was about to leave for another host")
	errNoToken   = errors.New("the credentials contain no access token")
)

// guard is the innermost transport. It passes requests on only to the scheme and host of the endpoint, and only with a token.
type guard struct {
	endpoint *url.URL
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	err := r.Context().Err()
	if progress := progressOf(r.Context()); progress != nil && err == nil {
		progress.signed.Store(true)
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		progress.token.Store(&token)
	}
	switch {
	case err != nil:
	case r.URL.Scheme != g.endpoint.Scheme || r.URL.Host != g.endpoint.Host || r.Host != "" && r.Host != g.endpoint.Host:
		err = errOtherHost
	case r.Header.Get("Authorization") == "":
		err = errNoToken
	default:
		return g.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // the next transport does not get it, so it cannot close it
	}
	return nil, err
}

// progress is how far a request got. The transports set it.
type progress struct {
	// signed means that the credentials were added.
	signed atomic.Bool
	// sent means that the server may have the request.
	sent atomic.Bool
	// token is the access token of the request. Errors must not contain it.
	token atomic.Pointer[string]
}

// secret returns the access token of the request, or "" if the request has none yet.
func (p *progress) secret() string {
	if token := p.token.Load(); token != nil {
		return *token
	}
	return ""
}

type progressKey struct{}

func progressOf(ctx context.Context) *progress {
	p, _ := ctx.Value(progressKey{}).(*progress)
	return p
}
