package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// namedStrategy is a strategy that is yet to be made: most of what asks for one asks in each step.
type namedStrategy struct {
	name Strategy
	make func() strategy
}

// allStrategies is the list of all there are, Surge first.
func allStrategies() []namedStrategy {
	return []namedStrategy{
		{Surge, surgeStrategy},
		{BlueGreen, blueGreenStrategy},
		{AutoscaledBlueGreen, autoscaledStrategy},
		{ShortLived, shortLivedStrategy},
		{Delegated, delegatedStrategy},
	}
}

// strategyOf is the strategy that carries the upgrade out. The way back is a surge, whatever the
// upgrade was.
func strategyOf(name Strategy, back bool) strategy {
	all := allStrategies()
	i := slices.IndexFunc(all, func(s namedStrategy) bool { return s.name == name })
	if i < 0 || back {
		i = 0
	}
	s := all[i].make()
	s.name = all[i].name
	return s
}

// findPhase is the phase of the name; the zero phase where the strategy has none.
func (s strategy) findPhase(name Phase) phase {
	for _, p := range s.phases {
		if p.name == name {
			return p
		}
	}
	return phase{}
}

// Strategies are the names of all strategies.
func Strategies() []Strategy {
	var names []Strategy
	for _, s := range allStrategies() {
		names = append(names, s.name)
	}
	return names
}

// ListProcesses are the processes of the group that the strategy suspends.
func (s Strategy) ListProcesses(group *nodegroup.Group) []string {
	return strategyOf(s, false).phases[0].listProcesses(group)
}

// Phases are the phases of a strategy in their order, PhaseDone last.
func Phases(name Strategy) []Phase {
	var phases []Phase
	for _, p := range strategyOf(name, false).phases {
		phases = append(phases, p.name)
	}
	return append(phases, PhaseDone)
}

// WaitsFor is what keeps the next node from being started in the phase that the record is in, ""
// for what the step waits for.
func (r *Record) WaitsFor() string { return r.currentPhase().waitsFor }

// IsWaiting reports whether nothing is to be done for the upgrade before the end of its wait.
func (r *Record) IsWaiting(now time.Time) bool {
	return r.Result == Waiting && now.Before(r.Soak.Until) && !r.currentPhase().looksIn
}

// currentPhase is the phase that the record is in.
func (r *Record) currentPhase() phase {
	return strategyOf(r.Request.Strategy, r.Back).findPhase(r.Phase)
}

// CheckOffered reports, as an error that says why, whether the upgrade's strategy has the verb in
// any of its phases.
func CheckOffered(r *Record, verb Verb) error {
	s := strategyOf(r.Request.Strategy, r.Back)
	switch reason := nodegroup.InfoOf(r.Provider).ManagerCannot(string(verb)); {
	case slices.ContainsFunc(s.phases, func(p phase) bool { return slices.Contains(p.verbs, verb) }):
		return nil
	case r.Delegation != nil && reason != "":
		return errors.New(reason)
	default:
		return fmt.Errorf("its strategy is %s, which has no %s", s.name, verb.describeObject())
	}
}

// Allows reports, as an error that says why, whether a user may ask for the verb in the phase that
// the upgrade is in (GKE G25, G28). PhaseDone allows none but those that every phase allows.
func (r *Record) Allows(verb Verb) error {
	if slices.Contains(r.currentPhase().verbs, verb) {
		return nil
	}
	if err := CheckOffered(r, verb); err != nil {
		return err
	}
	return fmt.Errorf("it is in the phase %q, in which the verb %s is not possible", r.Phase, verb)
}

// findAllowed is the verb that is asked of the upgrade, "" for one that it does not allow in its
// phase.
func findAllowed(r *Record, asked Asked) Verb {
	if asked.Run == "" || asked.Run != r.Run || r.Allows(asked.Verb) != nil {
		return ""
	}
	return asked.Verb
}

// CheckReadable returns an error when a record that can be resumed names a strategy, a phase or a state
// of a node that this program does not have: nothing would be done for it, without an end. Others can
// write records.
func (r *Record) CheckReadable() error {
	if r.Run == "" || !r.IsResumable() {
		return nil
	}
	if name := r.Request.Strategy; name != "" && !slices.Contains(Strategies(), name) {
		return fmt.Errorf("its strategy %q is not known", name)
	}
	if r.Phase != PhaseDone && r.currentPhase().name != r.Phase {
		return fmt.Errorf("its phase %q is not known", r.Phase)
	}
	for name, n := range r.Nodes {
		if !slices.Contains(nodeStates(), n.State) {
			return fmt.Errorf("the state %q of node %q is not known", n.State, name)
		}
	}
	return nil
}
