package upgrade

import (
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// retryReportedAfter is how long a request is retried before the status shows it.
	retryReportedAfter = 10 * time.Second
	// retriesKept is how long a request without effect is remembered after the upgrade stopped making it. The
	// upgrade may make it again.
	retriesKept = time.Minute
	// retriesInStop is how long a stop or an abort retries a request before it skips it.
	retriesInStop = 5 * time.Minute
)

// Retry is the history of a request that has had no effect yet.
type Retry struct {
	// Since is when the request was first made, without time in which no process decided. Asked is when it was last made.
	// Detail is the last answer, or "".
	Since, Asked time.Time
	Detail       string
}

// watchRetries notes since when each request of the step has been tried. The status shows the one that has been tried
// for longest. The upgrade stops if that is longer than new nodes may take to come up.
func (d *decision) watchRetries() {
	slices.Sort(d.requested)
	var longest nodegroup.Attempt
	var found Retry
	told := 0
	for _, key := range slices.Compact(d.requested) {
		attempt, begun := d.w.Open[key]
		retry := d.noteRetry(key, attempt)
		if !begun {
			continue
		}
		if at := retry.Since.Add(retryReportedAfter); d.w.Now.Before(at) {
			d.requeueAt(at)
			continue
		}
		if told++; longest.Action == nil || retry.Since.Before(found.Since) {
			longest, found = attempt, retry
		}
	}
	d.keepRetries()
	if longest.Action == nil {
		return
	}
	d.retried = record.Retried{Action: longest.Action.String(), Detail: found.describe(longest), Since: found.Since, More: told - 1}
	d.limitRetry(longest.Action, found)
}

// noteRetry notes the request and returns its history. Idle time does not count.
func (d *decision) noteRetry(key string, attempt nodegroup.Attempt) Retry {
	retry, known := d.w.Notes.Retries[key]
	if retry.Since = retry.Since.Add(d.w.Idle); !known {
		retry.Since = d.w.Now
	}
	retry.Asked = d.w.Now
	if attempt.Detail != "" {
		retry.Detail = attempt.Detail
	}
	d.notes.Retries[key] = retry
	return retry
}

// keepRetries keeps the notes on requests that this step did not make. A step that changes a node's state may skip the
// node's requests, and the next step makes them again.
func (d *decision) keepRetries() {
	for key, retry := range d.w.Notes.Retries {
		attempt, begun := d.w.Open[key]
		_, asked := d.notes.Retries[key]
		if asked || !begun || attempt.Outcome == nodegroup.OutcomeDone || d.w.Now.Sub(retry.Asked) > retriesKept {
			continue
		}
		retry.Since = retry.Since.Add(d.w.Idle)
		d.notes.Retries[key] = retry
	}
}

// describe returns the request's last answer, or that there is none.
func (r Retry) describe(attempt nodegroup.Attempt) string {
	switch {
	case r.Detail != "":
		return r.Detail
	case attempt.Outcome == nodegroup.OutcomeDone:
		return "the cloud accepted it, but it has had no effect yet"
	default:
		return "it has had no answer yet"
	}
}

// limitRetry stops an upgrade whose request has been tried for too long.
func (d *decision) limitRetry(action nodegroup.Action, retry Retry) {
	if isOptional(action) || hasOwnLimit(action) || d.rec.Stopping != "" {
		return
	}
	limit := retry.Since.Add(d.rec.Request.BootTimeout.Duration)
	d.requeueAt(limit)
	if d.w.Now.Before(limit) {
		return
	}
	d.stopUpgradeWith(record.Failed, fmt.Sprintf("to %s: it has had no effect for %s: %s", action, d.w.Now.Sub(retry.Since).Round(time.Second), d.retried.Detail))
}

// hasOwnLimit reports whether the duration of the action is limited elsewhere.
func hasOwnLimit(action nodegroup.Action) bool {
	switch action.(type) {
	case nodegroup.AddCapacity, nodegroup.Delegate, nodegroup.CancelOperation, nodegroup.EndSoak:
		return true
	default:
		return false
	}
}

// isTriedTooLong reports whether a stop or an abort has tried the action for long enough and skips it.
func (d *decision) isTriedTooLong(a nodegroup.Action) bool {
	retry, known := d.w.Notes.Retries[a.Key()]
	attempt := d.lastAttempt(a)
	accepted := attempt.Outcome == nodegroup.OutcomeDone && nodegroup.IsCloudAction(a)
	return known && !accepted && !attempt.InFlight && d.rec.Stopping != "" && !d.w.Now.Before(retry.Since.Add(retriesInStop))
}
