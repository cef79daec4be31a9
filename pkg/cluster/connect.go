package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/deadline"
)

// requestsPerSecond is the client's own limit. client-go's default of 5 would be felt on every
// node; what protects the API server is its priority and fairness, not a guess made here.
const requestsPerSecond = 200

// Connection is an API server that has answered.
type Connection struct {
	Client kubernetes.Interface
	// Server is its address, and Version what it runs, e.g. "v1.36.3".
	Server, Version string
	clock           *serverClock
	written         *atomic.Bool
}

// HasWritten reports whether a request was sent that may have changed something.
func (c *Connection) HasWritten() bool { return c.written != nil && c.written.Load() }

// Now returns the API server's time, as far as its answers tell: to a few seconds. Whatever is on
// record, or is compared with it, goes by this clock: the next process may run on another machine.
func (c *Connection) Now() time.Time { return c.clock.Now() }

// Connect makes a client and asks the server for its version, so that one that cannot be reached
// is told at once.
func Connect(ctx context.Context, config *rest.Config, userAgent string, warnings io.Writer) (Connection, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	config.QPS, config.Burst = requestsPerSecond, 2*requestsPerSecond
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	clock, written := newServerClock(), &atomic.Bool{}
	config.Wrap(deadline.Transport)
	config.Wrap(clock.observeAnswers)
	config.Wrap(noteWrites(written))
	config.Wrap(retryReads)
	config.Wrap(limitRetryAfter)
	config.Wrap(failWatches)
	config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	client, err := newClient(config)
	if err != nil {
		return Connection{}, fmt.Errorf("connecting to the API server at %s: %w: %s", config.Host, err, adviseConnecting(config, err))
	}
	info, err := discovery.ToDiscoveryInterfaceWithContext(client.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return Connection{}, fmt.Errorf("reaching the API server at %s: %w: %s", config.Host, err, adviseConnecting(config, err))
	}
	return Connection{Client: client, Server: config.Host, Version: info.GitVersion, clock: clock, written: written}, nil
}

// adviseConnecting returns what to change so that the server can be reached, in the imperative.
func adviseConnecting(config *rest.Config, err error) string {
	_, isUntrusted := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case apierrors.IsUnauthorized(err):
		return renewCredentials
	case !isUntrusted && !strings.Contains(err.Error(), "unable to load root certificates"): // client-go has no type for it
		return "check --context and the network"
	case config.CAFile != "":
		return "check certificate-authority of the cluster in the kubeconfig"
	default:
		return "check certificate-authority-data of the cluster in the kubeconfig"
	}
}

func newClient(config *rest.Config) (kubernetes.Interface, error) {
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	http.Transport = retryUnauthorized(http.Transport) // around the credential plugin, so that it adds the newer credentials
	return kubernetes.NewForConfigAndClient(config, http)
}

// retryUnauthorized repeats a read once that is answered 401: a credential plugin then asks for
// newer credentials and hands the answer on (client-go, plugin/pkg/client/auth/exec). Credentials
// that end on the way are no failure.
func retryUnauthorized(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusUnauthorized || r.Method != http.MethodGet {
			return response, err
		}
		response.Body.Close()
		return next.RoundTrip(r)
	})
}

// noteWrites returns a wrapper that sets written with the first request that may change something.
func noteWrites(written *atomic.Bool) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && !isReadRequest(r) && r.URL.Query().Get("dryRun") == "" {
				written.Store(true)
			}
			return next.RoundTrip(r)
		})
	}
}

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

// retryAfterLimit is the longest pause before a request is repeated that a server may ask for.
// client-go repeats a request up to ten times in silence (rest/request.go): with this limit that is
// over after 30 s, and the caller gets the server's answer.
const retryAfterLimit = 3 * time.Second

// limitRetryAfter shortens the pauses that servers ask for.
func limitRetryAfter(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil {
			return response, err
		}
		seconds, unread := strconv.Atoi(response.Header.Get("Retry-After"))
		if limit := int(retryAfterLimit.Seconds()); unread == nil && seconds > limit {
			response.Header.Set("Retry-After", strconv.Itoa(limit))
		}
		return response, nil
	})
}

// failWatches has watches that are answered 429 fail. client-go would open them again without an end
// and without a word (tools/cache/reflector.go, isWatchErrorRetriable), while nobody sees that what is
// known of the cluster grows old. Those who watch try again by themselves.
func failWatches(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && response.StatusCode == http.StatusTooManyRequests && r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" {
			response.Body.Close()
			response.StatusCode, response.Status = http.StatusServiceUnavailable, "503 Service Unavailable"
			response.Body, response.ContentLength = io.NopCloser(strings.NewReader("the server turned the watch away: 429 Too Many Requests")), -1
			response.Header = http.Header{"Content-Type": {"text/plain"}}
		}
		return response, err
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
