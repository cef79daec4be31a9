package container

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// answerWith returns a handler that answers with the statuses one after another, and then with a pool.
func answerWith(requests *atomic.Int32, header http.Header, statuses ...int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		n := int(requests.Add(1))
		if n > len(statuses) {
			_, _ = io.WriteString(w, `{"name":"web","version":"1.34"}`)
			return
		}
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(statuses[n-1])
		_, _ = io.WriteString(w, `{"error":{"message":"busy"}}`)
	}
}

func TestReadsAreRetried(t *testing.T) {
	for _, status := range []int{429, 500, 502, 503, 504} {
		var requests atomic.Int32
		client, clock := newClockedClient(t, answerWith(&requests, nil, status, status, status, status, status))
		pool, err := client.GetNodePool(t.Context(), testPool())
		if err != nil || pool.Version != "1.34" || requests.Load() != 6 {
			t.Errorf("%d: got %v, %v after %d requests", status, pool, err, requests.Load())
		}
		for i, wait := range clock.slept {
			if longest := 500 * time.Millisecond << i; wait < longest/2 || wait > longest {
				t.Errorf("%d: wait %d is %s", status, i, wait)
			}
		}
	}
}

func TestWaitsAreJitteredAndLimited(t *testing.T) {
	client := newTestClient(t, nil)
	for random, want := range map[float64][]time.Duration{
		0: {250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second},
		1: {500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 16 * time.Second},
	} {
		client.random = func() float64 { return random }
		var got []time.Duration
		for attempt := 1; attempt <= 7; attempt++ {
			got = append(got, client.chooseWait(attempt, &Error{}))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestReadsEndAfterSixAttempts(t *testing.T) {
	var requests atomic.Int32
	client, clock := newClockedClient(t, answerWith(&requests, nil, slices.Repeat([]int{503}, 20)...))
	_, err := client.GetNodePool(t.Context(), testPool())
	if ClassOf(err) != ClassUnavailable || requests.Load() != 6 || len(clock.slept) != 5 {
		t.Errorf("got %v after %d requests and %v", err, requests.Load(), clock.slept)
	}
}

func TestOtherAnswersAreNotRetried(t *testing.T) {
	for _, status := range []int{400, 403, 404, 409, 412, 501, 505} {
		var requests atomic.Int32
		client := newTestClient(t, answerWith(&requests, nil, status))
		if _, err := client.GetNodePool(t.Context(), testPool()); err == nil || requests.Load() != 1 {
			t.Errorf("%d: got %v after %d requests", status, err, requests.Load())
		}
	}
}

func TestWritesAreNeverRetried(t *testing.T) {
	for _, status := range []int{401, 429, 500, 502, 503, 504} {
		var requests atomic.Int32
		client, clock := newClockedClient(t, answerWith(&requests, http.Header{"Retry-After": {"7"}}, slices.Repeat([]int{status}, 9)...))
		operation := testPool().Operation("operation-1")
		_, update := client.UpdateNodePool(t.Context(), testPool(), UpdateNodePoolRequest{})
		_, rollback := client.RollbackNodePool(t.Context(), testPool(), RollbackNodePoolUpgradeRequest{})
		for _, err := range []error{update, rollback, client.CompleteNodePoolUpgrade(t.Context(), testPool()), client.CancelOperation(t.Context(), operation)} {
			if failure, ok := errors.AsType[*Error](err); !ok || failure.RetryAfter != 7*time.Second {
				t.Errorf("%d: got %v", status, err)
			}
		}
		if requests.Load() != 4 || len(clock.slept) != 0 {
			t.Errorf("%d: %d requests", status, requests.Load())
		}
	}
}

func TestReadIsSentAgainOnceWithANewToken(t *testing.T) {
	var requests atomic.Int32
	client := newTestClient(t, answerWith(&requests, nil, 401))
	if _, err := client.GetNodePool(t.Context(), testPool()); err != nil || requests.Load() != 2 {
		t.Errorf("got %v after %d requests", err, requests.Load())
	}
	requests.Store(0)
	client = newTestClient(t, answerWith(&requests, nil, 401, 401, 401))
	if _, err := client.GetNodePool(t.Context(), testPool()); ClassOf(err) != ClassUnauthenticated || requests.Load() != 2 {
		t.Errorf("got %v after %d requests", err, requests.Load())
	}
}

func TestRetryAfter(t *testing.T) {
	cases := map[string]struct {
		header string
		waits  bool
		want   time.Duration
	}{
		"seconds":              {"17", true, 17 * time.Second},
		"a date":               {"Thu, 01 Oct 2026 12:00:40 GMT", true, 40 * time.Second},
		"a date that is over":  {"Thu, 01 Oct 2026 11:00:00 GMT", true, 250 * time.Millisecond},
		"a negative number":    {"-5", true, 250 * time.Millisecond},
		"no number":            {"soon", true, 250 * time.Millisecond},
		"more than the limit":  {"61", false, 61 * time.Second},
		"a far date":           {"Fri, 01 Oct 2027 12:00:00 GMT", false, 365 * 24 * time.Hour},
		"more than an integer": {"99999999999999999999", true, 250 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			client, clock := newClockedClient(t, answerWith(&requests, http.Header{"Retry-After": {c.header}}, 429))
			client.random = func() float64 { return 0 }
			_, err := client.GetNodePool(t.Context(), testPool())
			if c.waits && (err != nil || !slices.Equal(clock.slept, []time.Duration{c.want})) {
				t.Errorf("got %v after %v", err, clock.slept)
			}
			if failure, ok := errors.AsType[*Error](err); !c.waits && (!ok || failure.RetryAfter != c.want || len(clock.slept) != 0) {
				t.Errorf("got %v after %v", err, clock.slept)
			}
		})
	}
}

func TestRetryInfoIsObeyed(t *testing.T) {
	requests := 0
	client, clock := newClockedClient(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12.5s"}]}}`)
			return
		}
		_, _ = io.WriteString(w, `{"name":"web"}`)
	})
	if _, err := client.GetNodePool(t.Context(), testPool()); err != nil || !slices.Equal(clock.slept, []time.Duration{12500 * time.Millisecond}) {
		t.Errorf("got %v after %v", err, clock.slept)
	}
}

// TestNoWaitAfterDeadline checks that a read fails at once if its context would end before the next attempt.
func TestNoWaitAfterDeadline(t *testing.T) {
	var requests atomic.Int32
	client, clock := newClockedClient(t, answerWith(&requests, http.Header{"Retry-After": {"30"}}, 503))
	clock.time = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := client.GetNodePool(ctx, testPool())
	if ClassOf(err) != ClassUnavailable || len(clock.slept) != 0 || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v after %v", err, clock.slept)
	}
}

func TestLostConnectionsAreRetried(t *testing.T) {
	var requests atomic.Int32
	cut := func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 1 {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"name":"web"`)
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"name":"web"}`)
	}
	client := newTestClient(t, cut)
	if _, err := client.GetNodePool(t.Context(), testPool()); err != nil || requests.Load() != 2 {
		t.Errorf("got %v after %d requests", err, requests.Load())
	}
	_, err := client.UpdateNodePool(t.Context(), testPool(), UpdateNodePoolRequest{})
	failure, ok := errors.AsType[*Error](err)
	if !ok || failure.Class != ClassUnavailable || failure.Outcome() != nodegroup.OutcomeUnclear || requests.Load() != 3 {
		t.Errorf("got %v after %d requests", err, requests.Load())
	}
}

func TestUnsentWriteHadNoEffect(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	client, err := New(Options{Token: staticToken(secret), Endpoint: "http://" + listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.UpdateNodePool(t.Context(), testPool(), UpdateNodePoolRequest{})
	failure, ok := errors.AsType[*Error](err)
	if !ok || failure.Class != ClassUnavailable || failure.Outcome() != nodegroup.OutcomeLater || errors.Unwrap(err) == nil {
		t.Errorf("got %v", err)
	}
}

func TestUnknownCertificateIsRefused(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer server.Close()
	server.Config.ErrorLog = nil
	client, err := New(Options{Token: staticToken(secret), Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.GetNodePool(t.Context(), testPool())
	if ClassOf(err) != ClassUnexpected || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}

func TestLargeAnswersAreRefused(t *testing.T) {
	if got := defaultLimits().size; got != 32<<20 {
		t.Errorf("the limit is %d bytes", got)
	}
	pool := func(size int) string { return `{"name":"` + strings.Repeat("a", size-len(`{"name":""}`)) + `"}` }
	for name, compressed := range map[string]bool{"plain": false, "compressed": true} {
		t.Run(name, func(t *testing.T) {
			size, requests := 1<<20, 0
			client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				if !compressed {
					_, _ = io.WriteString(w, pool(size))
					return
				}
				if r.Header.Get("Accept-Encoding") != "gzip" {
					t.Errorf("Accept-Encoding is %q", r.Header.Get("Accept-Encoding"))
				}
				w.Header().Set("Content-Encoding", "gzip")
				packed := gzip.NewWriter(w)
				_, _ = io.WriteString(packed, pool(size))
				_ = packed.Close()
			})
			client.limits.size = int64(size)
			if _, err := client.GetNodePool(t.Context(), testPool()); err != nil {
				t.Errorf("an answer of the largest size: %v", err)
			}
			size++
			_, err := client.GetNodePool(t.Context(), testPool())
			if ClassOf(err) != ClassUnexpected || !strings.Contains(err.Error(), "larger than 1 MiB") || requests != 2 {
				t.Errorf("got %v after %d requests", err, requests)
			}
		})
	}
}

func TestCancelledContextEndsASlowAnswer(t *testing.T) {
	ended := make(chan struct{}, 2)
	client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"name":"`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the client has closed the connection
		ended <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := client.UpdateNodePool(ctx, testPool(), UpdateNodePoolRequest{})
	failure, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, context.Canceled) || failure.Outcome() != nodegroup.OutcomeUnclear || !strings.Contains(err.Error(), "no answer from the GKE API in time") {
		t.Errorf("got %v", err)
	}
	<-ended
	client.limits.answer = 50 * time.Millisecond
	client.limits.attempts = 1
	if _, err = client.GetNodePool(t.Context(), testPool()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "within 50ms") {
		t.Errorf("got %v", err)
	}
	<-ended
}

func TestEndedContextSendsNothing(t *testing.T) {
	client := newTestClient(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.UpdateNodePool(ctx, testPool(), UpdateNodePoolRequest{})
	if failure, ok := errors.AsType[*Error](err); !ok || failure.Outcome() != nodegroup.OutcomeLater {
		t.Errorf("got %v", err)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	if err := sleep(t.Context(), time.Nanosecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
