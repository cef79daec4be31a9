package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// strategy is one way to replace a group. It keeps no state: what a run has to remember is in its
// record. Every strategy begins with PhaseSetup, and PhaseDone follows its last phase.
type strategy struct {
	// name is one of Strategies.
	name record.Strategy
	// check returns an error for settings that make no sense with the strategy, claim one for flags that were typed with
	// another strategy, and that no other takes; both are nil where there are none.
	check, claim func(*Settings) error
	// resolve completes the request of an upgrade of the group, of whose size nodes so many are outdated; nil for
	// that of a surge.
	resolve func(s Settings, r record.Request, group *nodegroup.Group, size, outdated int) (record.Request, error)
	// describe says what the strategy does with a request, in one line; nil for a surge.
	describe func(r *record.Request, provider string) string
	// begin completes the record of a new upgrade, whose census is taken.
	begin  func(*decision)
	phases []phase
	// stop brings an upgrade to rest before its goal, undo takes away what it left.
	stop, undo func(*decision)
}

// phase is one part of a strategy. All that the rest of the package has to know of it are its
// properties: no other file asks for its name.
type phase struct {
	name record.Phase
	// run makes the next step and reports whether the phase is complete.
	run func(*decision) bool
	// emptied is what follows a node that is empty and settled, and late one whose time is over.
	emptied func(*decision, string, record.NodeRecord, *nodegroup.Member)
	late    func(*decision, string, record.NodeRecord)
	// untouched is a phase before whose end no outdated node is drained: a pause comes at once, and
	// a failure to create nodes gives back what was added.
	untouched bool
	// watched is a phase that another actor must not change the group's maximum or protection in.
	watched bool
	// stays is a phase in which a stop leaves all as it is: outdated nodes are kept beside the new.
	stays bool
	// quiet is a phase that suspends what scales the group by itself, too: half of it is idle for
	// long.
	quiet bool
	// calm is a phase that changes no process of the group: no node is touched.
	calm bool
	// mostGrace is the longest grace period that pods are deleted with; 0 for their own.
	mostGrace time.Duration
	// capsLeaving has that hold for pods that were evicted, too.
	capsLeaving bool
	// waitsUntil is what the upgrade does in a long wait of the phase: "it soaks". looksIn is one
	// in which there is work for who looks in before it is over.
	waitsUntil string
	looksIn    bool
	// held are the nodes that autoscalers are kept from in the phase.
	held holding
	// givesBack is a phase in which what was added is given back: another target begins again.
	givesBack bool
	// waitsFor is what keeps the next node from being started, "" for what the step waits for.
	waitsFor string
	// verbs are what a user may ask for in it.
	verbs []record.Verb
}

// listProcesses are the processes of the group that the phase suspends.
func (p phase) listProcesses(group *nodegroup.Group) []string {
	switch {
	case p.calm:
		return nil
	case p.quiet:
		return slices.Concat(group.Quiesce, group.Scaling)
	}
	return group.Quiesce
}

// holding tells which nodes autoscalers are kept from.
type holding int

const (
	noneHeld holding = iota
	newHeld
	outdatedHeld
	bothHeld
)

// makeStrategy returns how the strategy of the name is carried out. Every name of Strategies has a case.
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

// strategyOf is the strategy that carries the upgrade out. The way back is a surge, whatever the
// upgrade was.
func strategyOf(name record.Strategy, back bool) strategy {
	if back {
		name = record.Surge
	}
	name = name.Known()
	s := makeStrategy(name)
	s.name = name
	return s
}

// findPhase is the phase of the name; the zero phase where the strategy has none.
func (s strategy) findPhase(name record.Phase) phase {
	for _, p := range s.phases {
		if p.name == name {
			return p
		}
	}
	return phase{}
}

// ListProcesses are the processes of the group that the strategy suspends.
func ListProcesses(s record.Strategy, group *nodegroup.Group) []string {
	return strategyOf(s, false).phases[0].listProcesses(group)
}

// Phases are the phases of a strategy in their order, PhaseDone last.
func Phases(name record.Strategy) []record.Phase {
	var phases []record.Phase
	for _, p := range strategyOf(name, false).phases {
		phases = append(phases, p.name)
	}
	return append(phases, record.PhaseDone)
}

// WaitsFor is what keeps the next node from being started in the phase that the record is in, ""
// for what the step waits for.
func WaitsFor(r *record.Record) string { return phaseOf(r).waitsFor }

// IsWaiting reports whether nothing is to be done for the upgrade before the end of its wait.
func IsWaiting(r *record.Record, now time.Time) bool {
	return r.Result == record.Waiting && now.Before(r.Soak.Until) && !phaseOf(r).looksIn
}

// currentPhase is the phase that the record is in.
func phaseOf(r *record.Record) phase {
	return strategyOf(r.Request.Strategy, r.Back).findPhase(r.Phase)
}

// CheckOffered reports, as an error that says why, whether the upgrade's strategy has the verb in
// any of its phases.
func CheckOffered(r *record.Record, verb record.Verb) error {
	s := strategyOf(r.Request.Strategy, r.Back)
	switch reason := nodegroup.InfoOf(r.Provider).Manager.WhyNot(string(verb)); {
	case slices.ContainsFunc(s.phases, func(p phase) bool { return allowsIn(r, p, verb) }):
		return nil
	case r.Delegation != nil && reason != "":
		return errors.New(reason)
	default:
		return fmt.Errorf("its strategy is %s, which has no %s", s.name, verb.DescribeObject())
	}
}

// Allows reports, as an error that says why, whether a user may ask for the verb in the phase that
// the upgrade is in (GKE G25, G28). PhaseDone allows none but those that every phase allows.
func Allows(r *record.Record, verb record.Verb) error {
	if allowsIn(r, phaseOf(r), verb) {
		return nil
	}
	if err := CheckOffered(r, verb); err != nil {
		return err
	}
	return fmt.Errorf("it is in the phase %q, in which the verb %s is not possible", r.Phase, verb)
}

// allowsIn reports whether a user may ask for the verb in the phase: the strategy has it, or the cloud that carries the upgrade out.
func allowsIn(r *record.Record, p phase, verb record.Verb) bool {
	return slices.Contains(p.verbs, verb) || verb == record.VerbPause && r.Delegation != nil && r.Delegation.Cancels
}

// findAllowed is the verb that is asked of the upgrade, "" for one that it does not allow in its
// phase.
func findAllowed(r *record.Record, asked record.Asked) record.Verb {
	if asked.Run == "" || asked.Run != r.Run || Allows(r, asked.Verb) != nil {
		return ""
	}
	return asked.Verb
}

// CheckReadable returns an error when a record that can be resumed names a strategy, a phase or a state
// of a node that this program does not have: nothing would be done for it, without an end. Others can
// write records.
func CheckReadable(r *record.Record) error {
	if r.Run == "" || !r.IsResumable() {
		return nil
	}
	if name := r.Request.Strategy; name != "" && !slices.Contains(record.Strategies(), name) {
		return fmt.Errorf("its strategy %q is not known", name)
	}
	if r.Phase != record.PhaseDone && phaseOf(r).name != r.Phase {
		return fmt.Errorf("its phase %q is not known", r.Phase)
	}
	for name, n := range r.Nodes {
		if !slices.Contains(record.NodeStates(), n.State) {
			return fmt.Errorf("the state %q of node %q is not known", n.State, name)
		}
	}
	return nil
}

// DescribeRequest says in one line what an upgrade of a group of the provider does, and in which limits.
func DescribeRequest(r *record.Request, provider string) string {
	if describe := strategyOf(r.Strategy, false).describe; describe != nil {
		return describe(r, provider)
	}
	return describeSurge(r, provider)
}
