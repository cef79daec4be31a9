package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

var (
	pods    = schema.GroupResource{Resource: "pods"}
	nodes   = schema.GroupResource{Resource: "nodes"}
	budgets = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudget"}
)

// overBudget is how the eviction API refuses (eviction.go, checkAndDecrement): Retry-After 0 is none.
func overBudget(why string, retryAfter int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: why})
	return err
}

// endingNamespace is how admission refuses to create anything there (namespace/lifecycle/admission.go).
func endingNamespace() error {
	err := apierrors.NewForbidden(pods, "web-0", errors.New("unable to create new content in namespace shop because it is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: "namespace shop is being terminated", Field: "metadata.namespace",
	})
	return err
}

// twoBudgets is the one status that the eviction API writes by hand, without a reason.
func twoBudgets() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	}}
}

// deniedByWebhook has the code and reason that the webhook chose (webhook/errors/statuserror.go).
func deniedByWebhook(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: `admission webhook "drain.example.com" denied the request: the pod is being moved`,
	}}
}

// deniedByPolicy is a ValidatingAdmissionPolicy's answer with the reason it has by default (policy/validating/dispatcher.go).
func deniedByPolicy() error {
	err := apierrors.NewForbidden(pods, "web-0",
		errors.New("ValidatingAdmissionPolicy 'hours' with binding 'all' denied request: no evictions before noon"))
	err.ErrStatus.Reason, err.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	return err
}

// throttled is what client-go makes of the plain text with which priority and fairness refuses.
func throttled() error {
	return apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "post", pods, "web-0", "Too many requests, please try again later.", 1, true)
}

func cut(err error) error { return &url.Error{Op: "Post", URL: "https://10.0.0.1/api/v1", Err: err} }

// TestSortEvictions has a case for each row of the table of answers (Kubernetes K10).
func TestSortEvictions(t *testing.T) {
	uid := errors.New("the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted and then recreated")
	cases := map[string]struct {
		err   error
		want  upgrade.Outcome
		after time.Duration
	}{
		"accepted":                      {nil, upgrade.OutcomeDone, 0},
		"no such pod":                   {apierrors.NewNotFound(pods, "web-0"), upgrade.OutcomeMoved, 0},
		"budget spent":                  {overBudget("The disruption budget web needs 3 healthy pods and has 3 currently", 0), upgrade.OutcomeRefused, 0},
		"budget without a count":        {overBudget("The disruption budget web does not allow evicting pods currently because it failed sync: x", 0), upgrade.OutcomeRefused, 0},
		"budget just spent":             {overBudget("The disruption budget web does not allow evicting pods currently", 0), upgrade.OutcomeRefused, 0},
		"budget not processed yet":      {overBudget("The disruption budget web is still being processed by the server.", 10), upgrade.OutcomeRefused, 10 * time.Second},
		"two budgets":                   {twoBudgets(), upgrade.OutcomeUnclear, 0},
		"budget below zero":             {apierrors.NewForbidden(budgets, "web", errors.New("pdb disruptions allowed is negative")), upgrade.OutcomeFatal, 0},
		"too many disrupted pods":       {apierrors.NewForbidden(budgets, "web", errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller")), upgrade.OutcomeLater, 0},
		"budget changed all the time":   {apierrors.NewTimeoutError(`couldn't update PodDisruptionBudget "web" due to conflicts`, 10), upgrade.OutcomeUnclear, 10 * time.Second},
		"another pod of that name":      {apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, "web-0", uid), upgrade.OutcomeMoved, 0},
		"namespace is being deleted":    {endingNamespace(), upgrade.OutcomeLater, 0},
		"name in body differs":          {apierrors.NewBadRequest("name in URL does not match name in Eviction object"), upgrade.OutcomeFatal, 0},
		"unknown option":                {apierrors.NewInvalid(schema.GroupKind{Kind: "DeleteOptions"}, "", nil), upgrade.OutcomeFatal, 0},
		"priority and fairness":         {throttled(), upgrade.OutcomeLater, time.Second},
		"webhook denies":                {deniedByWebhook(http.StatusForbidden, metav1.StatusReasonForbidden), upgrade.OutcomeLater, 0},
		"webhook denies with 400":       {deniedByWebhook(http.StatusBadRequest, ""), upgrade.OutcomeLater, 0},
		"webhook denies with 404":       {deniedByWebhook(http.StatusNotFound, metav1.StatusReasonNotFound), upgrade.OutcomeLater, 0},
		"webhook denies with 409":       {deniedByWebhook(http.StatusConflict, metav1.StatusReasonConflict), upgrade.OutcomeLater, 0},
		"webhook denies with 422":       {deniedByWebhook(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), upgrade.OutcomeLater, 0},
		"webhook does not answer":       {apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", "drain.example.com", context.DeadlineExceeded)), upgrade.OutcomeLater, 0},
		"admission policy denies":       {deniedByPolicy(), upgrade.OutcomeLater, 0},
		"a wrapped refusal is the same": {fmt.Errorf("evicting pod shop/web-0: %w", overBudget("spent", 0)), upgrade.OutcomeRefused, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { wantAnswer(t, Sort(c.err), c.err, c.want, c.after) })
	}
}

// TestSortOthers has the answers that any request may get.
func TestSortOthers(t *testing.T) {
	cases := map[string]struct {
		err   error
		want  upgrade.Outcome
		after time.Duration
	}{
		"the cache knew better":      {fmt.Errorf("fencing node a: %w", upgrade.ErrMoved), upgrade.OutcomeMoved, 0},
		"node of another version":    {apierrors.NewConflict(nodes, "a", errors.New("the object has been modified")), upgrade.OutcomeMoved, 0},
		"RBAC":                       {apierrors.NewForbidden(nodes, "a", errors.New(`User "u" cannot patch resource "nodes" in API group "" at the cluster scope`)), upgrade.OutcomeFatal, 0},
		"credentials expired":        {apierrors.NewUnauthorized("Unauthorized"), upgrade.OutcomeLater, 0},
		"verb is not supported":      {apierrors.NewMethodNotSupported(nodes, "patch"), upgrade.OutcomeFatal, 0},
		"server has an error":        {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), upgrade.OutcomeUnclear, 0},
		"server is going down":       {apierrors.NewServiceUnavailable("apiserver is shutting down"), upgrade.OutcomeUnclear, 0},
		"server asks for time":       {apierrors.NewServerTimeout(pods, "patch", 3), upgrade.OutcomeUnclear, 3 * time.Second},
		"connection reset":           {cut(errors.New("read: connection reset by peer")), upgrade.OutcomeUnclear, 0},
		"connection cut":             {cut(io.ErrUnexpectedEOF), upgrade.OutcomeUnclear, 0},
		"deadline":                   {cut(context.DeadlineExceeded), upgrade.OutcomeUnclear, 0},
		"given up by us":             {cut(context.Canceled), upgrade.OutcomeUnclear, 0},
		"cloud: gone":                {cloudError(upgrade.OutcomeMoved), upgrade.OutcomeMoved, 0},
		"cloud: throttled":           {cloudError(upgrade.OutcomeLater), upgrade.OutcomeLater, 0},
		"cloud: no answer":           {cloudError(upgrade.OutcomeUnclear), upgrade.OutcomeUnclear, 0},
		"cloud: no capacity":         {cloudError(upgrade.OutcomeExhausted), upgrade.OutcomeExhausted, 0},
		"cloud: denied":              {cloudError(upgrade.OutcomeFatal), upgrade.OutcomeFatal, 0},
		"a cloud's verdict is final": {&cloud.Error{Outcome: upgrade.OutcomeLater, Err: apierrors.NewNotFound(nodes, "a")}, upgrade.OutcomeLater, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { wantAnswer(t, Sort(c.err), c.err, c.want, c.after) })
	}
}

func TestDetail(t *testing.T) {
	gone := cut(errors.New("connection reset by peer"))
	cases := map[string]struct {
		err  error
		want string
	}{
		"an answer": {fmt.Errorf("fencing: %w", apierrors.NewServiceUnavailable("shutting down")), "fencing: shutting down"},
		"no answer": {fmt.Errorf("fencing: %w", gone), "the API server does not answer: connection reset by peer"},
		"no credentials": {
			fmt.Errorf("fencing: %w", cut(errors.New("getting credentials: exec: executable aws failed with exit code 255"))),
			"no credentials for the API server: exec: executable aws failed with exit code 255: log in again",
		},
		"no answer of the cloud": {&cloud.Error{Err: gone}, (&cloud.Error{Err: gone}).Error()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Sort(c.err).Detail; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func cloudError(outcome upgrade.Outcome) error {
	return fmt.Errorf("terminating i-1: %w", &cloud.Error{Outcome: outcome, Err: errors.New("the cloud says so")})
}

func wantAnswer(t *testing.T, got Answer, err error, outcome upgrade.Outcome, after time.Duration) {
	t.Helper()
	want := Answer{Outcome: outcome, After: after}
	if err != nil {
		want.Detail = detail(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBackoffBounds(t *testing.T) {
	bounds := func(outcome upgrade.Outcome, tries int) (least, below time.Duration) {
		switch outcome {
		case upgrade.OutcomeDone:
			return 0, 1
		case upgrade.OutcomeRefused, upgrade.OutcomeExhausted:
			return 30 * time.Second, time.Minute
		}
		rest := []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 30000}[min(tries, 7)-1] * time.Millisecond
		if outcome == upgrade.OutcomeUnclear {
			rest = min(rest, 10*time.Second)
		}
		return rest / 2, rest * 3 / 2
	}
	rapid.Check(t, func(t *rapid.T) {
		answer := Answer{
			Outcome: rapid.SampledFrom([]upgrade.Outcome{
				upgrade.OutcomeDone, upgrade.OutcomeMoved, upgrade.OutcomeRefused, upgrade.OutcomeLater,
				upgrade.OutcomeUnclear, upgrade.OutcomeExhausted, upgrade.OutcomeFatal,
			}).Draw(t, "outcome"),
			After: time.Duration(rapid.SampledFrom([]int{0, 1, 10, 100}).Draw(t, "after")) * time.Second,
		}
		tries := rapid.IntRange(1, 1000).Draw(t, "tries")
		least, below := bounds(answer.Outcome, tries)
		if answer.Outcome != upgrade.OutcomeDone {
			least, below = max(least, answer.After), max(below, answer.After+1)
		}
		if got := backoff(answer, tries); got < least || got >= below {
			t.Errorf("%s after %d tries, asked to wait %s: rests %s, want from %s and below %s", answer.Outcome, tries, answer.After, got, least, below)
		}
	})
}

// TestBackoffIsDrawn holds waits apart: many nodes refused at once must not come back at once.
func TestBackoffIsDrawn(t *testing.T) {
	for _, outcome := range []upgrade.Outcome{upgrade.OutcomeRefused, upgrade.OutcomeLater} {
		waits := map[time.Duration]bool{}
		for range 20 {
			waits[backoff(Answer{Outcome: outcome}, 3)] = true
		}
		if len(waits) < 10 {
			t.Errorf("%s: 20 waits have %d values", outcome, len(waits))
		}
	}
}
