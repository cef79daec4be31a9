package hostile_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

const poolPath = "v1/projects/p/locations/l/clusters/c/nodePools/workers"

// sendTo sends a request to a front, and returns the answer with its body as JSON.
func sendTo(t *testing.T, front *hostile.Front, method string) (status int, body map[string]any, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, front.URL+poolPath, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	return answer.StatusCode, body, json.NewDecoder(answer.Body).Decode(&body)
}

func gkeFront(t *testing.T, plan hostile.Plan) (*origin, *hostile.Front) {
	t.Helper()
	o := plain(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"name":"operation-1"}`)) })
	front, err := hostile.GKE(t.Context(), o.URL, plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	return o, front
}

func TestInjectedGKEErrorsHaveStatusOfGoogle(t *testing.T) {
	for status, want := range map[int]string{http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusInternalServerError: "INTERNAL"} {
		o, front := gkeFront(t, all(hostile.Harm{Status: status}))
		got, body, err := sendTo(t, front, http.MethodPut)
		if said, _ := body["error"].(map[string]any); err != nil || got != status || said["status"] != want {
			t.Errorf("%d is answered with %d and %v (%v), want %s", status, got, body, err, want)
		}
		if len(o.requests()) != 0 {
			t.Errorf("%d: the cloud got the request", status)
		}
	}
}

func TestProxyDropsTheAnswerToWriteOfGKE(t *testing.T) {
	o, front := gkeFront(t, hostile.Plan{})
	front.Lose(1)
	if status, body, err := sendTo(t, front, http.MethodGet); err != nil || status != http.StatusOK || body["name"] != "operation-1" {
		t.Errorf("a read is answered with %d, %v, %v", status, body, err)
	}
	if status, _, err := sendTo(t, front, http.MethodPut); err == nil {
		t.Errorf("the answer %d to a write is not lost", status)
	}
	if got := o.requests(); len(got) != 2 || got[1].URL.Path != "/"+poolPath {
		t.Errorf("the cloud got %d requests", len(got))
	}
	if got, want := front.Env(), "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER="+front.URL; len(got) != 1 || got[0] != want {
		t.Errorf("its environment is %v, want %s", got, want)
	}
}
