package runner

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// Answer is a server's answer to an action.
type Answer struct {
	Outcome nodegroup.Outcome
	// Detail is the server's text for people.
	Detail string
	// After is the pause that the server asks for before a retry, at most refusalDelay; zero for
	// none. An admission webhook can set it, too.
	After time.Duration
}

// ClassifyAnswer returns what an answer means for its action. It is the only function that looks at
// error codes (Kubernetes K10 lists those of the eviction API).
func ClassifyAnswer(err error) Answer {
	if err == nil {
		return Answer{Outcome: nodegroup.OutcomeDone}
	}
	answer := Answer{Outcome: classifyError(err), Detail: describeError(err)}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		answer.After = min(time.Duration(seconds)*time.Second, refusalDelay)
	}
	return answer
}

// noCredentials is the beginning of client-go's error for a request that was not sent, because the
// kubeconfig's credential plugin failed (plugin/pkg/client/auth/exec/exec.go, RoundTrip). Each
// request runs the plugin again.
const noCredentials = "getting credentials: "

// describeError returns an error's text for people. If no API server answered, it returns the
// reason without the request's URL.
func describeError(err error) string {
	var cloudErr *cloud.Error
	var unanswered *url.Error
	if errors.As(err, &unanswered) && !errors.As(err, &cloudErr) {
		text := unanswered.Err.Error()
		if reason, ok := strings.CutPrefix(text, noCredentials); ok {
			return "no credentials for the API server: " + reason + ": log in again"
		}
		return "the API server does not answer: " + text
	}
	return err.Error()
}

func classifyError(err error) nodegroup.Outcome {
	var cloudErr *cloud.Error
	var unreadable *nodemark.UnreadableError
	switch {
	case errors.As(err, &cloudErr):
		return cloudErr.Outcome
	case errors.As(err, &unreadable): // the next try would get the same answer
		return nodegroup.OutcomeFatal
	case errors.Is(err, errLeaseNotRenewed):
		return nodegroup.OutcomeLater
	case isAdmissionDenial(err): // must come before the status codes, because an admission denial may use any of them
		return nodegroup.OutcomeLater
	case errors.Is(err, nodegroup.ErrMoved), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nodegroup.OutcomeMoved
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nodegroup.OutcomeUnclear
	default:
		return classifyStatus(err)
	}
}

func classifyStatus(err error) nodegroup.Outcome {
	switch {
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return nodegroup.OutcomeRefused
	case apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err),
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nodegroup.OutcomeLater
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "DisruptedPods map too big"):
		return nodegroup.OutcomeLater
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
		return nodegroup.OutcomeFatal
	default:
		// 5xx, timeouts and broken connections: the request may have been carried out.
		return nodegroup.OutcomeUnclear
	}
}

// isAdmissionDenial recognises the answer of an admission webhook or policy. A denial is not a
// missing permission, and some webhooks deny an eviction while they move the pod themselves
// (WH002). The words are the API server's (webhook/errors/statuserror.go, util/webhook/error.go,
// policy/validating/dispatcher.go).
func isAdmissionDenial(err error) bool {
	text := err.Error()
	return strings.Contains(text, "admission webhook") || strings.Contains(text, "failed calling webhook") ||
		(strings.Contains(text, "ValidatingAdmissionPolicy") && strings.Contains(text, "denied request"))
}
