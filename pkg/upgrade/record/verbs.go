package record

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// OwnsFence reports whether this run, or an earlier run of the group that is over, fenced the member's node.
func (r *Record) OwnsFence(m *nodegroup.Member) bool {
	run := m.FencedBy()
	return run != "" && (run == r.Run || slices.Contains(r.Earlier, run))
}

// AsUnfencing returns the record of a finished upgrade, opened again only to unfence nodes that have become current.
func (r *Record) AsUnfencing(wanted nodegroup.Revision) Record {
	c := r.Reopened()
	c.Target, c.Phase = wanted, PhaseScaleDown
	return c
}

// Verb is what a user asks of an upgrade, from any machine (GKE G25, G28).
type Verb string

const (
	// VerbPause starts no further node; started nodes are finished.
	VerbPause Verb = "pause"
	// VerbRollback takes a partially upgraded group back to the revision it had before.
	VerbRollback Verb = "rollback"
	// VerbComplete ends a soak before its time.
	VerbComplete Verb = "complete"
	// VerbAbort undoes what the upgrade changed and forgets the upgrade.
	VerbAbort Verb = "abort"
)

// Asked is a user's pending request for a running upgrade. The zero value means none.
type Asked struct {
	Verb Verb `json:"verb"`
	// Run is the upgrade that the user meant: a request for another one is ignored.
	Run string `json:"run"`
	// By and At are who asked and when, for people.
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// DescribeObject returns the object of the verb, as in "the strategy has no ...".
func (v Verb) DescribeObject() string {
	if v == VerbComplete {
		return "soak to end"
	}
	return string(v)
}

// UndoVerb returns the verb that continues a stopped or running undo: VerbAbort or VerbRollback. It returns "" if the
// upgrade itself would continue.
func (r *Record) UndoVerb() Verb {
	switch {
	case !r.IsResumable():
		return ""
	case r.Stopping == Aborted:
		return VerbAbort
	case r.Rollback:
		return VerbRollback
	}
	return ""
}

// WithTarget returns the record of an upgrade that continues to a new target, because the target moved.
func (r *Record) WithTarget(to nodegroup.Revision) Record {
	c := r.Clone()
	moved := to.ID != c.Target.ID
	c.Ledger.MarkMoved(c.Ledger.TargetMoved() || moved)
	if moved && c.Delegation != nil {
		c.Delegation, c.Phase = c.Delegation.NextAttempt(), PhaseSetup
	}
	if moved {
		c.ForgetProven()
	}
	c.Target = to
	return c
}

// ForgetProven clears the note of which workloads start on current nodes, because from now on other nodes are current.
func (r *Record) ForgetProven() {
	r.Workloads = maps.Clone(r.Workloads)
	for name, w := range r.Workloads {
		w.Proven, w.Canary = false, ""
		r.Workloads[name] = w
	}
}

// AsAborting returns the record of an upgrade that is being aborted: what it changed is undone, and nothing of it
// continues.
func (r *Record) AsAborting() Record {
	c := r.Reopened()
	c.Stopping, c.PhaseBegan, c.Soak = Aborted, r.Ended, Soak{}
	c.DropNodesExcept(func(n NodeRecord) bool { return IsRemoving(n) || n.State == NodeDrained }) // an abort unfences the drained nodes that still exist
	c.Ledger.ForgetRefusals()
	return c
}

// AsCompleting returns the record of an upgrade whose soak ends now (GKE G52). If the group's cloud keeps the outdated nodes, the
// cloud must end the soak.
func (r *Record) AsCompleting(now time.Time) Record {
	c := r.Clone()
	if c.Delegation != nil {
		c.Delegation.Completing = c.Delegation.ID
		return c
	}
	c.Soak.Until = now
	return c
}

// IsCompleting reports whether the group's cloud deletes the outdated nodes because a user asked it to end their soak.
func (r *Record) IsCompleting() bool {
	known := r.Delegation
	return r.IsResumable() && r.Phase == PhaseDeleteBlue && known != nil && known.Completing != "" && known.Completing == known.ID
}

// OriginalRevision returns the revision that the group pointed at before the upgrade.
func (r *Record) OriginalRevision() nodegroup.Revision {
	if r.Pointed.ID != "" {
		return r.Pointed
	}
	return r.Previous
}

// HasSetRevision reports whether this upgrade asked the cloud to point the group at the revision. Records of older versions do
// not name the revisions: they asked for the target of the request.
func (r *Record) HasSetRevision(revision string) bool {
	return slices.Contains(r.SetTo, revision) || (r.Request.To != "" && revision == r.Target.ID)
}

// SetOriginalRevision records that a user pointed the group at the revision. Pointed stays empty if that is Previous.
func (r *Record) SetOriginalRevision(at nodegroup.Revision) {
	if r.Pointed = at; at.ID == r.Previous.ID {
		r.Pointed = nodegroup.Revision{}
	}
}

// IsRemoving reports whether the node is being terminated.
func IsRemoving(n NodeRecord) bool { return n.State == NodeRemoving }

// DropNodesExcept removes from the record all nodes except those that keep selects. Callers keep a node that is being
// terminated, until it is gone or its termination has failed.
func (r *Record) DropNodesExcept(keep func(NodeRecord) bool) {
	maps.DeleteFunc(r.Nodes, func(_ string, n NodeRecord) bool { return !keep(n) })
	for name, n := range r.Nodes {
		n.Batch = 0
		r.Nodes[name] = n
	}
}

// IsPausedByRequest reports whether a user asked for the pause; the upgrade can also pause for its own reasons.
func IsPausedByRequest(r *Record) bool { return r.Result == Paused && r.PausedBy != "" }

// AsPaused returns the record, paused by a user, of an upgrade that no process carries out.
func AsPaused(r *Record, group, by string, now time.Time) Record {
	c := r.Clone()
	c.Result, c.PausedBy, c.Message, c.Ended = Paused, by, "", now.UTC().Truncate(time.Second)
	c.Message = PauseMessage(&c, group)
	c.Soak.PauseAt(now)
	return c
}

// PauseMessage returns who or what paused the upgrade, and how to continue it.
func PauseMessage(r *Record, group string) string {
	if r.Message != "" {
		return r.Message
	}
	return DescribePause(r.PausedBy, group)
}

// DescribePause returns who paused the upgrade of the group, and the command that continues it.
func DescribePause(by, group string) string {
	return fmt.Sprintf("paused by %s: run %s to continue", by, nodegroup.Command("resume", group))
}

// GroupsToReport returns the sorted groups that a status without a group name reports: the only one with a record, or
// those with a running upgrade.
func GroupsToReport(records map[string]Record) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if record := records[name]; len(records) == 1 || record.IsRunning() {
			names = append(names, name)
		}
	}
	return names
}

// HasFailedOperation reports whether the cloud's operation has ended without reaching its goal: resuming may begin
// another operation.
func (r *Record) HasFailedOperation() bool {
	return r.Delegation != nil && r.Result != "" && r.Result != Interrupted && r.Result != Waiting
}

// CheckReplan returns an error if a running upgrade may not continue with the request, or to a target that moved. A
// blue-green upgrade may not, because both its old and its new nodes exist already. A cloud keeps the settings that it began with.
func (r *Record) CheckReplan(request *Request, moved bool) error {
	switch own := r.Request.ReplacedBy(); {
	case request.ReplacedBy() != own:
		return fmt.Errorf("it was started with --strategy=%s, which cannot change: remove --strategy, or run %s first", own, nodegroup.Command("abort", r.Request.Group))
	case r.Delegation != nil && !r.Request.hasRolloutOf(request):
		return errors.New("the cloud carries it out with the settings that it was started with: remove --batch, --batch-soak, --soak and --wait-for-drain, or run " + nodegroup.Command("abort", r.Request.Group) + " first")
	case moved && own.Traits().ByAutoscaler:
		return fmt.Errorf("its target has changed from %s, which an autoscaled blue-green upgrade does not allow: run %s first", r.Target.Name, nodegroup.Command("abort", r.Request.Group))
	case moved && !r.Rollback && r.Request.BlueGreen != nil:
		return fmt.Errorf("its target has changed from %s, which a blue-green upgrade does not allow: run %s first", r.Target.Name, nodegroup.Command("rollback", r.Request.Group))
	}
	return nil
}
