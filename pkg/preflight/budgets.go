package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// budgetKind is the name of PodDisruptionBudgets in RBAC.
const budgetKind = "poddisruptionbudgets"

// closedBudgetRules returns the rules about budgets that keep a pod until a person changes
// something. They apply to every plan and every upgrade.
func closedBudgetRules() []Rule {
	rules := []Rule{
		closedBudgetRule("PDB001", (*closedBudget).mendStrict,
			"A budget needs every pod that it covers, so it can never allow an eviction: minAvailable is no less than the replicas, or maxUnavailable is 0.",
			"pkg/controller/disruption/disruption.go"),
		upgradeRule("PDB002", Block,
			"More than one budget covers a pod. The eviction API refuses such pods for ever, however open the budgets are.",
			"pkg/registry/core/pod/storage/eviction.go; kubernetes#75957"),
		upgradeRule("PDB003", Block,
			"The disruption controller cannot compute a budget (SyncFailed), most often since a pod of it belongs to a controller that is gone. Until then the budget stays closed.",
			"disruption.go, getExpectedScale"),
		closedBudgetRule("PDB004", (*closedBudget).mendUncounted,
			"A budget counts no pods, so it allows none to go. "+
				"With maxUnavailable or a percentage it counts only pods of controllers; pods without one do not open it.",
			"disruption.go, getExpectedPodCount"),
		closedBudgetRule("PDB005", (*closedBudget).mendUncounted,
			"A budget with maxUnavailable or a percentage covers pods of a controller without a scale: a Job, a DaemonSet, many a custom resource. "+
				"It cannot be computed and stays closed.",
			"disruption.go, getScaleController"),
		upgradeRule("PDB006", Block,
			"A budget is closed, and one of its pods is faulty (its image is not pulled, its container crashes, no node takes it) or has not been ready for more than 5 min, on whichever node. "+
				"Its healthy pods are not evicted until that pod is repaired. A pod that has been unready for less time, or that a controller is about to make, is only noted: the upgrade waits for it.",
			"disruption.go; eviction.go, unhealthyPodEvictionPolicy"),
		closedBudgetRule("PDB007", (*closedBudget).mendUnhealthy,
			"A budget needs no healthy pod and none is healthy. Even then its unready pods are not evicted, unless its unhealthyPodEvictionPolicy is AlwaysAllow.",
			"eviction.go, unhealthyPodEvictionPolicy"),
		closedBudgetRule("PDB009", (*closedBudget).mendSingle,
			"A budget over a single replica needs that one, so it can never be evicted. With --move=surge the only pod of a Deployment that can surge leaves without an eviction.",
			"disruption.go; kubernetes#66811"),
	}
	for i := range rules {
		rules[i].Reads = []string{budgetKind}
	}
	return rules
}

// budgetRules returns the rules about budgets that are missing, mistyped or not effective.
func budgetRules() []Rule {
	return []Rule{
		{
			ID: "PDB008", Severity: Error, Reads: []string{budgetKind}, find: perBudget(findUnprocessedBudget),
			Text: "The disruption controller has not processed a budget that is older than a minute. " +
				"Evictions of its pods are refused until it has, and are for ever where kube-controller-manager does not run.",
			Source: "eviction.go, checkAndDecrement",
		},
		{
			ID: "PDB010", Severity: Error, Reads: []string{"services", budgetKind}, find: perWorkload(findUnguarded),
			Text: "No budget covers a workload of several replicas behind a service, and more than half of its pods have to leave. " +
				"Each drain evicts all that it finds, whether or not those before are ready again elsewhere, so for a while no pod may be left.",
			Source: "kubernetes.io, Disruptions",
		},
		{
			ID: "PDB011", Severity: Warn, Reads: []string{budgetKind}, find: findMistypedBudgets,
			Text: "A budget covers no pod, and its selector is that of a workload without a budget but for a slip: " +
				"the value under another key (run for app), or with another case, separator or a letter more or less. The workload is drained as if there was no budget.",
			Source: "kubernetes#48307",
		},
		{
			ID: "PDB012", Severity: Note, Reads: []string{budgetKind}, find: perBudget(findRoundedShare),
			Text: "A budget's percentage is no whole number of its pods. Both minAvailable and maxUnavailable are rounded up, " +
				"so the one needs more and the other spares more than one may think.",
			Source: "disruption.go, getExpectedPodCount",
		},
		{
			ID: "PDB013", Severity: Note, Reads: []string{budgetKind}, find: perBudget(findOperatorsBudget),
			Text:   "An operator writes a budget (Rook, Longhorn, KubeVirt, CloudNativePG, Strimzi and others). It opens and closes it as it sees fit, and undoes changes by hand.",
			Source: "rook.io, ceph-managed-disruptionbudgets; cloudnative-pg.io, kubernetes_upgrade",
		},
		{
			ID: "PDB014", Severity: Warn, Reads: []string{budgetKind}, find: perBudget(findStaleDisruptions),
			Text: "A budget still counts an eviction of more than two minutes ago as under way. " +
				"The disruption controller takes such entries off after two minutes: it does not run, or it lags.",
			Source: "disruption.go, DeletionTimeout",
		},
	}
}

// perBudget calls look once for each budget that covers a workload's pods.
func perBudget(look func(*Scene, *drain.Budget) *Finding) func(*Scene) []Finding {
	return func(s *Scene) []Finding {
		var found []Finding
		seen := map[string]bool{}
		for _, w := range s.Workloads {
			for _, budget := range w.Budgets {
				name := budget.Key().String()
				if seen[name] {
					continue
				}
				seen[name] = true
				if f := look(s, budget); f != nil {
					f.Object, f.Workload = "PDB "+name, w.String()
					found = append(found, *f)
				}
			}
		}
		return found
	}
}

// settledAfter is how long the disruption controller may take to process a new budget. A healthy
// controller needs a moment.
const settledAfter = time.Minute

// findUnprocessedBudget implements rule PDB008. The time of a later change to a budget is not
// known.
func findUnprocessedBudget(s *Scene, budget *drain.Budget) *Finding {
	st := &budget.Status
	isOld := s.World.Now.Sub(budget.CreationTimestamp.Time) > settledAfter
	if st.ObservedGeneration >= budget.Generation || !isOld || drain.SyncFailure(st) != nil {
		return nil
	}
	message := fmt.Sprintf("its generation %d is not processed by the disruption controller, which has seen %d", budget.Generation, st.ObservedGeneration)
	if st.ObservedGeneration == 0 {
		message = "the disruption controller has never processed it, so none of its pods can be evicted"
	}
	return &Finding{
		Message: message,
		Remedy:  "unless it was changed just now, see that kube-controller-manager runs, and what its disruption controller logs",
	}
}

// findUnguarded implements rule PDB010.
func findUnguarded(_ *Scene, w *Workload) *Finding {
	if isDNS(w) { // SYS001 reports this
		return nil
	}
	if !w.IsScaled() || w.Replicas() < 2 || !w.IsServing() || len(w.Budgets) > 0 || 2*len(w.Leaving) <= len(w.Pods) {
		return nil
	}
	service := w.Services[0]
	return &Finding{
		Message: fmt.Sprintf("no budget covers it, and %d of its %d pods behind Service %s/%s have to leave", len(w.Leaving), len(w.Pods), service.Namespace, service.Name),
		Remedy:  "give it a PodDisruptionBudget with maxUnavailable: 1",
		Mend:    w.createBudget(),
	}
}

// createBudget returns the command that creates a budget for the workload, "" if its selector was
// not read.
func (w *Workload) createBudget() string {
	selector := w.podSelector()
	if selector == nil {
		return ""
	}
	return shell.Command("kubectl create pdb "+shell.Option("-n", w.Namespace)+" "+shell.Quote("--selector="+metav1.FormatLabelSelector(selector))+" --max-unavailable=1", w.Name)
}

// findRoundedShare implements rule PDB012.
func findRoundedShare(_ *Scene, budget *drain.Budget) *Finding {
	share, what := budget.Spec.MaxUnavailable, "lets %d be missing"
	if share == nil {
		share, what = budget.Spec.MinAvailable, "needs %d"
	}
	pods := int(budget.Status.ExpectedPods)
	if share == nil || share.Type != intstr.String || pods == 0 {
		return nil
	}
	up, err := intstr.GetScaledValueFromIntOrPercent(share, pods, true)
	down, _ := intstr.GetScaledValueFromIntOrPercent(share, pods, false)
	if err != nil || up == down {
		return nil
	}
	return &Finding{
		Message: fmt.Sprintf("of %s %s "+what+", since percentages are rounded up", countThings(pods, "pod"), describeLimit(budget), up),
		Remedy:  fmt.Sprintf("write the number if %d was meant", down),
	}
}

// findOperatorsBudget implements rule PDB013.
func findOperatorsBudget(_ *Scene, budget *drain.Budget) *Finding {
	operator := operatorOf(budget)
	if operator == "" {
		return nil
	}
	return &Finding{
		Message: operator + " writes this budget and may close it while one of its pods is away",
		Remedy:  "leave it as it is, and drain one node, or the nodes of one zone, at a time",
	}
}

// operatorOf returns the operator that writes the budget, "" if a user or a chart does. It
// recognises the owning custom resource or an operator's label. Longhorn's budgets have only their
// selector.
func operatorOf(budget *drain.Budget) string {
	for i := range budget.OwnerReferences {
		owner := &budget.OwnerReferences[i]
		if group, _, ok := strings.Cut(owner.APIVersion, "/"); ok && strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") {
			return owner.Kind + " " + budget.Namespace + "/" + owner.Name
		}
	}
	if manager := budget.Labels["app.kubernetes.io/managed-by"]; strings.HasSuffix(manager, "-operator") {
		return manager
	}
	if budget.Spec.Selector != nil {
		for key := range budget.Spec.Selector.MatchLabels {
			if strings.HasPrefix(key, "longhorn.io/") {
				return "Longhorn"
			}
		}
	}
	return ""
}

// clearedAfter is how long after an eviction the disruption controller expects the pod's deletion.
// Then it counts the eviction as failed (disruption.go, DeletionTimeout).
const clearedAfter = 2 * time.Minute

// findStaleDisruptions implements rule PDB014.
func findStaleDisruptions(s *Scene, budget *drain.Budget) *Finding {
	var stale []string
	var oldest time.Duration
	for pod, at := range budget.Status.DisruptedPods {
		if age := s.World.Now.Sub(at.Time); age > clearedAfter {
			stale, oldest = append(stale, pod), max(oldest, age)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	slices.Sort(stale)
	return &Finding{
		Message: fmt.Sprintf("it has counted the eviction of %s as under way for %s", strings.Join(stale, ", "), oldest.Round(time.Second)),
		Remedy:  "see that kube-controller-manager runs, and what its disruption controller logs",
	}
}

// describeLimit returns the budget's limit as its manifest writes it.
func describeLimit(budget *drain.Budget) string {
	switch {
	case budget.Spec.MaxUnavailable != nil:
		return "maxUnavailable: " + budget.Spec.MaxUnavailable.String()
	case budget.Spec.MinAvailable != nil:
		return "minAvailable: " + budget.Spec.MinAvailable.String()
	default:
		return "minAvailable: 1, which it is where nothing is said"
	}
}
