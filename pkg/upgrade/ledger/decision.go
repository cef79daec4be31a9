package ledger

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// View is all that a decision about the group's size rests on beside the books.
type View struct {
	Now   time.Time
	Group *nodegroup.Group
	// Open holds, by Action.Key, each action that was begun: whether it is in flight, and how it
	// last ended.
	Open   map[string]nodegroup.Attempt
	Counts Counts
	Limits Limits
	// Run names the upgrade, and PhaseBegan is when it began or continued with the phase it is in.
	Run        string
	PhaseBegan time.Time
	// Before are the group's sizes before the upgrade.
	Before nodegroup.Sizes
	// Quiesce are the processes to suspend, Suspended those that the upgrade suspended.
	Quiesce   []string
	Suspended []string
}

// Counts counts the members of the group.
type Counts struct {
	// Left counts, by the ledger's zones, outdated members that are still to be terminated.
	Left map[string]int
	// Shrinking counts, by the ledger's zones, the terminations that are to shrink the group and
	// have not landed.
	Shrinking map[string]int
	// Zones counts all members by their own zone.
	Zones map[string]int
	// Instances counts those that are not on their way out.
	Instances int
	// Fresh counts current members that were not there at the start, Usable those of them fit for
	// pods, and UsableIn the latter by the ledger's zones.
	Fresh    int
	Usable   int
	UsableIn map[string]int
	// Serving counts the members that take pods, or would but for our fence or for what is not our
	// doing: all but those being removed and new ones that are not usable yet.
	Serving int
}

// Limits are what the request allows, in nodes.
type Limits struct {
	Surge          int
	MaxUnavailable int
	// KeepMax forbids to raise the group's maximum.
	KeepMax bool
	// TakesTurns has one zone have all of the surge at a time.
	TakesTurns bool
	// Refilled has an autoscaler make up for what is removed, where that is needed: nothing is
	// launched for it, and nothing owed.
	Refilled bool
}

// Decision is what follows from a look at the books.
type Decision struct {
	Actions []nodegroup.Action
	// Poll asks for the group to be read often, because something of ours is under way there, and
	// Waiting says what the upgrade waits for, "" for what was said before.
	Poll    bool
	Waiting string
	// Wake is the next time that is known to matter, zero for none.
	Wake time.Time
	// Done reports that nothing is left to do or to wait for.
	Done bool
}

// Keeper keeps a ledger by what one step sees. Each of its methods that returns a Decision begins a
// new one.
type Keeper struct {
	View
	l       *Ledger
	decided Decision
}

// Keeper keeps the ledger by the view.
func (l *Ledger) Keeper(v View) Keeper { return Keeper{View: v, l: l} }

// askCloudOften has the group be read often. With "" what was waited for before stands.
func (k *Keeper) askCloudOften(reason string) {
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

// finishDecision is the decision, which is done or has to be made again.
func (k *Keeper) finishDecision(done bool) Decision {
	k.decided.Done = done
	return k.decided
}

// lastAttempt is the last try of the action; the zero Attempt if there was none.
func (v *View) lastAttempt(a nodegroup.Action) nodegroup.Attempt { return v.Open[a.Key()] }

// ZoneLaunchRefusal is why launches that name a zone are not to be had, "" when they are. open
// holds the attempts as View.Open does.
func ZoneLaunchRefusal(open map[string]nodegroup.Attempt) string {
	first := ""
	for key, attempt := range open {
		if attempt.Outcome == nodegroup.OutcomeUnsupported && !attempt.InFlight && (first == "" || key < first) {
			first = key
		}
	}
	return open[first].Detail
}

// Token names request number serial for a zone in this run; a cloud accepts up to 64 characters of
// it.
func Token(run, zone string, serial int) string {
	return fmt.Sprintf("%s-%s-%d", run, zone, serial)
}
