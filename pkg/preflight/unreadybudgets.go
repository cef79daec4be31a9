package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// unreadyPatience is how long a pod may be unready before its closed budget counts as permanently closed. Most pods become ready
// sooner.
const unreadyPatience = 5 * time.Minute

// ScalesOf returns how many pods the ReplicaSets and StatefulSets should have, by UID.
func ScalesOf(o *inventory.Objects) map[types.UID]int {
	scales := make(map[types.UID]int, len(o.ReplicaSets)+len(o.StatefulSets))
	for _, set := range o.ReplicaSets {
		scales[set.UID] = replicasOf(set.Spec.Replicas)
	}
	for _, set := range o.StatefulSets {
		scales[set.UID] = replicasOf(set.Spec.Replicas)
	}
	return scales
}

// ReportedPodCounts returns how many pods the ReplicaSets and StatefulSets of a dump report, by UID. It returns nil for a cluster: its
// objects are read one after the other, so the numbers do not match the pods.
func ReportedPodCounts(o *inventory.Objects) map[types.UID]int {
	if !o.IsDump {
		return nil
	}
	counted := make(map[types.UID]int, len(o.ReplicaSets)+len(o.StatefulSets))
	for _, set := range o.ReplicaSets {
		counted[set.UID] = int(set.Status.Replicas)
	}
	for _, set := range o.StatefulSets {
		counted[set.UID] = int(set.Status.Replicas)
	}
	return counted
}

// replicasOf returns a controller's replicas, 1 by default.
func replicasOf(replicas *int32) int {
	if replicas == nil {
		return 1
	}
	return int(*replicas)
}

// coverage finds the pods that a budget covers.
type coverage struct {
	world *upgrade.World
	facts *Facts
	// budgets is filled at the first call of podsOf.
	budgets map[types.NamespacedName]*coveredPods
	// kept has the pods that findings of severity block name, with their workloads. keptOf counts them by workload.
	kept   map[string]string
	keptOf map[string]int
}

// coveredPods counts the pods that one budget covers and lists those that are not ready. Pods that have finished or are being
// deleted do not count.
type coveredPods struct {
	pods    int
	unready []*corev1.Pod
	// byOwner is the number of these pods by the UID of their controller.
	byOwner map[types.UID]int
}

// podsOf returns the pods of the budget that were read.
func (c *coverage) podsOf(budget *drain.Budget) *coveredPods {
	if c.budgets == nil {
		c.budgets = map[types.NamespacedName]*coveredPods{}
		c.eachPod(c.addPod)
	}
	return cmp.Or(c.budgets[budget.Key()], &coveredPods{})
}

// eachPod calls visit for each pod of the cluster or, if these were not read, for each pod of the group.
func (c *coverage) eachPod(visit func(*corev1.Pod)) {
	if c.facts.Pods != nil {
		c.facts.Pods(func(pod *corev1.Pod) bool {
			visit(pod)
			return true
		})
		return
	}
	for i := range c.world.Members {
		for _, pod := range c.world.Members[i].Pods {
			visit(pod)
		}
	}
}

func (c *coverage) addPod(pod *corev1.Pod) {
	if !drain.IsLiving(pod) {
		return
	}
	for _, budget := range c.world.Budgets.Covering(pod) {
		of := c.budgets[budget.Key()]
		if of == nil {
			of = &coveredPods{byOwner: map[types.UID]int{}}
			c.budgets[budget.Key()] = of
		}
		of.pods++
		of.byOwner[drain.ControllerOf(pod)]++
		if !drain.Ready(pod) {
			of.unready = append(of.unready, pod)
		}
	}
}

// countMissing returns how many pods of a budget its controllers have yet to create. If a controller was not read, it uses the
// budget's status.
func (c *coverage) countMissing(budget *drain.Budget) int {
	of, missing, isKnown := c.podsOf(budget), 0, true
	if c.facts.Pods == nil {
		return 0 // the number of existing pods is not known
	}
	for owner, pods := range of.byOwner {
		scale, read := c.facts.Scales[owner]
		missing, isKnown = missing+max(0, scale-pods), isKnown && read
	}
	if isKnown {
		return missing
	}
	return max(missing, int(budget.Status.ExpectedPods)-of.pods)
}

// countMissingInDump returns how many pods of the budget's controllers the dump lacks. It returns 0 if the budget counts more healthy
// pods than the dump has.
func (c *coverage) countMissingInDump(budget *drain.Budget) (unseen int) {
	of := c.podsOf(budget)
	if int(budget.Status.CurrentHealthy) > of.pods-len(of.unready) {
		return 0
	}
	for owner, pods := range of.byOwner {
		unseen += max(0, c.facts.ReportedPods[owner]-pods)
	}
	return unseen
}

// obstacleAfterCreation returns the obstacle that remains when the pod's controllers have created all of their pods. If minAvailable is a
// number, the disruption controller counts only existing pods (disruption.go, getExpectedPodCount). So the budget needs every one
// of them while a pod is missing.
func (c *coverage) obstacleAfterCreation(pod *corev1.Pod, obstacle drain.Obstacle) drain.Obstacle {
	covering := c.world.Budgets.Covering(pod)
	if obstacle.Kind != drain.BudgetNever || len(covering) != 1 {
		return obstacle
	}
	budget := covering[0]
	least, expected := budget.Spec.MinAvailable, int(budget.Status.ExpectedPods)
	if least == nil || least.Type != intstr.Int || expected == 0 || drain.SyncFailure(&budget.Status) != nil {
		return obstacle
	}
	if int(least.IntVal) >= c.podsOf(budget).pods+c.countMissing(budget) {
		return obstacle
	}
	obstacle.Kind, obstacle.Detail = drain.BudgetSpent, ""
	return obstacle
}

// explainUnreadyPods describes which pods keep a budget closed that may open by itself (PDB006). It stays closed until a person repairs
// a pod that is faulty or has been unready for long. If no pod is missing or unready, it clears the finding's rule, because the
// budget is closed only for the moment.
func (c *coverage) explainUnreadyPods(budget *drain.Budget, pod *corev1.Pod, f *Finding) {
	unready, missing, unseen := c.podsOf(budget).unready, c.countMissing(budget), c.countMissingInDump(budget)
	isSpent := budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.CurrentHealthy > 0
	f.Rule = "PDB006"
	switch {
	case len(unready) > 0:
		c.explainWorstPod(unready, f)
		if f.Severity == Block {
			addUnreadyRemedy(budget, pod, f)
		}
	case unseen > 0:
		f.Message += fmt.Sprintf(": its controllers report %s that the dump lacks and that the budget does not count as healthy", formatCount(unseen, "pod"))
		f.Remedy = "repair these pods, or write the dump again"
	case missing > 0:
		f.Severity = Note
		f.Message += fmt.Sprintf(": its controllers have still to create %s", formatCount(missing, "pod"))
		f.Remedy = "do nothing if they are created soon: the upgrade waits for them"
	case isSpent:
		f.Rule = ""
	case c.facts.Pods == nil:
		f.Severity = Warn
		f.Message += ": which of its pods are not ready is unknown, because only pods of outdated nodes were read"
	default:
		f.Severity = Note
		f.Message += ": all of its pods are ready, so its status will change soon"
		f.Remedy = "if that does not change, check that kube-controller-manager is running"
	}
}

// explainWorstPod describes the pod that keeps the budget closed: a faulty pod or, if there is none, the pod that has been unready for
// longest.
func (c *coverage) explainWorstPod(unready []*corev1.Pod, f *Finding) {
	oldest := func(pods []*corev1.Pod) *corev1.Pod {
		return slices.MinFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(drain.UnreadySince(a).Compare(drain.UnreadySince(b)), strings.Compare(a.Name, b.Name))
		})
	}
	faulty := slices.DeleteFunc(slices.Clone(unready), func(pod *corev1.Pod) bool { return drain.DescribeFault(pod) == "" })
	pod := oldest(unready)
	age := max(time.Second, c.world.Now.Sub(drain.UnreadySince(pod)))
	if len(faulty) > 0 {
		pod = oldest(faulty)
		f.Message += fmt.Sprintf(": %s is not ready, because %s", nameObject("pod", pod), drain.DescribeFault(pod))
	} else {
		f.Message += fmt.Sprintf(": %s has not been ready for %s", nameObject("pod", pod), duration.HumanDuration(age))
	}
	if len(unready) > 1 {
		f.Message += fmt.Sprintf("; %d of its pods are not ready", len(unready))
	}
	f.Remedy = "repair " + nameObject("pod", pod)
	if len(faulty) == 0 && age <= unreadyPatience {
		f.Severity, f.Remedy = Note, "do nothing if it becomes ready: the upgrade waits for it"
	}
}

// addUnreadyRemedy completes the remedy. Another unhealthyPodEvictionPolicy helps only if the pod itself is unready.
func addUnreadyRemedy(budget *drain.Budget, pod *corev1.Pod, f *Finding) {
	isAllowed := budget.Spec.UnhealthyPodEvictionPolicy != nil && *budget.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
	if !drain.Ready(pod) && !isAllowed {
		f.Remedy += ", set unhealthyPodEvictionPolicy: AlwaysAllow"
		if operatorOf(budget) == "" {
			f.Fix = patchCommand(mergePatch, "pdb", budget.Namespace, budget.Name, fields{"spec": fields{"unhealthyPodEvictionPolicy": policyv1.AlwaysAllow}})
		}
	}
	f.Remedy += " or pass --on-timeout=force"
}
