package ledger

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// View is everything, except the ledger, that a decision about the group's size depends on.
type View struct {
	Now   time.Time
	Group *nodegroup.Group
	// Open holds each action that was begun, by Action.Key: whether it is in flight, and how it last ended.
	Open   map[string]nodegroup.Attempt
	Counts Counts
	Limits Limits
	// Run names the upgrade. PhaseBegan is when its current phase began or was resumed.
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
	// Left counts, by the ledger's zones, outdated members that must still be terminated.
	Left map[string]int
	// Shrinking counts, by the ledger's zones, the terminations that will shrink the group and have not landed.
	Shrinking map[string]int
	// Zones counts all members by their own zone.
	Zones map[string]int
	// Instances counts the members that are not terminating.
	Instances int
	// Fresh counts current members that did not exist at the start. Usable counts those of them that can take pods, and
	// UsableIn does so by the ledger's zones.
	Fresh    int
	Usable   int
	UsableIn map[string]int
	// Serving counts the members that take pods, or would without the upgrade's fence or reasons outside the upgrade:
	// all except those being removed and new ones that are not usable yet.
	Serving int
}

// Limits are what the request allows, in nodes.
type Limits struct {
	Surge          int
	MaxUnavailable int
	// KeepMax forbids raising the group's maximum.
	KeepMax bool
	// TakesTurns gives all of the surge to one zone at a time.
	TakesTurns bool
	// Refilled leaves it to an autoscaler to replace removed nodes where they are needed. The upgrade launches none for
	// that, and gives none back.
	Refilled bool
}

// Decision is what a Keeper decided.
type Decision struct {
	Actions []nodegroup.Action
	// Poll requests that the group is read often, because an action of the upgrade is under way there. Waiting is what
	// the upgrade waits for, "" to keep the previous text.
	Poll    bool
	Waiting string
	// Wake is the next time that is known to matter, zero for none.
	Wake time.Time
	// Done is true if nothing is left to do or to wait for.
	Done bool
}

// Keeper changes a ledger by what one step sees. Each of its methods that returns a Decision begins a new one.
type Keeper struct {
	View
	l       *Ledger
	decided Decision
}

// Keeper returns a keeper of the ledger for the view.
func (l *Ledger) Keeper(v View) Keeper { return Keeper{View: v, l: l} }

// pollCloudSoon requests that the group is read often. "" keeps the previous reason.
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

// finishDecision returns the decision. done is false if it must be made again.
func (k *Keeper) finishDecision(done bool) Decision {
	k.decided.Done = done
	return k.decided
}

// lastAttempt returns the last attempt of the action, or the zero Attempt if there was none.
func (v *View) lastAttempt(a nodegroup.Action) nodegroup.Attempt { return v.Open[a.Key()] }

// ZoneLaunchRefusal returns why launches that name a zone are not supported; "" if they are. open holds the attempts as
// View.Open does.
func ZoneLaunchRefusal(open map[string]nodegroup.Attempt) string {
	first := ""
	for key, attempt := range open {
		if attempt.Outcome == nodegroup.OutcomeUnsupported && !attempt.InFlight && (first == "" || key < first) {
			first = key
		}
	}
	return open[first].Detail
}

// Token returns the token of request number serial for a zone in this run. A cloud accepts up to 64 characters of it.
func Token(run, zone string, serial int) string {
	return fmt.Sprintf("%s-%s-%d", run, zone, serial)
}
