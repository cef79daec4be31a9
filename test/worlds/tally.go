package worlds

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Tally counts the worlds in which each word was reached, by its category and name.
type Tally map[[2]string]int

func (t Tally) count(what, name string) { t[[2]string{what, name}] = 1 }

// Add adds the counts of another tally.
func (t Tally) Add(other Tally) {
	for key, n := range other {
		t[key] += n
	}
}

// countPlan counts the words of the plan.
func (t Tally) countPlan(p *Plan) {
	t.count("provider", p.Provider)
	t.count("like", p.Request.Like)
	t.count("strategy", string(p.Request.Strategy))
	t.count("on-timeout", string(p.Request.OnTimeout))
	for _, w := range p.Workloads {
		t.count("workload", string(w.Kind))
		if w.Rollout != "" {
			t.count("rollout", string(w.Rollout))
		}
		if w.Role != "" {
			t.count("role", string(w.Role))
		}
	}
	t.countHealth(p)
	t.countBalancer(&p.Balancer)
	for _, b := range p.Budgets {
		t.count("budget", string(b.Shape))
	}
}

// countStep counts the words of one decision: in its world, in its status, and in its record.
func (t Tally) countStep(w *upgrade.World, step *upgrade.Step) {
	if step.Record.Run == "" {
		return // there is nothing to do
	}
	t.count("phase", string(step.Record.Phase))
	for _, n := range step.Status.Nodes {
		t.count("state", string(n.State))
	}
	for name := range w.Record.Nodes {
		if _, left := step.Record.Nodes[name]; !left {
			t.count("state", string(record.NodeGone))
		}
	}
	for _, i := range w.Group.Instances {
		t.count("instance", string(i.State))
	}
	t.countTargets(step)
	for _, b := range step.Blocked {
		t.count("blocked", string(b.Kind))
	}
	for i := range w.Members {
		m := &w.Members[i]
		if _, started := step.Record.Nodes[m.Name()]; started && m.Node != nil {
			t.countPodReasons(m, w)
		}
	}
}

// countPodReasons counts the reasons why pods of a draining node are not evicted.
func (t Tally) countPodReasons(m *nodegroup.Member, w *upgrade.World) {
	lost := isSilent(m.Node, w.Now)
	for _, pod := range m.Pods {
		if reason := drain.Judge(pod, w.Request.Policy(), lost).Reason; reason != "" {
			t.count("pod", string(reason))
		}
	}
}

// Write prints the histogram. It also lists declared words that no world reached.
func (t Tally) Write(w io.Writer) error {
	for _, key := range declaredWords() {
		t[key] += 0
	}
	met := slices.SortedFunc(maps.Keys(t), func(a, b [2]string) int { return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1])) })
	for _, key := range met {
		if _, err := fmt.Fprintf(w, "%-10s %-36s %8d\n", key[0], key[1], t[key]); err != nil {
			return fmt.Errorf("writing the histogram: %w", err)
		}
	}
	return nil
}

// worldsPerWord is the number of worlds of which at least one must reach each declared word.
const worldsPerWord = 1000

// Rare lists the declared words that less than one of a thousand worlds reached. It lists none for a run of fewer worlds.
func (t Tally) Rare(ran int) []string {
	var rare []string
	for _, key := range declaredWords() {
		if t[key] < ran/worldsPerWord {
			rare = append(rare, fmt.Sprintf("%s %q: %d", key[0], key[1], t[key]))
		}
	}
	return rare
}

// declaredWords returns all words that worlds must lead to: the faults and actors here, and the words of package upgrade and package
// drain.
func declaredWords() [][2]string {
	return slices.Concat(
		keys("actor", slices.Concat(allActors(), rareActors(), verbActors())...),
		keys("verb", record.VerbPause, record.VerbRollback, record.VerbAbort, record.VerbComplete),
		keys("second run", secondRunRefused, secondRunTakesOver, foreignRunRefused),
		keys("fault", allFaults()...),
		keys("fault", OperationHidden, OperationFails, OperationCancelled, OperationShort, OperationLost, OperationOvertaken, BalancersBlind, FreeKills, RestartForbidden, RestartDenied, RestartLost, RestartKills),
		keys("workload", Deployment, StatefulSet, DaemonSet, Job, Bare, Mirror, Finished, Ending),
		keys("budget", MaxUnavailable, MinAvailable, Everything, Nothing, Invalid),
		keys("provider", "aws", "gke", "manual", podScaler, otherCloud),
		keys("like", "eks", "gke"),
		keys("strategy", record.Surge, record.BlueGreen, record.AutoscaledBlueGreen, record.ShortLived, record.Delegated),
		keys("on-timeout", record.Fail, record.Force, record.Skip),
		keys("phase", slices.Concat(surgePhases(), upgrade.Phases(record.BlueGreen), []record.Phase{record.PhaseFollow, record.PhaseExpire, record.PhaseWait})...),
		keys("state", record.NodePending, record.NodeFenced, record.NodeDraining, record.NodeForcing, record.NodeEmpty,
			record.NodeParked, record.NodeRemoving, record.NodeQuarantined, record.NodeDrained, record.NodeGone),
		keys("instance", nodegroup.InstancePending, nodegroup.InstanceInService, nodegroup.InstanceLeaving, nodegroup.InstanceUnknown),
		keys("outcome", nodegroup.OutcomeDone, nodegroup.OutcomeMoved, nodegroup.OutcomeRefused, nodegroup.OutcomeLater, nodegroup.OutcomeUnclear,
			nodegroup.OutcomeExhausted, nodegroup.OutcomeUnsupported, nodegroup.OutcomeFatal),
		keys("result", record.Succeeded, record.LeftBehind, record.PodEvictionFailure, record.NodeCreationFailure, record.WorkloadUnhealthy, record.Failed,
			record.Interrupted, record.Paused, record.Waiting, record.TargetMoved, record.Aborted),
		keys("blocked", drain.LastReady, drain.Canary, drain.BudgetSpent, drain.BudgetUnhealthy, drain.BudgetNever, drain.TwoBudgets, drain.BudgetPending, drain.Unmanaged, drain.Unanswered,
			drain.NamespaceEnding, drain.Returns, drain.Denied, drain.Completing, drain.DoNotDisrupt, drain.Moving, drain.TargetStays),
		keys("pod", drain.ReasonDaemonSet, drain.ReasonMirror, drain.ReasonFinished, drain.ReasonUnmanaged, drain.ReasonTerminating, drain.ReasonLost,
			drain.ReasonSkipped, drain.ReasonCompletes, drain.ReasonDoNotDisrupt),
		keys("health", healthWords()...),
		keys("targets", targetWords()...),
		keys("turns", newAwaited),
		keys("rollout", allRollouts()...),
		keys("move", moveWords()...),
		keys("renewal", renewalWords()...),
		keys("trust", trustWords()...),
		keys("role", Hook, Driver, Skipped, Completes, Protected),
		keys("action", allActions()...),
		keys("denied", "fence", "start-drain", "evict", "resume", "terminate", "delegate"),
	)
}

// allActions returns the kinds of all actions.
func allActions() []string {
	var kinds []string
	for _, action := range []nodegroup.Action{
		nodegroup.SetRevision{},
		nodegroup.Quiesce{},
		nodegroup.Resume{},
		nodegroup.RaiseMax{},
		nodegroup.LowerMax{},
		nodegroup.AddCapacity{},
		nodemark.Fence{},
		nodemark.Unfence{},
		nodemark.HoldNode{},
		nodemark.UnholdNode{},
		nodemark.StartDrain{},
		schedule.Eviction{},
		schedule.Restart{},
		schedule.Deletion{},
		nodegroup.Terminate{},
		nodegroup.Delegate{},
		nodegroup.CancelOperation{},
		nodegroup.EndSoak{},
		nodemark.DeleteNode{},
	} {
		kinds = append(kinds, actionKind(action))
	}
	return kinds
}

func keys[T ~string](what string, names ...T) [][2]string {
	all := make([][2]string, len(names))
	for i, name := range names {
		all[i] = [2]string{what, string(name)}
	}
	return all
}

func surgePhases() []record.Phase {
	return upgrade.Phases(record.Surge)
}

// phasesOf returns the phases of the record's strategy. A rollback is always a surge upgrade.
func phasesOf(record *record.Record) []record.Phase {
	if record.Rollback {
		return surgePhases()
	}
	return upgrade.Phases(record.Request.Strategy)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
