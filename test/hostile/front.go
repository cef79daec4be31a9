package hostile

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Front is a reverse proxy that disturbs requests. Its methods may be called from any goroutine.
type Front struct {
	// URL is the front's address.
	URL string
	// Kubeconfig is the file with which a client uses this front. It is set only for a front before a cluster.
	Kubeconfig string

	api    api
	server *httptest.Server
	door   *door
	proxy  *httputil.ReverseProxy
	folder string
	closed sync.Once

	mu     sync.Mutex // guards the fields below
	admits func(token string) bool
	plan   Plan
	tally  Tally
	writes int
	counts func(*http.Request) bool
	hooks  map[int]func()
	lost   map[int]bool
	took   func(*http.Request)
}

// api contains the differences between APIs.
type api struct {
	// variable is the environment variable that has the address; "" for an API that a kubeconfig names.
	variable string
	// token is the token with which clients must log in; "" means none.
	token string
	// key returns the same text for equal requests. It may read the body, and restores it.
	key func(*http.Request) (string, error)
	// write reports whether the request may change something, watch whether its answer does not end.
	write, watch func(*http.Request) bool
	// answer answers as the server does, with the harm's status.
	answer func(http.ResponseWriter, *http.Request, Harm)
}

// disturbance is what happens to a request that is passed on to the server.
type disturbance struct {
	Harm
	hook func()
	cut  time.Duration
}

type disturbanceKey struct{}

// errLost ends a request whose answer must not reach the client.
var errLost = errors.New("the answer is lost")

// isOpen starts a front before the server at target. It connects to the server through transport.
func open(a api, target *url.URL, transport http.RoundTripper, plan Plan) *Front {
	f := &Front{
		api: a, plan: plan, tally: newTally(), counts: a.write, hooks: map[int]func(){}, lost: map[int]bool{},
		admits: func(token string) bool { return token == a.token },
	}
	silent := log.New(io.Discard, "", 0) // the front closes connections on purpose, so errors are not logged
	f.proxy = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: silent,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if a.token != "" {
				r.Out.Header.Del("Authorization")
			}
		},
		ModifyResponse: f.answered,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.server.Config.ErrorLog = silent
	f.door = &door{Listener: f.server.Listener}
	f.server.Listener = f.door
	return f
}

// serve passes a request to the API server, or disturbs it as the plan says.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	if f.api.token != "" && !f.isAdmitted(r) {
		_, _ = io.Copy(io.Discard, r.Body) // see the comment on reading the body below
		f.api.answer(w, r, Harm{Status: http.StatusUnauthorized})
		return
	}
	key, err := f.api.key(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the client disconnected in the middle of its request
	}
	what := f.meet(key, r)
	pause(r.Context(), what.Delay)
	switch {
	case what.Status != 0:
		_, _ = io.Copy(io.Discard, r.Body) // if the body were not read, closing the connection would lose the answer
		f.api.answer(w, r, what.Harm)
	case what.Drop == BeforeEffect:
		panic(http.ErrAbortHandler)
	default:
		f.forward(w, r, what)
	}
}

// isAdmitted reports whether a request has a valid token.
func (f *Front) isAdmitted(r *http.Request) bool {
	f.mu.Lock()
	admits := f.admits
	f.mu.Unlock()
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && admits(token)
}

// meet counts a request and decides how it is disturbed.
func (f *Front) meet(key string, r *http.Request) disturbance {
	f.mu.Lock()
	defer f.mu.Unlock()
	what := disturbance{Harm: f.plan.harmFor(r, key, f.tally.Requests[key])}
	f.tally.Requests[key]++
	f.tally.note(what.Harm)
	if f.api.write(r) {
		f.tally.Writes[key]++
	}
	if f.api.watch(r) {
		what.cut = f.plan.CutWatches
	}
	if what.Status == 0 && what.Drop != BeforeEffect && f.counts(r) {
		f.writes++
		what.hook = f.hooks[f.writes]
		if f.lost[f.writes] {
			what.Drop = AfterEffect
		}
	}
	return what
}

// forward passes the request on to the server.
func (f *Front) forward(w http.ResponseWriter, r *http.Request, what disturbance) {
	ctx := context.WithValue(r.Context(), disturbanceKey{}, what)
	if what.cut == 0 {
		f.proxy.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, what.cut)
	defer cancel()
	defer func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			f.noteHarm(watchCut)
			panic(http.ErrAbortHandler) // a fast server may have ended its answer properly: abort in both cases
		}
	}()
	f.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// answered is called with the server's answer, before the client gets any of it.
func (f *Front) answered(response *http.Response) error {
	what, _ := response.Request.Context().Value(disturbanceKey{}).(disturbance)
	f.mu.Lock()
	took := f.took
	f.mu.Unlock()
	if took != nil && response.StatusCode < http.StatusMultipleChoices && f.api.write(response.Request) {
		took(response.Request)
	}
	if what.hook != nil {
		what.hook()
	}
	if what.Drop == AfterEffect {
		f.noteHarm(droppedAfter)
		return errLost
	}
	return nil
}

func (f *Front) noteHarm(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tally.Harms[name]++
}

// SetPlan replaces the plan for the following requests.
func (f *Front) SetPlan(plan Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

// Admit makes a cluster's front accept the tokens for which good returns true, instead of the token in its kubeconfig. Other
// tokens are answered with 401, and these requests are not counted.
func (f *Front) Admit(good func(token string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admits = good
}

// Number makes After and Lose count the writes that reach the server and that wanted accepts, from 1. By default they count every
// write.
func (f *Front) Number(wanted func(*http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts, f.writes = func(r *http.Request) bool { return f.api.write(r) && wanted(r) }, 0
}

// Took calls the hook with each write that the server has accepted.
func (f *Front) Took(hook func(*http.Request)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took = hook
}

// After calls the hook once the server has answered the n-th write, before the client gets the answer. A client that the hook
// kills does not know the result of its write.
func (f *Front) After(n int, hook func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[n] = hook
}

// Lose closes the connection instead of answering the n-th write.
func (f *Front) Lose(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost[n] = true
}

// Down makes the API unreachable for the duration. Open connections are closed, and new connections are reset.
func (f *Front) Down(d time.Duration) {
	f.door.shutUntil(time.Now().Add(d))
	f.server.CloseClientConnections()
}

// Tally returns the counts so far.
func (f *Front) Tally() Tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tally.clone()
}

// Env returns the environment that makes a command use the front.
func (f *Front) Env() []string {
	if f.Kubeconfig != "" {
		return []string{"KUBECONFIG=" + f.Kubeconfig}
	}
	return []string{f.api.variable + "=" + f.URL}
}

// Close ends the front and all its connections.
func (f *Front) Close() {
	f.closed.Do(func() {
		f.Down(time.Hour) // otherwise Close would wait for new connections
		f.server.Close()
		if f.folder != "" {
			_ = os.RemoveAll(f.folder) // a temporary folder
		}
	})
}

// pause returns after d, or when the client has disconnected.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
