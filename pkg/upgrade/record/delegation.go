package record

import (
	"cmp"
	"maps"
	"time"
)

// Delegation is what must be remembered of the cloud's operation.
type Delegation struct {
	// Attempt numbers the requests that begin an operation; it makes their tokens differ.
	Attempt int `json:"attempt"`
	// Before is the group's newest operation when the attempt was decided: a newer one may be ours.
	Before string `json:"before,omitempty"`
	// ID is the operation that is followed, "" until it is seen.
	ID string `json:"id,omitempty"`
	// Newest is when the newest operation that was seen began, by the cloud's clock: a reading that
	// shows an older one is old itself.
	Newest time.Time `json:"newest,omitzero"`
	// NotBefore is when the newest operation of the attempts before began, by the cloud's clock. What began earlier is none of
	// this attempt's, even if the cloud tells of it again after a time in which it did not.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Draining tells, by node, since when its drain has been seen to run.
	Draining map[string]time.Time `json:"draining,omitempty"`
	// Blocked tells since when pods have been blocked, by namespace/name, of those that have been
	// so for a minute.
	Blocked map[string]time.Time `json:"blocked,omitempty"`
	// Unjoined tells since when a current machine has been seen without a node, by instance ID; it
	// keeps those that are gone.
	Unjoined map[string]time.Time `json:"unjoined,omitempty"`
	// LaunchFailure is why a machine could not be launched last, since the operation began.
	LaunchFailure string `json:"launchFailure,omitempty"`
	// Cancels and TakesWidth are what nodegroup.Managed says of the cloud.
	Cancels    bool `json:"cancels,omitempty"`
	TakesWidth bool `json:"takesWidth,omitempty"`
	// Cancelling is the operation that the cloud was asked to cancel for a pause.
	Cancelling string `json:"cancelling,omitempty"`
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

// BlockedSince returns since when the pod, NAMESPACE/NAME, has been blocked, if that is on record. d may be nil.
func (d *Delegation) BlockedSince(pod string) (since time.Time, known bool) {
	if d != nil {
		since, known = d.Blocked[pod]
	}
	return since, known
}

// NextAttempt is what is remembered when another operation is to be begun, where the last one is
// over or leads elsewhere. The token of its request is a new one: a cloud refuses one that it knows
// with another target.
func (d *Delegation) NextAttempt() *Delegation {
	next := &Delegation{Attempt: d.Attempt + 1, Before: cmp.Or(d.ID, d.Before), Newest: d.Newest, NotBefore: d.NotBefore, Cancels: d.Cancels, TakesWidth: d.TakesWidth}
	if d.Newest.After(next.NotBefore) {
		next.NotBefore = d.Newest
	}
	return next
}
