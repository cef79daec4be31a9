package container

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// apiErrorCase is an error answer and what a client makes of it.
type apiErrorCase struct {
	code    int
	body    string
	class   Class
	outcome nodegroup.Outcome
	text    string
}

func apiErrorCases() map[string]apiErrorCase {
	const denied = `{"error":{"code":403,"status":"PERMISSION_DENIED","message":"%s","details":[%s]}}`
	info := func(reason string) string {
		return `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"googleapis.com","metadata":{"service":"container.googleapis.com","n":1}}`
	}
	return map[string]apiErrorCase{
		"not found, as GKE writes it": {
			404, `{"error":{"code":404,"errors":[{"domain":"global","message":"Not found: projects/acme/x.","reason":"notFound"}],"message":"Not found: projects/acme/x.","status":"NOT_FOUND"}}`,
			ClassNotFound, nodegroup.OutcomeMoved, "Not found: projects/acme/x (NOT_FOUND)",
		},
		"an old etag": {
			409, `{"error":{"code":409,"status":"ABORTED","message":"Etag mismatch"}}`,
			ClassConflict, nodegroup.OutcomeMoved, "Etag mismatch (ABORTED)",
		},
		"another operation": {
			400, `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"Cluster is running incompatible operation operation-1784863408191-5f1c."}}`,
			ClassBusy, nodegroup.OutcomeLater, "wait for operation-1784863408191-5f1c, or cancel it",
		},
		"another operation without its name": {
			400, `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"Cluster is running incompatible operation"}}`,
			ClassBusy, nodegroup.OutcomeLater, "wait for the cluster's running operation",
		},
		"another operation in an older text": {
			400, `{"error":{"code":400,"message":"Operation operation-1529415957904-496c7278 is currently upgrading cluster c. Please wait and try again once it is done."}}`,
			ClassBusy, nodegroup.OutcomeLater, "wait for operation-1529415957904-496c7278, or",
		},
		"another operation by its reason": { // cluster-api-provider-gcp#1363
			400, `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"Try later.","details":[` + info("CLUSTER_ALREADY_HAS_OPERATION") + `,{"requestId":"0x1"}]}}`,
			ClassBusy, nodegroup.OutcomeLater, "wait for the cluster's running operation",
		},
		"a cluster that is being repaired": { // of Google's page about concurrent operations
			400, `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"Cluster is currently being created, deleted, updated or repaired and cannot be updated."}}`,
			ClassBusy, nodegroup.OutcomeLater, "wait for the cluster's running operation",
		},
		"a deletion of another pool": { // terraform-provider-google#10366
			400, `{"error":{"code":400,"message":"Operation operation-1529415957904-496c7278 is currently deleting a node pool for cluster c. Please wait and try again once it is done."}}`,
			ClassBusy, nodegroup.OutcomeLater, "wait for operation-1529415957904-496c7278, or",
		},
		"an invalid request": {
			400, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"Node version \"9.9\" is unsupported."}}`,
			ClassInvalid, nodegroup.OutcomeFatal, `Node version "9.9" is unsupported (INVALID_ARGUMENT)`,
		},
		"another failed precondition": {
			400, `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"Autopilot clusters do not support this."}}`,
			ClassInvalid, nodegroup.OutcomeFatal, "(FAILED_PRECONDITION)",
		},
		"no valid token": {
			401, `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"Request had invalid authentication credentials."}}`,
			ClassUnauthenticated, nodegroup.OutcomeFatal, "(UNAUTHENTICATED): sign in",
		},
		"a missing permission": {
			403, fmt.Sprintf(denied, `Required \"container.clusters.update\" permission(s) for \"projects/acme/locations/z/clusters/c\".`, ""),
			ClassDenied, nodegroup.OutcomeFatal, "allow these credentials container.clusters.update",
		},
		"a permission in the details": {
			403, fmt.Sprintf(denied, "Permission denied", `{"reason":"IAM_PERMISSION_DENIED","metadata":{"permission":"container.operations.get"}}`),
			ClassDenied, nodegroup.OutcomeFatal, "Permission denied (IAM_PERMISSION_DENIED): allow these credentials container.operations.get",
		},
		"a missing scope": {
			403, fmt.Sprintf(denied, "Request had insufficient authentication scopes.", info(ReasonScope)),
			ClassDenied, nodegroup.OutcomeFatal, "(ACCESS_TOKEN_SCOPE_INSUFFICIENT): use credentials with the scope https://www.googleapis.com/auth/cloud-platform: sign in",
		},
		"the API is not enabled": {
			403, fmt.Sprintf(denied, "The container.googleapis.com API requires a quota project, which is not set by default.", info(ReasonServiceDisabled)),
			ClassDenied, nodegroup.OutcomeFatal, "(SERVICE_DISABLED): enable the API with gcloud services enable container.googleapis.com",
		},
		"a quota project": {
			403, fmt.Sprintf(denied, "Caller does not have permission to use the quota project.", info(ReasonQuotaProject)),
			ClassDenied, nodegroup.OutcomeFatal, "set another quota project",
		},
		"a quota": {
			403, `{"error":{"code":403,"message":"Insufficient regional quota to satisfy request: resource \"CPUS\": request requires '9.0' and is short '1.0'.","errors":[{"reason":"forbidden"}]}}`,
			ClassQuota, nodegroup.OutcomeExhausted, "(forbidden): request a higher quota",
		},
		"too many requests": {
			429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'","details":[` + info("RATE_LIMIT_EXCEEDED") + `]}}`,
			ClassThrottled, nodegroup.OutcomeLater, "(RESOURCE_EXHAUSTED)",
		},
		"too many requests in the older form": {
			403, `{"error":{"code":403,"message":"Quota exceeded","errors":[{"reason":"rateLimitExceeded"}]}}`,
			ClassThrottled, nodegroup.OutcomeLater, "(rateLimitExceeded)",
		},
		"the server fails": {
			500, `{"error":{"code":500,"status":"INTERNAL","message":"Internal error encountered."}}`,
			ClassUnavailable, nodegroup.OutcomeUnclear, "Internal error encountered (INTERNAL)",
		},
		"an error without a text": {
			503, `{"error":{"code":503}}`, ClassUnavailable, nodegroup.OutcomeUnclear, ": HTTP 503",
		},
		"a page of a proxy": {
			502, "<html><body>Bad Gateway</body></html>", ClassUnavailable, nodegroup.OutcomeUnclear, "HTTP 502 with text/html that is not from the GKE API",
		},
		"a 404 page is no missing pool": {
			404, "<html>Error 404 (Not Found)!!1</html>", ClassUnexpected, nodegroup.OutcomeUnclear, "HTTP 404 with text/html",
		},
		"a 404 of another server": {
			404, `{"message":"no route"}`, ClassUnexpected, nodegroup.OutcomeUnclear, "that is not from the GKE API",
		},
		"a login page": {
			200, "<html>Welcome to the hotel</html>", ClassUnexpected, nodegroup.OutcomeUnclear, "HTTP 200 with text/html",
		},
		"an error of another form": {
			400, `{"error":"invalid_grant"}`, ClassUnexpected, nodegroup.OutcomeUnclear, "HTTP 400",
		},
		"an error with status 200": {
			200, `{"error":{"code":409,"status":"ABORTED","message":"Etag mismatch"}}`,
			ClassConflict, nodegroup.OutcomeMoved, "Etag mismatch (ABORTED)",
		},
		"half an answer": {
			200, `{"name":"operation-1","status":"RUN`, ClassUnexpected, nodegroup.OutcomeUnclear, "the answer is not complete",
		},
		"two answers": {
			200, `{"name":"operation-1"}{"name":"operation-2"}`, ClassUnexpected, nodegroup.OutcomeUnclear, "the answer is not complete",
		},
		"an answer of another type": {
			200, `{"name":["operation-1"]}`, ClassUnexpected, nodegroup.OutcomeUnclear, "not in the format",
		},
		"an answer without a name": {200, `{}`, ClassUnexpected, nodegroup.OutcomeUnclear, "the answer has no name"},
		"null":                     {200, `null`, ClassUnexpected, nodegroup.OutcomeUnclear, "HTTP 200"},
		"a list":                   {200, `[{"name":"operation-1"}]`, ClassUnexpected, nodegroup.OutcomeUnclear, "HTTP 200"},
		"nothing":                  {200, ``, ClassUnexpected, nodegroup.OutcomeUnclear, "HTTP 200"},
		"details of unknown forms": {
			400, `{"error":{"code":400,"message":"no","details":["text",{"reason":5},{"retryDelay":"soon"},{"reason":"SOMETHING_NEW","metadata":{}}]}}`,
			ClassInvalid, nodegroup.OutcomeFatal, "no (SOMETHING_NEW)",
		},
	}
}

func TestErrorAnswersAreClassified(t *testing.T) {
	for name, c := range apiErrorCases() {
		t.Run(name, func(t *testing.T) {
			requests := 0
			client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				kind := "application/json; charset=UTF-8"
				if strings.HasPrefix(c.body, "<") {
					kind = "text/html"
				}
				w.Header().Set("Content-Type", kind)
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := client.UpdateNodePool(t.Context(), testPool(), UpdateNodePoolRequest{})
			failure, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if failure.Class != c.class || failure.Outcome() != c.outcome || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %s, %s, %q", failure.Class, failure.Outcome(), err)
			}
			if !strings.HasPrefix(err.Error(), "upgrading node pool web of cluster prod: ") || strings.ContainsAny(err.Error(), "\n<") {
				t.Errorf("the text is %q", err)
			}
			if requests != 1 {
				t.Errorf("a write was sent %d times", requests)
			}
		})
	}
}

// TestErrorsContainNoToken answers with the token in all places.
func TestErrorsContainNoToken(t *testing.T) {
	const google, signed = "ya29.a0AfB_by-Cd~e", "eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl"
	all := secret + " " + google + " " + signed + " Bearer other-secret"
	answers := map[string]func(http.ResponseWriter){
		"message": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":{"code":400,"status":%q,"message":%q,"errors":[{"reason":%q}]}}`, all, all, all)
		},
		"denied": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `{"error":{"code":403,"message":%q,"details":[{"reason":%q}]}}`, all, all)
		},
		"page":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound); _, _ = io.WriteString(w, "<p>"+all) },
		"answer": func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"name":"x","endTime":"`+all+`"}`) },
		"type":   func(w http.ResponseWriter) { w.Header().Set("Content-Type", all); w.WriteHeader(http.StatusNotFound) },
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://"+secret+".example/")
			w.WriteHeader(http.StatusFound)
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+secret {
					t.Errorf("the header is %q", r.Header.Get("Authorization"))
				}
				answer(w)
			})
			_, err := client.GetOperation(t.Context(), testPool().Operation("operation-1"))
			if err == nil {
				t.Fatal("no error")
			}
			printed := fmt.Sprintf("%v %+v %#v", err, err, *err.(*Error)) //nolint:errorlint // its fields are printed
			for _, token := range []string{secret, google, signed, "other-secret"} {
				if strings.Contains(printed, token) {
					t.Errorf("the error contains %q: %s", token, printed)
				}
			}
		})
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	client := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"code":400,"message":"a\u001b[31m\n b %s"}}`, strings.Repeat("ü", 100_000))
	})
	_, err := client.GetNodePool(t.Context(), testPool())
	if text := err.Error(); len(text) > 800 || strings.ContainsAny(text, "\x1b\n") || !strings.Contains(text, "a [31m b ü") {
		t.Errorf("got %.100q with %d bytes", text, len(text))
	}
}

func TestFailedOperationIsNoError(t *testing.T) {
	client := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"operation-1","status":"DONE","error":{"code":8,"message":"GCE_STOCKOUT","details":[{"a":1}]}}`)
	})
	got, err := client.GetOperation(t.Context(), testPool().Operation("operation-1"))
	if err != nil || got.Error == nil || got.Error.Code != 8 || got.Error.Message != "GCE_STOCKOUT" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestEmptyListsAreNoError(t *testing.T) {
	client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "operations") {
			_, _ = io.WriteString(w, `{"missingZones":["us-east1-b"]}`)
			return
		}
		_, _ = io.WriteString(w, "{}\n")
	})
	pools, err := client.ListNodePools(t.Context(), testPool().ClusterName)
	if err != nil || len(pools) != 0 {
		t.Errorf("got %v, %v", pools, err)
	}
	operations, err := client.ListOperations(t.Context(), LocationName{"acme", "-"})
	if err != nil || len(operations.MissingZones) != 1 {
		t.Errorf("got %v, %v", operations, err)
	}
	if err := client.CompleteNodePoolUpgrade(t.Context(), testPool()); err != nil {
		t.Error(err)
	}
}
