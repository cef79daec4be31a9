package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
)

// TestLongRetryAfterIsShortened uses a server that asks for a pause of ten years, either once for each request or in every answer except
// the first. The request must be repeated soon, or the server's answer returned.
func TestLongRetryAfterIsShortened(t *testing.T) {
	requests := map[string]func(context.Context, Connection) error{
		"the version": func(context.Context, Connection) error { return nil }, // Connect has asked for it
		"a read": func(ctx context.Context, c Connection) error {
			_, err := c.Client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
			return err
		},
		"a list": func(ctx context.Context, c Connection) error {
			return listAll(ctx, c.Client.CoreV1().RESTClient(), "nodes", func(metav1.Object) {})
		},
		"a watch": func(ctx context.Context, c Connection) error {
			w, err := c.Client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
			if err == nil {
				w.Stop()
			}
			return err
		},
		"a patch": func(ctx context.Context, c Connection) error {
			_, err := c.Client.CoreV1().Nodes().Patch(ctx, "n1", types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{})
			return err
		},
		"a lease": func(ctx context.Context, c Connection) error {
			_, err := c.Client.CoordinationV1().Leases("kube-system").Get(ctx, "l", metav1.GetOptions{})
			return err
		},
		"a budget": func(ctx context.Context, c Connection) error {
			return listAll(ctx, c.Client.CoreV1().RESTClient(), "poddisruptionbudgets", func(metav1.Object) {})
		},
		"an eviction": func(ctx context.Context, c Connection) error {
			return Evict(ctx, c.Client, schedule.Eviction{Namespace: "shop", Pod: "web-0", UID: "u"}, metav1.DeleteOptions{})
		},
	}
	for name, send := range requests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&retryAfterServer{asked: map[string]bool{}})
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			c, err := Connect(ctx, &rest.Config{Host: server.URL}, "test", io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if err = send(ctx, c); errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				t.Errorf("it waited until its context ended: %v", err)
			}
		})
	}
}

// retryAfterServer answers the first try of each request with 429 and a Retry-After of ten years.
type retryAfterServer struct {
	mu    sync.Mutex
	asked map[string]bool
}

func (s *retryAfterServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	again := s.asked[r.URL.Path]
	s.asked[r.URL.Path] = true
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !again:
		w.Header().Set("Retry-After", "315360000")
		w.WriteHeader(http.StatusTooManyRequests)
	case r.URL.Path == "/version":
		_, _ = io.WriteString(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
