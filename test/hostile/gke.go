package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// GKE starts a front before the GKE stand-in at the address. It runs until the context ends or Close. Requests for access tokens do not
// pass through it. It returns an error if the address is invalid.
func GKE(ctx context.Context, address string, plan Plan) (*Front, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cloud to stand before: %w", err)
	}
	f := open(api{
		variable: "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER",
		key:      func(r *http.Request) (string, error) { return r.Method + " " + r.URL.Path, nil },
		write:    func(r *http.Request) bool { return r.Method != http.MethodGet },
		watch:    func(*http.Request) bool { return false }, answer: answerGoogle,
	}, target, &http.Transport{DisableCompression: true}, plan)
	f.server.Start()
	f.URL = f.server.URL + "/"
	context.AfterFunc(ctx, f.Close)
	return f, nil
}

// answerGoogle answers with the error of Google's APIs that has the harm's status.
func answerGoogle(w http.ResponseWriter, _ *http.Request, h Harm) {
	if h.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(h.RetryAfter/time.Second)))
	}
	status := map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusConflict: "ABORTED",
		http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
	}[h.Status]
	if status == "" {
		status = "INTERNAL"
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(h.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": h.Status, "status": status, "message": "Said by a hostile front."}}) // a client that has disconnected needs no answer
}
