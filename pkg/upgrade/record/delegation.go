package record

import (
	"cmp"
	"maps"
	"time"
)

// Delegation is what is remembered about the cloud's own operation.
type Delegation struct {
	// Attempt is the number of the request that begins an operation; it makes the tokens differ.
	Attempt int `json:"attempt"`
	// Before is the group's newest operation when the attempt was decided. A newer operation may belong to this
	// upgrade.
	Before string `json:"before,omitempty"`
	// ID is the operation that the upgrade follows; "" until it is seen.
	ID string `json:"id,omitempty"`
	// Newest is when the newest operation that was seen began, by the cloud's clock. A reading that shows only older
	// operations is outdated.
	Newest time.Time `json:"newest,omitzero"`
	// NotBefore is when the newest operation of earlier attempts began, by the cloud's clock. This operation and those that
	// began earlier do not belong to this attempt, even if the cloud shows them again after a gap.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Draining holds the times since which drains have been seen, by node.
	Draining map[string]time.Time `json:"draining,omitempty"`
	// Blocked holds the times since which pods have been blocked, by namespace/name. It lists only those that have been
	// blocked for a minute.
	Blocked map[string]time.Time `json:"blocked,omitempty"`
	// Unjoined holds the times since which current machines have been seen without a node, by instance ID. It keeps
	// machines that are gone.
	Unjoined map[string]time.Time `json:"unjoined,omitempty"`
	// LaunchFailure is the last reason why a machine could not be launched since the operation began.
	LaunchFailure string `json:"launchFailure,omitempty"`
	// Cancels, RollsBack, EndsSoaks and TakesWidth are copied from nodegroup.Managed.
	Cancels    bool `json:"cancels,omitempty"`
	RollsBack  bool `json:"rollsBack,omitempty"`
	EndsSoaks  bool `json:"endsSoaks,omitempty"`
	TakesWidth bool `json:"takesWidth,omitempty"`
	// Cancelling is the operation that the cloud was asked to cancel for a pause.
	Cancelling string `json:"cancelling,omitempty"`
	// Completing is the operation whose soak a user asked to end.
	Completing string `json:"completing,omitempty"`
	// Succeeded is when the operation was first seen to have succeeded.
	Succeeded time.Time `json:"succeeded,omitzero"`
}

func (d *Delegation) cloneDelegation() *Delegation {
	if d == nil {
		return nil
	}
	c := *d
	c.Draining, c.Blocked = maps.Clone(d.Draining), maps.Clone(d.Blocked)
	return &c
}

// BlockedSince returns since when the pod, NAMESPACE/NAME, has been blocked, if that is recorded. d may be nil.
func (d *Delegation) BlockedSince(pod string) (since time.Time, known bool) {
	if d != nil {
		since, known = d.Blocked[pod]
	}
	return since, known
}

// NextAttempt returns what to remember for beginning another operation, after the last one is over or has another
// target. Its request has a new token, because a cloud refuses a known token with another target.
func (d *Delegation) NextAttempt() *Delegation {
	next := &Delegation{Attempt: d.Attempt + 1, Before: cmp.Or(d.ID, d.Before), Newest: d.Newest, NotBefore: d.NotBefore, Cancels: d.Cancels, RollsBack: d.RollsBack, EndsSoaks: d.EndsSoaks, TakesWidth: d.TakesWidth}
	if d.Newest.After(next.NotBefore) {
		next.NotBefore = d.Newest
	}
	return next
}
