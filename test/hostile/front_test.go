package hostile_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

// soon is the time limit for everything that must happen.
const soon = 10 * time.Second

func TestConnectionsAreDropped(t *testing.T) {
	cases := map[string]struct {
		drop hostile.Drop
		seen int
		harm string
	}{
		"before the effect": {hostile.BeforeEffect, 0, "dropped before the effect"},
		"after the effect":  {hostile.AfterEffect, 1, "dropped after the effect"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, front, client := before(t, all(hostile.Harm{Drop: c.drop}))
			err := ask(t, client, "POST", "/api/v1/nodes")
			if status := apierrors.APIStatus(nil); err == nil || errors.As(err, &status) {
				t.Errorf("the client got %v, want a closed connection", err)
			}
			if seen := o.requests(); len(seen) != c.seen {
				t.Errorf("the server saw %d requests, want %d", len(seen), c.seen)
			}
			if harms := front.Tally().Harms; harms[c.harm] != 1 || len(harms) != 1 {
				t.Errorf("harms %v", harms)
			}
		})
	}
}

func TestProxyDelaysRequests(t *testing.T) {
	const delay = 100 * time.Millisecond
	o, front, client := before(t, all(hostile.Harm{Delay: delay}))
	began := time.Now()
	if err := ask(t, client, "GET", path); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < delay || len(o.requests()) != 1 || front.Tally().Harms["delayed"] != 1 {
		t.Errorf("answered after %s, the server saw %d requests, tally %+v", took, len(o.requests()), front.Tally())
	}
}

func TestFaultsHitOnlySelectedRequests(t *testing.T) {
	_, _, client := before(t, hostile.Plan{Harms: []hostile.Harm{
		{Share: 1, To: hostile.Write, Status: http.StatusServiceUnavailable},
		{Share: 1, To: hostile.Read, Status: http.StatusConflict},
	}})
	if err := ask(t, client, "PUT", path); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a write was answered %v", err)
	}
	if err := ask(t, client, "GET", path); !apierrors.IsConflict(err) {
		t.Errorf("a read was answered %v", err)
	}
}

func TestSetPlanReplacesFaultPlan(t *testing.T) {
	_, front, client := before(t, hostile.Plan{})
	if err := ask(t, client, "GET", path); err != nil {
		t.Fatal(err)
	}
	front.SetPlan(all(hostile.Harm{Status: http.StatusConflict}))
	if err := ask(t, client, "GET", path); !apierrors.IsConflict(err) {
		t.Errorf("answered %v, want the new plan's conflict", err)
	}
}

// events returns a front before a server whose watches send one event and stay open until the client has disconnected.
func events(t *testing.T, plan hostile.Plan) (*hostile.Front, *http.Client) {
	t.Helper()
	_, kubeconfig := secure(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "event")
		if hostile.Watch(r) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	front, err := hostile.Cluster(t.Context(), kubeconfig, plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	client, err := rest.HTTPClientFor(configOf(t, front))
	if err != nil {
		t.Fatal(err)
	}
	return front, client
}

// watch opens a watch and reads its first event. The event must arrive before the server has ended its answer.
func watch(t *testing.T, front *hostile.Front, client *http.Client) *bufio.Reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL+path+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewReader(response.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "event\n" {
		t.Fatalf("the first event is %q (%v)", line, err)
	}
	return lines
}

// TestWatchesAreCut opens many watches, because a server may notice the cut first and end its answer properly.
func TestWatchesAreCut(t *testing.T) {
	const cut, watches = time.Second, 30
	front, client := events(t, hostile.Plan{CutWatches: cut})
	var all sync.WaitGroup
	for range watches {
		began := time.Now()
		lines := watch(t, front, client)
		all.Go(func() {
			if _, err := lines.ReadByte(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the watch ended with %v, want it cut off", err)
			}
			if lasted := time.Since(began); lasted < cut {
				t.Errorf("the watch lasted %s, want %s", lasted, cut)
			}
		})
	}
	all.Wait()
	response, err := client.Get(front.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if harms := front.Tally().Harms; harms["watch cut"] != watches || len(harms) != 1 {
		t.Errorf("harms %v, want %d watches cut and no other request", harms, watches)
	}
}

func TestDownEndsWatchesAndRefusesRequestsForAWhile(t *testing.T) {
	const down = 300 * time.Millisecond
	front, client := events(t, hostile.Plan{})
	lines := watch(t, front, client)
	began := time.Now()
	front.Down(down)
	if _, err := lines.ReadByte(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a watch goes on: %v", err)
	}
	get := func() error {
		response, err := client.Get(front.URL + path)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	if err := get(); err == nil && time.Since(began) < down {
		t.Error("it answers")
	}
	for err := get(); err != nil; err = get() {
		if time.Since(began) > soon {
			t.Fatalf("it did not come back: %v", err)
		}
	}
	if took := time.Since(began); took < down {
		t.Errorf("it was out of reach for %s, want %s", took, down)
	}
}

func TestAfterCallsHookOnceTheNthWriteWasSent(t *testing.T) {
	o, front, client := before(t, hostile.Plan{})
	hooked := make(chan int, 1)
	var answered atomic.Bool
	release := make(chan struct{})
	front.After(2, func() {
		hooked <- len(o.requests())
		<-release
	})
	for _, verb := range []string{"GET", "PUT"} {
		if err := ask(t, client, verb, path); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		err := client.CoreV1().RESTClient().Put().AbsPath(path).Do(t.Context()).Error()
		answered.Store(true)
		ended <- err
	}()
	select {
	case seen := <-hooked:
		if seen != 3 {
			t.Errorf("the server had seen %d requests when the hook was called, want 3: the read and both writes", seen)
		}
	case <-time.After(soon):
		t.Fatal("the hook was not called")
	}
	if answered.Load() {
		t.Error("the client had the answer before the hook had ended")
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLoseDropsTheAnswerOfTheNthWrite(t *testing.T) {
	o, front, client := before(t, hostile.Plan{})
	front.Number(func(r *http.Request) bool { return r.Method == http.MethodPatch })
	front.Lose(2)
	for i, want := range []struct {
		verb string
		lost bool
	}{{"PUT", false}, {"PATCH", false}, {"GET", false}, {"PATCH", true}, {"PATCH", false}} {
		if err := ask(t, client, want.verb, path); (err != nil) != want.lost {
			t.Errorf("request %d, %s: %v, want it lost: %t", i+1, want.verb, err, want.lost)
		}
	}
	if seen := len(o.requests()); seen != 5 {
		t.Errorf("the server saw %d requests, want 5", seen)
	}
}

// TestLoseCountsOnlyWritesThatReachTheServer checks that a write is not counted if the front refuses it in place of the server.
func TestLoseCountsOnlyWritesThatReachTheServer(t *testing.T) {
	_, front, client := before(t, hostile.Plan{Harms: []hostile.Harm{
		{Share: 1, To: func(r *http.Request) bool { return r.Method == http.MethodPut }, Status: http.StatusInternalServerError},
	}})
	front.Lose(1)
	if err := ask(t, client, "PUT", path); !apierrors.IsInternalError(err) {
		t.Errorf("the refused write was answered %v", err)
	}
	if err := ask(t, client, "PATCH", path); err == nil {
		t.Error("the first write that reached the server was answered, want its answer lost")
	}
}

// TestWriteHookGetsOnlyAcceptedWrites checks that the hook gets no reads and no writes that the server or the front refuses.
func TestWriteHookGetsOnlyAcceptedWrites(t *testing.T) {
	_, kubeconfig := secure(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			http.Error(w, "it has changed", http.StatusConflict)
			return
		}
		node(w, r)
	})
	front, err := hostile.Cluster(t.Context(), kubeconfig, hostile.Plan{Harms: []hostile.Harm{
		{Share: 1, To: func(r *http.Request) bool { return r.Method == http.MethodPost }, Status: http.StatusInternalServerError},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	var mu sync.Mutex
	var took []string
	front.Took(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		took = append(took, r.Method+" "+r.URL.Path)
	})
	client := clientOf(t, front)
	for _, verb := range []string{"GET", "PUT", "POST", "PATCH"} {
		_ = ask(t, client, verb, path) // the hook records the accepted writes
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"PATCH " + path}; !slices.Equal(took, want) {
		t.Errorf("the server is said to have accepted %v, want %v", took, want)
	}
}
