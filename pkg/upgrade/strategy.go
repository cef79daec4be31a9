package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// strategy is one way to replace a group. It has no state: everything that a run has to remember is in its record.
// Every strategy begins with PhaseSetup, and PhaseDone follows its last phase.
type strategy struct {
	// name is one of Strategies.
	name record.Strategy
	// check returns an error for settings that make no sense with the strategy. claim returns an error for flags that
	// only this strategy takes, if they were typed with another strategy. Both are nil where there is nothing to check.
	check, refuseOwnFlags func(*Settings) error
	// resolve completes the request for a group of the given size and number of outdated nodes. If it is nil, the
	// request is completed as for a surge.
	resolve func(s Settings, r record.Request, group *nodegroup.Group, size, outdated int) (record.Request, error)
	// describe returns one line on what the strategy does with a request; nil for a surge.
	describe func(r *record.Request, provider string) string
	// begin completes the record of a new upgrade. The members are counted already.
	begin  func(*decision)
	phases []phase
	// stop brings an upgrade to rest before its goal. undo takes back what the upgrade added.
	stop, undo func(*decision)
}

// phase is one part of a strategy. Other files use only these properties of a phase and never compare its name.
type phase struct {
	name record.Phase
	// run makes the next step and reports whether the phase is complete.
	run func(*decision) bool
	// onEmpty decides about a node that is empty and settled. onTimeout decides about a node whose drain timeout is over.
	onEmpty   func(*decision, string, record.NodeRecord, *nodegroup.Member)
	onTimeout func(*decision, string, record.NodeRecord)
	// beforeDrains is true if no outdated node is drained before the phase's end. A pause takes effect at once, and the
	// added nodes are given back if creating nodes fails.
	beforeDrains bool
	// stopsOnGroupChange is true if the upgrade stops when another process changes the group's maximum or the protection of
	// its instances during the phase.
	stopsOnGroupChange bool
	// isFinal is true if the group's cloud can no longer be stopped in the phase.
	isFinal bool
	// keepsAllOnStop is true if a stop changes nothing: outdated nodes are kept beside the new ones.
	keepsAllOnStop bool
	// suspendsScaling is true if the phase also suspends the processes that scale the group by themselves, because half of the
	// group is idle for long.
	suspendsScaling bool
	// suspendsNothing is true if the phase suspends no process of the group, because no node is touched.
	suspendsNothing bool
	// maxGrace is the longest grace period that pods are deleted with; 0 keeps each pod's own.
	maxGrace time.Duration
	// capsEvictedGrace applies maxGrace to evicted pods, too.
	capsEvictedGrace bool
	// waitsUntil describes what the upgrade does in a long wait of the phase, such as "it soaks". hasWorkInWait is true if a
	// process that resumes the upgrade during the wait has work to do.
	waitsUntil    string
	hasWorkInWait bool
	// held selects the nodes that autoscalers may not remove in the phase.
	held holding
	// givesBackSurge is true if the phase gives back the added nodes. If the target moves, the upgrade begins again.
	givesBackSurge bool
	// waitsFor is what keeps the next node from being started. If it is "", the step shows what it waits for.
	waitsFor string
	// verbs are the verbs that a user may ask for in the phase.
	verbs []record.Verb
}

// processesToSuspend returns the group's processes that the phase suspends.
func (p phase) processesToSuspend(group *nodegroup.Group) []string {
	switch {
	case p.suspendsNothing:
		return nil
	case p.suspendsScaling:
		return slices.Concat(group.Quiesce, group.Scaling)
	}
	return group.Quiesce
}

// holding is the set of nodes that autoscalers may not remove.
type holding int

const (
	noneHeld holding = iota
	newHeld
	outdatedHeld
	bothHeld
)

// makeStrategy returns the strategy of the name. Every name in record.Strategies has a case; surge is the default.
func makeStrategy(name record.Strategy) strategy {
	switch name {
	case record.BlueGreen:
		return blueGreenStrategy()
	case record.AutoscaledBlueGreen:
		return autoscaledStrategy()
	case record.ShortLived:
		return shortLivedStrategy()
	case record.Delegated:
		return delegatedStrategy()
	default:
		return surgeStrategy()
	}
}

// strategyOf returns the strategy that carries the upgrade out. A rollback is a surge, whatever the upgrade was, unless the group's
// own cloud carries it out.
func strategyOf(name record.Strategy, isRollback bool) strategy {
	if isRollback && !name.Traits().ByCloud {
		name = record.Surge
	}
	name = name.Known()
	s := makeStrategy(name)
	s.name = name
	return s
}

// findPhase returns the phase of the name, or the zero phase if the strategy has none.
func (s strategy) findPhase(name record.Phase) phase {
	for _, p := range s.phases {
		if p.name == name {
			return p
		}
	}
	return phase{}
}

// ProcessesToSuspend returns the processes of the group that the strategy suspends.
func ProcessesToSuspend(s record.Strategy, group *nodegroup.Group) []string {
	return strategyOf(s, false).phases[0].processesToSuspend(group)
}

// Phases returns the phases of a strategy in their order, PhaseDone last.
func Phases(name record.Strategy) []record.Phase {
	var phases []record.Phase
	for _, p := range strategyOf(name, false).phases {
		phases = append(phases, p.name)
	}
	return append(phases, record.PhaseDone)
}

// WaitsFor returns what keeps the next node from being started in the record's phase. If it is "", the step shows what
// it waits for.
func WaitsFor(r *record.Record) string { return phaseOf(r).waitsFor }

// IsWaiting reports whether the upgrade has nothing to do before the end of its long wait.
func IsWaiting(r *record.Record, now time.Time) bool {
	return r.Result == record.Waiting && now.Before(r.Soak.Until) && !phaseOf(r).hasWorkInWait
}

// phaseOf returns the record's phase.
func phaseOf(r *record.Record) phase {
	return strategyOf(r.Request.Strategy, r.Rollback).findPhase(r.Phase)
}

// CheckOffered returns an error with the reason if no phase of the upgrade's strategy allows the verb.
func CheckOffered(r *record.Record, verb record.Verb) error {
	s := strategyOf(r.Request.Strategy, r.Rollback)
	switch reason := nodegroup.InfoOf(r.Provider).Manager.WhyUnsupported(string(verb)); {
	case slices.ContainsFunc(s.phases, func(p phase) bool { return allowsIn(r, p, verb) }):
		return nil
	case r.Delegation != nil && reason != "":
		return errors.New(reason)
	default:
		return fmt.Errorf("its strategy is %s, which has no %s", s.name, verb.DescribeObject())
	}
}

// Allows returns an error with the reason if a user may not ask for the verb in the upgrade's current phase (GKE G25,
// G28). PhaseDone allows only the verbs that every phase allows.
func Allows(r *record.Record, verb record.Verb) error {
	if allowsIn(r, phaseOf(r), verb) {
		return nil
	}
	if err := CheckOffered(r, verb); err != nil {
		return err
	}
	return fmt.Errorf("it is in phase %q, which does not allow %s", r.Phase, verb)
}

// allowsIn reports whether a user may ask for the verb in the phase. In a delegated upgrade, pause, rollback and complete also
// need the cloud's support.
func allowsIn(r *record.Record, p phase, verb record.Verb) bool {
	if r.Delegation == nil {
		return slices.Contains(p.verbs, verb)
	}
	switch verb {
	case record.VerbPause:
		return r.Delegation.Cancels && !p.isFinal
	case record.VerbRollback:
		return r.Delegation.RollsBack && !p.isFinal
	case record.VerbComplete:
		return r.Delegation.EndsSoaks && !r.Rollback && slices.Contains(p.verbs, verb)
	default:
		return slices.Contains(p.verbs, verb)
	}
}

// allowedVerb returns the verb that a user asked for, or "" if the upgrade does not allow it in its phase.
func allowedVerb(r *record.Record, asked record.Asked) record.Verb {
	if asked.Run == "" || asked.Run != r.Run || Allows(r, asked.Verb) != nil {
		return ""
	}
	return asked.Verb
}

// CheckReadable returns an error if a record that can be resumed names a strategy, a phase or a node state that this
// program does not know. Otherwise the upgrade would do nothing, forever. Other programs can write records.
func CheckReadable(r *record.Record) error {
	if r.Run == "" || !r.IsResumable() {
		return nil
	}
	if name := r.Request.Strategy; name != "" && !slices.Contains(record.Strategies(), name) {
		return fmt.Errorf("its strategy %q is unknown", name)
	}
	if r.Phase != record.PhaseDone && phaseOf(r).name != r.Phase {
		return fmt.Errorf("its phase %q is unknown", r.Phase)
	}
	for name, n := range r.Nodes {
		if !slices.Contains(record.NodeStates(), n.State) {
			return fmt.Errorf("the state %q of node %q is unknown", n.State, name)
		}
	}
	return nil
}

// DescribeRequest returns one line on what an upgrade of a group of the provider does, and within which limits.
func DescribeRequest(r *record.Request, provider string) string {
	if describe := strategyOf(r.Strategy, false).describe; describe != nil {
		return describe(r, provider)
	}
	return describeSurge(r, provider)
}
