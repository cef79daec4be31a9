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
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

var (
	pods    = schema.GroupResource{Resource: "pods"}
	nodes   = schema.GroupResource{Resource: "nodes"}
	budgets = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudget"}
)

// overBudget returns the refusal of the eviction API (eviction.go, checkAndDecrement). A
// Retry-After of 0 means none.
func overBudget(why string, retryAfter int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: why})
	return err
}

// endingNamespace returns the refusal of admission to create anything in a namespace that is being
// deleted (namespace/lifecycle/admission.go).
func endingNamespace() error {
	err := apierrors.NewForbidden(pods, "web-0", errors.New("unable to create new content in namespace shop because it is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: "namespace shop is being terminated", Field: "metadata.namespace",
	})
	return err
}

// twoBudgets returns the only status that the eviction API builds by hand, without a reason.
func twoBudgets() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	}}
}

// deniedByWebhook returns an answer with the code and reason that the webhook chose
// (webhook/errors/statuserror.go).
func deniedByWebhook(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: `admission webhook "drain.example.com" denied the request: the pod is being moved`,
	}}
}

// deniedByPolicy returns the answer of a ValidatingAdmissionPolicy with the default reason
// (policy/validating/dispatcher.go).
func deniedByPolicy() error {
	err := apierrors.NewForbidden(pods, "web-0",
		errors.New("ValidatingAdmissionPolicy 'hours' with binding 'all' denied request: no evictions before noon"))
	err.ErrStatus.Reason, err.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	return err
}

// throttled returns client-go's error for the plain text with which priority and fairness refuses.
func throttled() error {
	return apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "post", pods, "web-0", "Too many requests, please try again later.", 1, true)
}

func connectionError(err error) error {
	return &url.Error{Op: "Post", URL: "https://10.0.0.1/api/v1", Err: err}
}

// TestEvictionAnswersAreClassified has a case for each row of the table of answers (Kubernetes K10).
func TestEvictionAnswersAreClassified(t *testing.T) {
	uid := errors.New("the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted and then recreated")
	cases := map[string]struct {
		err   error
		want  nodegroup.Outcome
		after time.Duration
	}{
		"accepted":                      {nil, nodegroup.OutcomeDone, 0},
		"no such pod":                   {apierrors.NewNotFound(pods, "web-0"), nodegroup.OutcomeMoved, 0},
		"budget spent":                  {overBudget("The disruption budget web needs 3 healthy pods and has 3 currently", 0), nodegroup.OutcomeRefused, 0},
		"budget without a count":        {overBudget("The disruption budget web does not allow evicting pods currently because it failed sync: x", 0), nodegroup.OutcomeRefused, 0},
		"budget just spent":             {overBudget("The disruption budget web does not allow evicting pods currently", 0), nodegroup.OutcomeRefused, 0},
		"budget not processed yet":      {overBudget("The disruption budget web is still being processed by the server.", 10), nodegroup.OutcomeRefused, 10 * time.Second},
		"two budgets":                   {twoBudgets(), nodegroup.OutcomeUnclear, 0},
		"budget below zero":             {apierrors.NewForbidden(budgets, "web", errors.New("pdb disruptions allowed is negative")), nodegroup.OutcomeFatal, 0},
		"too many disrupted pods":       {apierrors.NewForbidden(budgets, "web", errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller")), nodegroup.OutcomeLater, 0},
		"budget changed all the time":   {apierrors.NewTimeoutError(`couldn't update PodDisruptionBudget "web" due to conflicts`, 10), nodegroup.OutcomeUnclear, 10 * time.Second},
		"another pod of that name":      {apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, "web-0", uid), nodegroup.OutcomeMoved, 0},
		"namespace is being deleted":    {endingNamespace(), nodegroup.OutcomeLater, 0},
		"name in body differs":          {apierrors.NewBadRequest("name in URL does not match name in Eviction object"), nodegroup.OutcomeFatal, 0},
		"unknown option":                {apierrors.NewInvalid(schema.GroupKind{Kind: "DeleteOptions"}, "", nil), nodegroup.OutcomeFatal, 0},
		"priority and fairness":         {throttled(), nodegroup.OutcomeLater, time.Second},
		"webhook denies":                {deniedByWebhook(http.StatusForbidden, metav1.StatusReasonForbidden), nodegroup.OutcomeLater, 0},
		"a wait of ten years":           {overBudget("spent", 315360000), nodegroup.OutcomeRefused, 30 * time.Second},
		"webhook denies with 400":       {deniedByWebhook(http.StatusBadRequest, ""), nodegroup.OutcomeLater, 0},
		"webhook denies with 404":       {deniedByWebhook(http.StatusNotFound, metav1.StatusReasonNotFound), nodegroup.OutcomeLater, 0},
		"webhook denies with 409":       {deniedByWebhook(http.StatusConflict, metav1.StatusReasonConflict), nodegroup.OutcomeLater, 0},
		"webhook denies with 422":       {deniedByWebhook(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), nodegroup.OutcomeLater, 0},
		"webhook does not answer":       {apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", "drain.example.com", context.DeadlineExceeded)), nodegroup.OutcomeLater, 0},
		"admission policy denies":       {deniedByPolicy(), nodegroup.OutcomeLater, 0},
		"a wrapped refusal is the same": {fmt.Errorf("evicting pod shop/web-0: %w", overBudget("spent", 0)), nodegroup.OutcomeRefused, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { wantAnswer(t, ClassifyAnswer(c.err), c.err, c.want, c.after) })
	}
}

// TestAnswersToAnyRequestAreClassified has the answers that any request may get.
func TestAnswersToAnyRequestAreClassified(t *testing.T) {
	cases := map[string]struct {
		err   error
		want  nodegroup.Outcome
		after time.Duration
	}{
		"the cache knew better":      {fmt.Errorf("fencing node a: %w", nodegroup.ErrMoved), nodegroup.OutcomeMoved, 0},
		"node of another version":    {apierrors.NewConflict(nodes, "a", errors.New("the object has been modified")), nodegroup.OutcomeMoved, 0},
		"RBAC":                       {apierrors.NewForbidden(nodes, "a", errors.New(`User "u" cannot patch resource "nodes" in API group "" at the cluster scope`)), nodegroup.OutcomeFatal, 0},
		"credentials expired":        {apierrors.NewUnauthorized("Unauthorized"), nodegroup.OutcomeLater, 0},
		"verb is not supported":      {apierrors.NewMethodNotSupported(nodes, "patch"), nodegroup.OutcomeFatal, 0},
		"server has an error":        {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), nodegroup.OutcomeUnclear, 0},
		"server is going down":       {apierrors.NewServiceUnavailable("apiserver is shutting down"), nodegroup.OutcomeUnclear, 0},
		"server asks for time":       {apierrors.NewServerTimeout(pods, "patch", 3), nodegroup.OutcomeUnclear, 3 * time.Second},
		"connection reset":           {connectionError(errors.New("read: connection reset by peer")), nodegroup.OutcomeUnclear, 0},
		"connection cut":             {connectionError(io.ErrUnexpectedEOF), nodegroup.OutcomeUnclear, 0},
		"deadline":                   {connectionError(context.DeadlineExceeded), nodegroup.OutcomeUnclear, 0},
		"given up by us":             {connectionError(context.Canceled), nodegroup.OutcomeUnclear, 0},
		"cloud: gone":                {cloudError(nodegroup.OutcomeMoved), nodegroup.OutcomeMoved, 0},
		"cloud: throttled":           {cloudError(nodegroup.OutcomeLater), nodegroup.OutcomeLater, 0},
		"cloud: no answer":           {cloudError(nodegroup.OutcomeUnclear), nodegroup.OutcomeUnclear, 0},
		"cloud: no capacity":         {cloudError(nodegroup.OutcomeExhausted), nodegroup.OutcomeExhausted, 0},
		"cloud: denied":              {cloudError(nodegroup.OutcomeFatal), nodegroup.OutcomeFatal, 0},
		"a cloud's verdict is final": {&cloud.Error{Outcome: nodegroup.OutcomeLater, Err: apierrors.NewNotFound(nodes, "a")}, nodegroup.OutcomeLater, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { wantAnswer(t, ClassifyAnswer(c.err), c.err, c.want, c.after) })
	}
}

func TestDetailSaysIfAPIServerDoesNotAnswer(t *testing.T) {
	gone := connectionError(errors.New("connection reset by peer"))
	cases := map[string]struct {
		err  error
		want string
	}{
		"an answer": {fmt.Errorf("fencing: %w", apierrors.NewServiceUnavailable("shutting down")), "fencing: shutting down"},
		"no answer": {fmt.Errorf("fencing: %w", gone), "the API server does not answer: connection reset by peer"},
		"no credentials": {
			fmt.Errorf("fencing: %w", connectionError(errors.New("getting credentials: exec: executable aws failed with exit code 255"))),
			"no credentials for the API server: exec: executable aws failed with exit code 255: log in again",
		},
		"no answer of the cloud": {&cloud.Error{Err: gone}, (&cloud.Error{Err: gone}).Error()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ClassifyAnswer(c.err).Detail; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func cloudError(outcome nodegroup.Outcome) error {
	return fmt.Errorf("terminating i-1: %w", &cloud.Error{Outcome: outcome, Err: errors.New("the cloud says so")})
}

func wantAnswer(t *testing.T, got Answer, err error, outcome nodegroup.Outcome, after time.Duration) {
	t.Helper()
	want := Answer{Outcome: outcome, After: after}
	if err != nil {
		want.Detail = describeError(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRetryDelayStaysWithinBoundsOfOutcome(t *testing.T) {
	bounds := func(outcome nodegroup.Outcome, tries int) (least, below time.Duration) {
		switch outcome {
		case nodegroup.OutcomeDone:
			return 0, 1
		case nodegroup.OutcomeRefused, nodegroup.OutcomeExhausted:
			return 30 * time.Second, time.Minute
		}
		rest := []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 30000}[min(tries, 7)-1] * time.Millisecond
		if outcome == nodegroup.OutcomeUnclear {
			rest = min(rest, 10*time.Second)
		}
		return rest / 2, rest * 3 / 2
	}
	rapid.Check(t, func(t *rapid.T) {
		answer := Answer{
			Outcome: rapid.SampledFrom([]nodegroup.Outcome{
				nodegroup.OutcomeDone, nodegroup.OutcomeMoved, nodegroup.OutcomeRefused, nodegroup.OutcomeLater,
				nodegroup.OutcomeUnclear, nodegroup.OutcomeExhausted, nodegroup.OutcomeFatal,
			}).Draw(t, "outcome"),
			After: time.Duration(rapid.SampledFrom([]int{0, 1, 10, 100}).Draw(t, "after")) * time.Second,
		}
		tries := rapid.IntRange(1, 1000).Draw(t, "tries")
		least, below := bounds(answer.Outcome, tries)
		if answer.Outcome != nodegroup.OutcomeDone {
			least, below = max(least, answer.After), max(below, answer.After+1)
		}
		if got := retryDelay(answer, tries); got < least || got >= below {
			t.Errorf("%s after %d tries, asked to wait %s: rests %s, want from %s and below %s", answer.Outcome, tries, answer.After, got, least, below)
		}
	})
}

// TestBackoffIsJittered checks that pauses differ, so that many nodes that were refused together
// are not retried together.
func TestBackoffIsJittered(t *testing.T) {
	for _, outcome := range []nodegroup.Outcome{nodegroup.OutcomeRefused, nodegroup.OutcomeLater} {
		waits := map[time.Duration]bool{}
		for range 20 {
			waits[retryDelay(Answer{Outcome: outcome}, 3)] = true
		}
		if len(waits) < 10 {
			t.Errorf("%s: 20 waits have %d values", outcome, len(waits))
		}
	}
}
