package runner

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// apiServer answers for Deployments, whose scale is the number in their name, and records which were requested. Answers wait
// until gate is closed.
type apiServer struct {
	gate chan struct{}

	mu    sync.Mutex // guards the fields below
	asked []string
}

// ServeHTTP implements http.Handler.
func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	var answer any = &metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}}
	if name != "events" {
		a.mu.Lock()
		a.asked = append(a.asked, name)
		a.mu.Unlock()
		<-a.gate
		var replicas int32
		_, _ = fmt.Sscanf(name, "web-%d", &replicas)
		answer = &appsv1.Deployment{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas},
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // if the client has gone, the test fails anyway
}

// takeAsked returns the requested names since the last call, sorted.
func (a *apiServer) takeAsked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := slices.Sorted(slices.Values(a.asked))
	a.asked = nil
	return asked
}

// newControllerRun returns a run that reads controllers from an API server.
func newControllerRun(t *testing.T) (*run, *apiServer) {
	t.Helper()
	api := &apiServer{gate: make(chan struct{})}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	since := map[drain.Workload]time.Time{}
	for _, w := range workloads(6) {
		since[w] = time.Now().Add(-controllerPatience) // they are due
	}
	return &run{
		Runner:      &Runner{Controllers: cluster.NewControllerReader(client, time.Now)},
		answers:     make(chan func(), controllersAtOnce),
		controllers: controllerReads{since: since, known: map[drain.Workload]drain.Controller{}, inFlight: map[drain.Workload]bool{}},
	}, api
}

// workloads returns Deployments of 1, 2, … pods.
func workloads(n int) []drain.Workload {
	var all []drain.Workload
	for i := range n {
		all = append(all, drain.Workload{Namespace: "shop", Kind: "Deployment", Name: fmt.Sprintf("web-%d", i+1)})
	}
	return all
}

// recordAnswers records n answers.
func (s *run) recordAnswers(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case answer := <-s.answers:
			answer()
		case <-time.After(requestLimit):
			t.Fatal("an answer is missing")
		}
	}
}

// TestAtMostFourControllersAreReadConcurrently checks that the run reads at most four controllers concurrently, reads no controller
// twice at the same time, and reads the others when these are done.
func TestAtMostFourControllersAreReadConcurrently(t *testing.T) {
	s, api := newControllerRun(t)
	step := &upgrade.Step{Unscaled: workloads(6)}
	never := time.Now().Add(time.Hour)
	if next := s.controllers.nextTime(step, never, s.localTime); next.After(time.Now()) {
		t.Errorf("controllers that were never read are due at %s", next)
	}
	s.readControllers(t.Context(), step)
	s.readControllers(t.Context(), step)
	if next := s.controllers.nextTime(step, never, s.localTime); !next.Equal(never) {
		t.Errorf("while four are read the others are due at %s", next)
	}
	close(api.gate)
	s.recordAnswers(t, controllersAtOnce)
	if asked := api.takeAsked(); !slices.Equal(asked, []string{"web-1", "web-2", "web-3", "web-4"}) {
		t.Errorf("asked for %v, want the first four, once each", asked)
	}
	s.readControllers(t.Context(), step)
	s.recordAnswers(t, 2)
	if asked := api.takeAsked(); !slices.Equal(asked, []string{"web-5", "web-6"}) {
		t.Errorf("then asked for %v, want the other two", asked)
	}
	for i, w := range step.Unscaled {
		if read := s.controllers.known[w]; read.Replicas != i+1 || read.Unread != "" {
			t.Errorf("%s was read as %+v, want %d replicas", w, read, i+1)
		}
	}
}

// TestControllersAreReadIfPodsLackForASecond checks that a controller is read only if its workload has lacked pods for a second, and not
// for each pod that moves.
func TestControllersAreReadIfPodsLackForASecond(t *testing.T) {
	s, api := newControllerRun(t)
	close(api.gate)
	clear(s.controllers.since)
	step := &upgrade.Step{Unscaled: workloads(1)}
	began := time.Now()
	s.readControllers(t.Context(), step)
	if len(s.controllers.inFlight) > 0 {
		t.Fatal("it is read at once")
	}
	due := s.controllers.nextTime(step, began.Add(time.Hour), s.localTime)
	if wait := due.Sub(began); wait < controllerPatience-50*time.Millisecond || wait > controllerPatience+time.Second {
		t.Errorf("it is due after %s, want %s", wait, controllerPatience)
	}
	s.adoptStep(&upgrade.Step{})
	if len(s.controllers.since) > 0 {
		t.Error("what is no longer asked about is not forgotten")
	}
	s.controllers.since[step.Unscaled[0]] = began.Add(-controllerPatience)
	s.readControllers(t.Context(), step)
	s.recordAnswers(t, 1)
	if asked := api.takeAsked(); !slices.Equal(asked, []string{"web-1"}) {
		t.Errorf("asked for %v when it was due", asked)
	}
}

// TestControllerIsReadAgainAfterFiveSeconds checks that an answer is valid for five seconds from its request, and is dropped when a
// step no longer needs the controller.
func TestControllerIsReadAgainAfterFiveSeconds(t *testing.T) {
	s, api := newControllerRun(t)
	step := &upgrade.Step{Unscaled: workloads(2)}
	before := time.Now().Round(0)
	s.readControllers(t.Context(), step)
	time.Sleep(50 * time.Millisecond) // the answer must come later than the request
	after := time.Now()
	close(api.gate)
	s.recordAnswers(t, 2)
	first, second := step.Unscaled[0], step.Unscaled[1]
	if read := s.controllers.known[first].Read; read.Before(before) || !read.Before(after) {
		t.Errorf("read at %s, want the time of the question, between %s and %s", read, before, after)
	}
	api.takeAsked()
	s.readControllers(t.Context(), step)
	old := s.controllers.known[second]
	old.Read = old.Read.Add(-controllerAge)
	s.controllers.known[second] = old
	if next := s.controllers.nextTime(step, time.Now().Add(time.Hour), s.localTime); next.Sub(old.Read.Add(controllerAge)).Abs() > time.Millisecond {
		t.Errorf("the next is due at %s, want %s", next, old.Read.Add(controllerAge))
	}
	s.readControllers(t.Context(), step)
	s.recordAnswers(t, 1)
	if asked := api.takeAsked(); !slices.Equal(asked, []string{second.Name}) {
		t.Errorf("asked again for %v, want %s, whose answer is five seconds old", asked, second.Name)
	}
	step.Unscaled = step.Unscaled[:1]
	s.adoptStep(step) // the workload of the other one may be scaled in between
	if known := slices.Collect(maps.Keys(s.controllers.known)); !slices.Equal(known, []drain.Workload{first}) {
		t.Errorf("known are %v, want only the one that is still asked for", known)
	}
}

func TestNoControllerIsReadWithoutReader(t *testing.T) {
	s, _ := newControllerRun(t)
	s.Controllers = nil
	s.readControllers(t.Context(), &upgrade.Step{Unscaled: workloads(1)})
	if len(s.controllers.inFlight) > 0 {
		t.Error("a controller is read without a reader")
	}
}
