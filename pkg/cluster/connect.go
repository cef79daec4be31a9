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

// requestsPerSecond is the client's rate limit. client-go's default of 5 would slow down every
// node. The API server protects itself with priority and fairness.
const requestsPerSecond = 200

// Connection is a client of an API server that has answered.
type Connection struct {
	Client kubernetes.Interface
	// Server is its address, and Version its version, e.g. "v1.36.3".
	Server, Version string
	clock           *serverClock
	written         *atomic.Bool
}

// HasWritten reports whether a request was sent that may have changed something.
func (c *Connection) HasWritten() bool { return c.written != nil && c.written.Load() }

// Now returns the API server's time, accurate to a few seconds. Every time in the record, and every
// time that is compared with it, uses this clock, because the next process may run on another
// machine.
func (c *Connection) Now() time.Time { return c.clock.Now() }

// Connect returns a client. It asks the server for its version, so that an unreachable server is
// reported immediately.
func Connect(ctx context.Context, config *rest.Config, userAgent string, warnings io.Writer) (Connection, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	config.QPS, config.Burst = requestsPerSecond, 2*requestsPerSecond
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	clock, written := newServerClock(), &atomic.Bool{}
	config.Wrap(deadline.Transport)
	config.Wrap(clock.observeAnswers)
	config.Wrap(recordWrites(written))
	config.Wrap(retryReads)
	config.Wrap(limitRetryAfter)
	config.Wrap(failWatches)
	config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	client, err := newClient(config)
	if err != nil {
		return Connection{}, fmt.Errorf("connecting to the API server at %s: %w: %s", config.Host, err, remedyForConnecting(config, err))
	}
	info, err := discovery.ToDiscoveryInterfaceWithContext(client.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return Connection{}, fmt.Errorf("reaching the API server at %s: %w: %s", config.Host, err, remedyForConnecting(config, err))
	}
	return Connection{Client: client, Server: config.Host, Version: info.GitVersion, clock: clock, written: written}, nil
}

// remedyForConnecting returns what the user should do so that the server can be reached.
func remedyForConnecting(config *rest.Config, err error) string {
	_, isUntrusted := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case apierrors.IsUnauthorized(err):
		return renewCredentials
	case !isUntrusted && !strings.Contains(err.Error(), "unable to load root certificates"): // client-go has no error type for this
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
	http.Transport = retryUnauthorized(http.Transport) // the wrapper must be outermost, so that the credential plugin adds the newer credentials
	return kubernetes.NewForConfigAndClient(config, http)
}

// retryUnauthorized repeats a read once if the answer is 401. After a 401 the credential plugin asks for newer
// credentials, but client-go still returns the 401 (plugin/pkg/client/auth/exec). So credentials that expire during an
// upgrade cause no failure.
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

// recordWrites returns a wrapper that sets written before the first request that may change
// something.
func recordWrites(written *atomic.Bool) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && !isReadRequest(r) && r.URL.Query().Get("dryRun") == "" {
				written.Store(true)
			}
			return next.RoundTrip(r)
		})
	}
}

// retryReads makes client-go repeat reads that fail with a server error. client-go repeats only
// requests whose answer asks for it with Retry-After (rest/with_retry.go), and neither a 500 nor a
// failing proxy does. Watches are left out, since their informers open them again.
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

// retryAfterLimit is the longest pause before a retry that a server may ask for. client-go silently
// repeats a request up to ten times (rest/request.go). With this limit the caller gets the server's
// answer after 30 s.
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

// failWatches makes watches fail that are answered with 429. client-go would open them again
// forever without reporting it (tools/cache/reflector.go, isWatchErrorRetriable), and the known
// state of the cluster would grow old unnoticed. The informers open failed watches again by
// themselves.
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

// isReadRequest reports whether the request changes nothing and is answered immediately. An access
// review is a read, too.
func isReadRequest(r *http.Request) bool {
	question := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews")
	return question || (r.Method == http.MethodGet && r.URL.Query().Get("watch") == "")
}
