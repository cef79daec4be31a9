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
		closedBudgetRule("PDB001", (*closedBudget).setStrictRemedy,
			"A budget needs every pod that it covers, so it never allows an eviction: minAvailable equals or exceeds the number of replicas, or maxUnavailable is 0.",
			"pkg/controller/disruption/disruption.go"),
		upgradeRule("PDB002", Block,
			"More than one budget covers a pod. The eviction API always refuses to evict such a pod, even if both budgets allow it.",
			"pkg/registry/core/pod/storage/eviction.go; kubernetes#75957"),
		upgradeRule("PDB003", Block,
			"The disruption controller cannot compute a budget (SyncFailed), most often because a pod that it covers belongs to a controller that was deleted. The budget allows no eviction until that is fixed.",
			"disruption.go, getExpectedScale"),
		closedBudgetRule("PDB004", (*closedBudget).setUncountedRemedy,
			"A budget counts no pods, so it allows no eviction. With maxUnavailable or a percentage, a budget counts only pods that have a controller.",
			"disruption.go, getExpectedPodCount"),
		closedBudgetRule("PDB005", (*closedBudget).setUncountedRemedy,
			"A budget with maxUnavailable or a percentage covers pods of a controller without the scale subresource: a Job, a DaemonSet or some custom resources. Kubernetes cannot compute such a budget, so it never allows an eviction.",
			"disruption.go, getScaleController"),
		upgradeRule("PDB006", Block,
			"A budget allows no eviction, because one of its pods is faulty (its image cannot be pulled, its container crashes or no node fits it) or has not been ready for more than 5 min. That pod may be on any node. The healthy pods are not evicted until it is repaired. A pod that has been unready for less time, or that is not created yet, is only an info: the upgrade waits for it.",
			"disruption.go; eviction.go, unhealthyPodEvictionPolicy"),
		closedBudgetRule("PDB007", (*closedBudget).setUnhealthyPolicyFix,
			"A budget needs no healthy pod, and no pod is healthy. Its unready pods are not evicted even so, unless unhealthyPodEvictionPolicy is AlwaysAllow.",
			"eviction.go, unhealthyPodEvictionPolicy"),
		closedBudgetRule("PDB009", (*closedBudget).setSingleReplicaRemedy,
			"A budget covers a workload with a single replica and needs that replica, so the pod can never be evicted. With --move=surge the only pod of a Deployment that can surge is moved without an eviction.",
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
			Text:   "The disruption controller has not processed a budget that is older than a minute. The API server refuses evictions of its pods until the controller has processed it. If kube-controller-manager does not run, that never happens.",
			Source: "eviction.go, checkAndDecrement",
		},
		{
			ID: "PDB010", Severity: Error, Reads: []string{"services", budgetKind}, find: perWorkload(findMissingBudget),
			Text:   "No budget covers a workload with several replicas behind a service, and more than half of its pods must leave their nodes. The implicit budgets of this tool keep its last ready pod until another one is ready, but the drain of one node may evict all others. For a while no pod may be ready in these cases: EKS drains the nodes, --implicit-budgets=false is set, pods are deleted because --drain-timeout is over, or no new pod becomes ready within two minutes.",
			Source: "kubernetes.io, Disruptions",
		},
		{
			ID: "PDB011", Severity: Warn, Reads: []string{budgetKind}, find: findMistypedBudgets,
			Text:   "A budget covers no pod, and its selector is nearly the same as the labels of a workload without a budget. The likely cause is a typing error: another key (run for app), another case or separator, or one letter too many or too few. The workload is drained as if it had no budget.",
			Source: "kubernetes#48307",
		},
		{
			ID: "PDB012", Severity: Note, Reads: []string{budgetKind}, find: perBudget(findRoundedPercentage),
			Text:   "A budget's percentage is not a whole number of pods. Kubernetes rounds both minAvailable and maxUnavailable up: minAvailable then needs more pods, and maxUnavailable allows more pods to be missing, than the percentage suggests.",
			Source: "disruption.go, getExpectedPodCount",
		},
		{
			ID: "PDB013", Severity: Note, Reads: []string{budgetKind}, find: perBudget(findOperatorsBudget),
			Text:   "An operator (Rook, Longhorn, KubeVirt, CloudNativePG, Strimzi or another) manages a budget. The operator decides when the budget allows evictions, and it reverts manual changes.",
			Source: "rook.io, ceph-managed-disruptionbudgets; cloudnative-pg.io, kubernetes_upgrade",
		},
		{
			ID: "PDB014", Severity: Warn, Reads: []string{budgetKind}, find: perBudget(findStaleDisruptions),
			Text:   "A budget still counts an eviction as in progress after more than two minutes. The disruption controller removes such entries after two minutes, so it is not running or is slow.",
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

// budgetProcessingTime is how long the disruption controller may take to process a new budget. A healthy
// controller needs a moment.
const budgetProcessingTime = time.Minute

// findUnprocessedBudget implements rule PDB008. The time of a later change to a budget is not
// known.
func findUnprocessedBudget(s *Scene, budget *drain.Budget) *Finding {
	st := &budget.Status
	isOld := s.World.Now.Sub(budget.CreationTimestamp.Time) > budgetProcessingTime
	if st.ObservedGeneration >= budget.Generation || !isOld || drain.SyncFailure(st) != nil {
		return nil
	}
	message := fmt.Sprintf("the disruption controller has not processed its generation %d yet, only %d", budget.Generation, st.ObservedGeneration)
	if st.ObservedGeneration == 0 {
		message = "the disruption controller has never processed it, so none of its pods can be evicted"
	}
	return &Finding{
		Message: message,
		Remedy:  "unless it was changed just now, check that kube-controller-manager is running, and read the disruption controller's log",
	}
}

// findMissingBudget implements rule PDB010.
func findMissingBudget(_ *Scene, w *Workload) *Finding {
	if isDNS(w) { // SYS001 reports this
		return nil
	}
	if !w.IsScaled() || w.Replicas() < 2 || !w.IsServing() || len(w.Budgets) > 0 || 2*len(w.Leaving) <= len(w.Pods) {
		return nil
	}
	service := w.Services[0]
	return &Finding{
		Message: fmt.Sprintf("no budget covers it, and %d of its %d pods behind Service %s/%s must leave their nodes", len(w.Leaving), len(w.Pods), service.Namespace, service.Name),
		Remedy:  "give it a PodDisruptionBudget with maxUnavailable: 1",
		Fix:     w.createBudgetCommand(),
	}
}

// createBudgetCommand returns the command that creates a budget for the workload, "" if its selector was
// not read.
func (w *Workload) createBudgetCommand() string {
	selector := w.podSelector()
	if selector == nil {
		return ""
	}
	return shell.Command("kubectl create pdb "+shell.Option("-n", w.Namespace)+" "+shell.Quote("--selector="+metav1.FormatLabelSelector(selector))+" --max-unavailable=1", w.Name)
}

// findRoundedPercentage implements rule PDB012.
func findRoundedPercentage(_ *Scene, budget *drain.Budget) *Finding {
	share, what := budget.Spec.MaxUnavailable, "allows %d missing"
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
		Message: fmt.Sprintf("of %s %s "+what+", because percentages are rounded up", formatCount(pods, "pod"), describeLimit(budget), up),
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
		Message: operator + " manages this budget and may allow no eviction while one of its pods is missing",
		Remedy:  "keep the budget as it is, and drain one node, or the nodes of one zone, at a time",
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

// disruptionTimeout is how long after an eviction the disruption controller expects the pod's deletion.
// Then it counts the eviction as failed (disruption.go, DeletionTimeout).
const disruptionTimeout = 2 * time.Minute

// findStaleDisruptions implements rule PDB014.
func findStaleDisruptions(s *Scene, budget *drain.Budget) *Finding {
	var stale []string
	var oldest time.Duration
	for pod, at := range budget.Status.DisruptedPods {
		if age := s.World.Now.Sub(at.Time); age > disruptionTimeout {
			stale, oldest = append(stale, pod), max(oldest, age)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	slices.Sort(stale)
	return &Finding{
		Message: fmt.Sprintf("it has counted the eviction of %s as in progress for %s", strings.Join(stale, ", "), oldest.Round(time.Second)),
		Remedy:  "check that kube-controller-manager is running, and read the disruption controller's log",
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
		return "minAvailable: 1 (the default)"
	}
}
