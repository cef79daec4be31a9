package cluster

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// connectTo connects to a server whose answers come from the handler, except for its version.
func connectTo(t *testing.T, answer http.HandlerFunc) Connection {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = io.WriteString(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := Connect(t.Context(), &rest.Config{Host: server.URL}, "test", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFailedWatchesAreReported uses a server that lists all kinds and refuses every watch. Every watcher must get the error;
// client-go would retry silently.
func TestFailedWatchesAreReported(t *testing.T) {
	t.Parallel()
	c := connectTo(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		kinds := map[string]string{"nodes": "NodeList", "pods": "PodList", "namespaces": "NamespaceList", "services": "ServiceList"}
		version, name := "v1", r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if name == "poddisruptionbudgets" {
			kinds[name], version = "PodDisruptionBudgetList", "policy/v1"
		}
		if kinds[name] == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"`+kinds[name]+`","apiVersion":"`+version+`","metadata":{"resourceVersion":"5"},"items":[]}`)
	})
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	w, err := WatchCluster(ctx, c.Client, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-w.Failures():
		if !strings.Contains(err.Error(), "watching ") {
			t.Errorf("it was told %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("no failure is told")
	}
}

// TestWatchFailsIfServerNeverAnswersLists uses a server that answers no list. The error must come long before the time limit of the first view.
func TestWatchFailsIfServerNeverAnswersLists(t *testing.T) {
	t.Parallel()
	c := connectTo(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) })
	began := time.Now()
	_, err := watchClusterWithin(t.Context(), c.Client, time.Now, 40*time.Second)
	if took := time.Since(began); err == nil || took > 30*time.Second || !strings.Contains(err.Error(), "it has failed for") {
		t.Errorf("after %s: %v", took, err)
	}
}

// TestElectionEndsIfLeaseCannotBeWritten: the lease is free, and the dry run of a write succeeds, but every real write fails. The
// election's error contains the server's reason.
func TestElectionEndsIfLeaseCannotBeWritten(t *testing.T) {
	t.Parallel()
	const lease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"l","namespace":"kube-system","resourceVersion":"5"},"spec":{}}`
	c := connectTo(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.Method == http.MethodGet, r.URL.Query().Get("dryRun") != "":
			_, _ = io.WriteString(w, lease)
		default:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"failed calling webhook \"guard\"","code":500}`)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	times := leaseTimes{duration: 3 * time.Second, renew: 500 * time.Millisecond, giveUp: 2 * time.Second}
	hold, err := acquireWithTimes(ctx, c.Client, Claim{Namespace: "kube-system", Group: "blue", Identity: "me"}, times)
	if hold != nil {
		hold.Release()
	}
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), `failed calling webhook "guard"`) {
		t.Errorf("it ended with %v", err)
	}
}

// TestLeaseIsTestedAgainWithNewCredentials: the credentials expire before the dry run that tests whether the lease may be written. The
// next request has newer ones.
func TestLeaseIsTestedAgainWithNewCredentials(t *testing.T) {
	t.Parallel()
	for refusals, want := range map[int64]bool{1: true, 100: false} {
		var left atomic.Int64
		left.Store(refusals)
		c := connectTo(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet && left.Add(-1) >= 0 {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"expired","reason":"Unauthorized","code":401}`)
				return
			}
			_, _ = io.WriteString(w, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"l","namespace":"kube-system","resourceVersion":"5"},"spec":{}}`)
		})
		found, err := prepareLease(t.Context(), c.Client, Claim{Namespace: "kube-system", Group: "blue", Identity: "me"})
		if taken := err == nil && found != nil; taken != want {
			t.Errorf("after %d refusals: lease %v, error %v", refusals, found, err)
		}
	}
}
