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

// Front is a reverse proxy that does harm. Its methods may be called from any goroutine.
type Front struct {
	// URL is where it listens.
	URL string
	// Kubeconfig is the file that leads a client here, of a front before a cluster.
	Kubeconfig string

	api    api
	server *httptest.Server
	door   *door
	proxy  *httputil.ReverseProxy
	folder string
	closed sync.Once

	mu     sync.Mutex // guards what follows
	admits func(token string) bool
	plan   Plan
	tally  Tally
	writes int
	counts func(*http.Request) bool
	hooks  map[int]func()
	lost   map[int]bool
	took   func(*http.Request)
}

// api is what differs between APIs.
type api struct {
	// token is what clients have to log in with; "" for nothing.
	token string
	// key names what is asked for. It may read the body, and puts it back.
	key func(*http.Request) (string, error)
	// write says that the request may change something, watch that its answer does not end.
	write, watch func(*http.Request) bool
	// answer is the server's own way to answer with the harm's status.
	answer func(http.ResponseWriter, *http.Request, Harm)
}

// fate is what is to happen to a request that continues to the server.
type fate struct {
	Harm
	hook func()
	cut  time.Duration
}

type fateKey struct{}

// errLost ends a request whose answer is not to reach the client.
var errLost = errors.New("the answer is lost")

// open starts a front before the server at target, which is reached through transport.
func open(a api, target *url.URL, transport http.RoundTripper, plan Plan) *Front {
	f := &Front{
		api: a, plan: plan, tally: newTally(), counts: a.write, hooks: map[int]func(){}, lost: map[int]bool{},
		admits: func(token string) bool { return token == a.token },
	}
	silent := log.New(io.Discard, "", 0) // closed connections are what it is for
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

// serve does to a request what the plan says.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	if f.api.token != "" && !f.admitted(r) {
		_, _ = io.Copy(io.Discard, r.Body) // see below
		f.api.answer(w, r, Harm{Status: http.StatusUnauthorized})
		return
	}
	key, err := f.api.key(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away in the middle of its request
	}
	what := f.meet(key, r)
	pause(r.Context(), what.Delay)
	switch {
	case what.Status != 0:
		_, _ = io.Copy(io.Discard, r.Body) // a connection closed under an unread body would lose the answer
		f.api.answer(w, r, what.Harm)
	case what.Drop == BeforeEffect:
		panic(http.ErrAbortHandler)
	default:
		f.forward(w, r, what)
	}
}

// admitted reports whether a request brings a token that is good.
func (f *Front) admitted(r *http.Request) bool {
	f.mu.Lock()
	admits := f.admits
	f.mu.Unlock()
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && admits(token)
}

// meet counts a request and decides what becomes of it.
func (f *Front) meet(key string, r *http.Request) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	what := fate{Harm: f.plan.harmFor(r, key, f.tally.Requests[key])}
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

// forward lets the server answer.
func (f *Front) forward(w http.ResponseWriter, r *http.Request, what fate) {
	ctx := context.WithValue(r.Context(), fateKey{}, what)
	if what.cut == 0 {
		f.proxy.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, what.cut)
	defer cancel()
	defer func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			f.noteHarm(watchCut)
			panic(http.ErrAbortHandler) // again, or at last: a server that is quick ends its answer well
		}
	}()
	f.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// answered is called with the server's answer, before the client gets anything of it.
func (f *Front) answered(response *http.Response) error {
	what, _ := response.Request.Context().Value(fateKey{}).(fate)
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

// Obey replaces the plan for the requests to come.
func (f *Front) Obey(plan Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

// Admit has the front of a cluster ask which tokens are good, in place of the one in its kubeconfig. All others are answered with 401,
// and counted nowhere.
func (f *Front) Admit(good func(token string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admits = good
}

// Number has After and Lose count the writes that reach the server and that wanted accepts, from 1 on; at first every write counts.
func (f *Front) Number(wanted func(*http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts, f.writes = func(r *http.Request) bool { return f.api.write(r) && wanted(r) }, 0
}

// Took calls the hook with each write that the server accepts.
func (f *Front) Took(hook func(*http.Request)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took = hook
}

// After calls the hook once the server has answered the n-th write, and before the client gets the answer: a client killed
// by the hook does not know of what it did.
func (f *Front) After(n int, hook func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[n] = hook
}

// Lose closes the connection in place of the answer to the n-th write.
func (f *Front) Lose(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost[n] = true
}

// Down puts the API out of reach for so long from now on: what is open is closed, and who comes is reset.
func (f *Front) Down(d time.Duration) {
	f.door.shutUntil(time.Now().Add(d))
	f.server.CloseClientConnections()
}

// Tally is what was seen and done so far.
func (f *Front) Tally() Tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tally.clone()
}

// Env is what leads a command through the front.
func (f *Front) Env() []string {
	if f.Kubeconfig != "" {
		return []string{"KUBECONFIG=" + f.Kubeconfig}
	}
	return []string{"AWS_ENDPOINT_URL=" + f.URL}
}

// Close ends the front, and all that goes through it.
func (f *Front) Close() {
	f.closed.Do(func() {
		f.Down(time.Hour) // who comes meanwhile would be waited for
		f.server.Close()
		if f.folder != "" {
			_ = os.RemoveAll(f.folder) // a temporary folder
		}
	})
}

// pause returns after so long, or when the client has gone.
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
