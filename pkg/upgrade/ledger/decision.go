package ledger

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// View is the input of a decision about the group's size, except the ledger.
type View struct {
	Now   time.Time
	Group *nodegroup.Group
	// Open has, by Action.Key, each started action: whether it is in flight, and its last outcome.
	Open   map[string]nodegroup.Attempt
	Counts Counts
	Limits Limits
	// Run is the upgrade's ID. PhaseBegan is when its phase began or was continued.
	Run        string
	PhaseBegan time.Time
	// Before are the group's sizes before the upgrade.
	Before nodegroup.Sizes
	// Quiesce are the processes to suspend. Suspended are those that the upgrade suspended.
	Quiesce   []string
	Suspended []string
}

// Counts counts the members of the group.
type Counts struct {
	// Left counts, by ledger zone, the outdated members that are not terminated yet.
	Left map[string]int
	// Shrinking counts, by ledger zone, the terminations that shrink the group and have not landed.
	Shrinking map[string]int
	// Zones counts all members by their own zone.
	Zones map[string]int
	// Instances counts the members that are not terminating.
	Instances int
	// Fresh counts the current members that did not exist before the upgrade. Usable counts those of them that take pods,
	// and UsableIn counts these by ledger zone.
	Fresh    int
	Usable   int
	UsableIn map[string]int
	// Serving counts the members that take pods, or would without our fence or a cause outside the upgrade. It excludes
	// members being removed and new members that are not usable yet.
	Serving int
}

// Limits are the request's limits, in nodes.
type Limits struct {
	Surge          int
	MaxUnavailable int
	// KeepMax forbids raising the group's maximum.
	KeepMax bool
	// TakesTurns is true if one zone has the whole surge at a time.
	TakesTurns bool
	// Refilled is true if an autoscaler replaces removed nodes when pods need them. The upgrade then launches nothing and
	// returns nothing.
	Refilled bool
}

// Decision is the result of a Keeper's method.
type Decision struct {
	Actions []nodegroup.Action
	// Poll requests frequent readings of the group, because one of our requests is under way there. Waiting is what the
	// upgrade waits for; "" keeps the text that is set already.
	Poll    bool
	Waiting string
	// Wake is the next known time that matters; zero for none.
	Wake time.Time
	// Done is true if there is nothing left to do or to wait for.
	Done bool
}

// Keeper updates a ledger from the view of one step. Each method that returns a Decision begins a new one.
type Keeper struct {
	View
	l       *Ledger
	decided Decision
}

// Keeper returns a keeper of the ledger for the view.
func (l *Ledger) Keeper(v View) Keeper { return Keeper{View: v, l: l} }

// pollCloudSoon requests frequent readings of the group. A reason of "" keeps the reason that is set
// already.
func (k *Keeper) pollCloudSoon(reason string) {
	k.decided.Poll = true
	if reason != "" {
		k.decided.Waiting = reason
	}
}

func (k *Keeper) addAction(a nodegroup.Action) { k.decided.Actions = append(k.decided.Actions, a) }

func (k *Keeper) requeueAt(at time.Time) {
	if k.decided.Wake.IsZero() || at.Before(k.decided.Wake) {
		k.decided.Wake = at
	}
}

// finishDecision returns the decision and sets whether it is done.
func (k *Keeper) finishDecision(done bool) Decision {
	k.decided.Done = done
	return k.decided
}

// lastAttempt returns the last attempt of the action, or the zero Attempt.
func (v *View) lastAttempt(a nodegroup.Action) nodegroup.Attempt { return v.Open[a.Key()] }

// ZoneLaunchRefusal returns why launches in a named zone are not supported, or "". open has the attempts as in View.Open.
func ZoneLaunchRefusal(open map[string]nodegroup.Attempt) string {
	first := ""
	for key, attempt := range open {
		if attempt.Outcome == nodegroup.OutcomeUnsupported && !attempt.InFlight && (first == "" || key < first) {
			first = key
		}
	}
	return open[first].Detail
}

// Token returns the token of the zone's request number serial in this run. A cloud accepts up to 64 characters.
func Token(run, zone string, serial int) string {
	return fmt.Sprintf("%s-%s-%d", run, zone, serial)
}
