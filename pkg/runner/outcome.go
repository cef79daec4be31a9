package runner

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Answer is a server's answer, sorted.
type Answer struct {
	Outcome upgrade.Outcome
	// Detail is what the server said, for people.
	Detail string
	// After is the server's own wish when to be asked again; zero without one.
	After time.Duration
}

// Sort says what an answer means for the action it answers. It is the only place that looks at
// error codes (semantics 3.1 has the eviction API's, with their sources).
func Sort(err error) Answer {
	var cloudErr *cloud.Error
	switch {
	case err == nil:
		return Answer{Outcome: upgrade.OutcomeDone}
	case errors.As(err, &cloudErr):
		return Answer{Outcome: cloudErr.Outcome, Detail: err.Error()}
	case errors.Is(err, upgrade.ErrMoved), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return Answer{Outcome: upgrade.OutcomeMoved, Detail: err.Error()}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Answer{Outcome: upgrade.OutcomeUnclear, Detail: err.Error()}
	}
	answer := Answer{Outcome: sortStatus(err), Detail: err.Error()}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		answer.After = time.Duration(seconds) * time.Second
	}
	return answer
}

func sortStatus(err error) upgrade.Outcome {
	switch {
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return upgrade.OutcomeRefused
	case apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err),
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), fromWebhook(err):
		return upgrade.OutcomeLater
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "DisruptedPods map too big"):
		return upgrade.OutcomeLater
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
		return upgrade.OutcomeFatal
	default:
		// 5xx, timeouts and broken connections: the request may have been carried out.
		return upgrade.OutcomeUnclear
	}
}

// fromWebhook recognises the answer of an admission webhook, which may use any code: a denial is not a
// missing permission, and some webhooks deny while they move the pod themselves (semantics WH002).
func fromWebhook(err error) bool {
	return strings.Contains(err.Error(), "admission webhook") || strings.Contains(err.Error(), "failed calling webhook")
}
