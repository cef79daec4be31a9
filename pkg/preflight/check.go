package preflight

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Severity is the severity of a finding.
type Severity string

const (
	// Refuse is the severity of a finding that forbids the upgrade with these options.
	Refuse Severity = "refuse"
	// Block is the severity of a finding that prevents the drain of a node without force.
	Block Severity = "block"
	// Error is the severity of a finding that users are likely to notice.
	Error Severity = "error"
	// Warn is the severity of a finding that users may notice.
	Warn Severity = "warning"
	// Note is the severity of a finding that is good to know.
	Note Severity = "info"
	// Unknown is the severity of a rule that could not be checked.
	Unknown Severity = "unknown"
)

// Severities returns the severities of findings, the worst first.
func Severities() []Severity { return []Severity{Refuse, Block, Error, Warn, Note} }

// rank returns a higher number for a worse severity.
func (s Severity) rank() int {
	worst := Severities()
	if i := slices.Index(worst, s); i >= 0 {
		return len(worst) - i
	}
	return 0
}

// IsAtLeast reports whether the severity is the same as the other or worse.
func (s Severity) IsAtLeast(other Severity) bool { return s.rank() >= other.rank() }

// Finding is a problem that a rule found on one object.
type Finding struct {
	// Rule is the rule's id, e.g. PDB001.
	Rule string `json:"rule"`
	// Severity is the effect of the finding on an upgrade.
	Severity Severity `json:"severity"`
	// Node is the outdated node that the finding concerns; empty for the whole group.
	Node string `json:"node,omitempty"`
	// Object is the pod, budget or workload, for people. Workload is the workload that it belongs to, if any: "Deployment
	// shop/cart".
	Object   string `json:"object,omitempty"`
	Workload string `json:"workload,omitempty"`
	// Blocker is the obstacle in a few words: "PDB shop/cart".
	Blocker string `json:"blocker,omitempty"`
	// Message is the problem, and Remedy is what to do about it.
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Fix is a kubectl command that fixes the problem, if there is one.
	Fix string `json:"mend,omitempty"`
	// Skipped is the reason in an annotation because of which the finding does not count.
	Skipped string `json:"skipped,omitempty"`
	// whileOldExists is the value of Refusal.WhileOldExists for this finding.
	whileOldExists bool
	// webhook is the webhook of a finding of WH001.
	webhook *FailingWebhook
}

// String returns the finding in one line, with its remedy.
func (f Finding) String() string {
	said := slices.DeleteFunc([]string{f.Object, f.Message, f.Remedy}, func(part string) bool { return part == "" })
	return strings.Join(said, ": ")
}

// Facts has the data that rules need in addition to the World.
type Facts struct {
	// ServerVersion is the API server's version, e.g. "v1.33.4"; empty if unknown.
	ServerVersion string
	// ControlPlane is true if the user lets the group contain control-plane nodes.
	ControlPlane bool
	// MissingRights are the permissions in the cluster that the upgrade needs and the user lacks: "patch nodes".
	MissingRights []string
	// MissingReads are the read permissions that plans and checks need and the user lacks: "list jobs".
	MissingReads []string
	// DeniedActions are the cloud actions that the upgrade needs and the user may not do, as the cloud's policies name them.
	// UnverifiedActions are needed actions for which the cloud cannot tell in advance whether they are allowed.
	DeniedActions, UnverifiedActions []string
	// DeniedReads are cloud reads that the user may not do. The upgrade continues without them but does not watch load balancers.
	DeniedReads []string
	// Delays are the deregistration delays of the target groups that are watched, by ID.
	Delays map[string]time.Duration
	// Pods are the pods of the whole cluster; nil if only the pods of outdated nodes were read.
	Pods iter.Seq[*corev1.Pod]
	// Scales is how many pods each controller should have, by its UID. It has only the controllers that were read.
	Scales map[types.UID]int
	// ReportedPods is how many pods the controllers in a dump report, by UID; nil for a cluster.
	ReportedPods map[types.UID]int
}

// NeedsAllObjects reports whether the outdated nodes and their pods are not enough to tell whether a node can be drained. That is
// the case if a pod that must move has a closed budget, which may open by itself. It is also the case if the pod has a volume,
// which no other node may be able to reach.
func NeedsAllObjects(w *upgrade.World) bool {
	for i := range w.Members {
		m := &w.Members[i]
		if m.Outdated && m.Node != nil && slices.ContainsFunc(m.Pods, func(pod *corev1.Pod) bool { return hasClaim(pod) || isBudgetClosed(w, pod) }) {
			return true
		}
	}
	return false
}

func isBudgetClosed(w *upgrade.World, pod *corev1.Pod) bool {
	closed := []drain.ObstacleKind{drain.BudgetSpent, drain.BudgetUnhealthy, drain.BudgetNever}
	return slices.Contains(closed, predictObstacle(w, pod).Kind)
}

// CheckUpgrade applies every rule of the upgrade itself to the upgrade that would start from the World.
func CheckUpgrade(w *upgrade.World, facts Facts) []Finding {
	return omitForceAdvice(w, listUpgradeFindings(w, facts))
}

// omitForceAdvice removes the advice to force a drain from the remedies, if the drain is forced already, the strategy deletes the
// remaining pods at the end, or no command of this tool begins it.
func omitForceAdvice(w *upgrade.World, found []Finding) []Finding {
	if w.Request.Strategy.Traits().DeletesRest || w.Request.OnTimeout == record.Force || beginsByItself(w) {
		for i := range found {
			found[i].Remedy = drain.OmitForce(found[i].Remedy)
		}
	}
	return found
}

// beginsByItself reports whether the group's service replaces the nodes by itself, as Karpenter does.
func beginsByItself(w *upgrade.World) bool {
	return w.Group.Managed != nil && w.Group.Managed.ByItself != ""
}

// closingTaint returns the taint of nodes that are being replaced.
func closingTaint(w *upgrade.World) corev1.Taint {
	if info := nodegroup.InfoOf(w.Group.Provider); beginsByItself(w) && info.Manager.Taint.Key != "" {
		return info.Manager.Taint
	}
	return nodegroup.FenceTaint(w.Group.Provider)
}

func listUpgradeFindings(w *upgrade.World, facts Facts) []Finding {
	found := checkOwner(w)
	if len(found) == 0 && w.Group.Refusal != "" {
		found = append(found, Finding{Rule: "NG002", Severity: Refuse, Message: w.Group.Refusal})
	}
	found = slices.Concat(found, checkControlPlane(w, facts), checkVersion(w, facts), checkMachines(w))
	if w.Request.ReplacedBy().Traits().Expires {
		return found // no node is drained
	}
	daemons, covers := map[string]bool{}, &coverage{world: w, facts: &facts}
	for i := range w.Members {
		m := &w.Members[i]
		if !m.Outdated || m.Node == nil {
			continue
		}
		found = append(found, checkNode(w, m, covers)...)
		addIntolerantDaemonSets(w, m, daemons)
	}
	fence := closingTaint(w)
	for _, name := range slices.Sorted(maps.Keys(daemons)) {
		found = append(found, Finding{
			Rule: "POD012", Severity: Warn, Object: "DaemonSet " + name,
			Message: fmt.Sprintf("it does not tolerate %s, the taint of outdated nodes, so a pod that exits there is not replaced", fence.ToString()),
			Remedy:  "add the toleration if a node needs the pod until the node is terminated",
		})
	}
	covers.addDeletions(found)
	return append(found, checkStrategy(w)...)
}

// checkVersion implements rule VER001: a kubelet must not be newer than the API server (EKS E10).
func checkVersion(w *upgrade.World, facts Facts) []Finding {
	target := w.Group.Wanted.Kubernetes
	kubelet, err := version.ParseGeneric(target)
	if err != nil {
		return nil // the target's version is not known
	}
	server, err := version.ParseGeneric(facts.ServerVersion)
	if err != nil || !kubelet.WithPatch(0).GreaterThan(server.WithPatch(0)) { // only minor versions matter
		return nil
	}
	return []Finding{{
		Rule: "VER001", Severity: Refuse,
		Message: fmt.Sprintf("the target runs kubelet %s, newer than the control plane's %s", target, facts.ServerVersion),
		Remedy:  "upgrade the control plane first",
	}}
}

// RuleOwner is the ID of the rule about nodes that another service or controller replaces by itself.
const RuleOwner = "NG001"

// checkOwner implements rule NG001. It checks the outdated nodes, or all nodes if it is not known which are outdated.
func checkOwner(w *upgrade.World) []Finding {
	known := w.Group.IsTargetKnown() || slices.ContainsFunc(w.Members, func(m nodegroup.Member) bool { return m.Outdated })
	for i := range w.Members {
		m := &w.Members[i]
		if m.Node == nil || known && !m.Outdated {
			continue
		}
		owner, owned := nodegroup.OwnerOf(m.Node)
		if !owned || owner.Provider == w.Group.Provider || owner.Expires && w.Request.ReplacedBy().Traits().Expires {
			continue
		}
		f := Finding{Rule: RuleOwner, Severity: Refuse, Object: "node " + m.Name(), Message: owner.Name + " " + owner.Does, Remedy: owner.Remedy}
		if owner.Expires && w.Group.Can.Resize {
			f.Remedy += ", which --strategy=" + string(record.ShortLived) + " follows"
		}
		return []Finding{f}
	}
	return nil
}

// checkControlPlane implements rule NG006. It checks the outdated nodes.
func checkControlPlane(w *upgrade.World, facts Facts) []Finding {
	i := slices.IndexFunc(w.Members, func(m nodegroup.Member) bool { return m.Outdated && m.Node != nil && nodegroup.IsControlPlane(m.Node) })
	if i < 0 || facts.ControlPlane {
		return nil
	}
	return []Finding{{
		Rule: "NG006", Severity: Refuse, Object: "node " + w.Members[i].Name(), Message: "it belongs to the control plane, whose members and data this tool does not move",
		Remedy: "upgrade the control plane with the tool that created it (kops, kubeadm); if that tool needs only new nodes, pass --control-plane",
	}}
}

// checkMachines implements rule NG003: two nodes have the same machine. The upgrade of such a group would never end, since only
// one of them is removed with the machine.
func checkMachines(w *upgrade.World) []Finding {
	nodes := map[string]string{}
	for i := range w.Members {
		m := &w.Members[i]
		if m.Node == nil || m.Node.Spec.ProviderID == "" {
			continue
		}
		id := m.Node.Spec.ProviderID
		if other, twice := nodes[id]; twice {
			return []Finding{{
				Rule: "NG003", Severity: Refuse, Object: "nodes " + other + " and " + m.Node.Name, Message: "both have the provider ID " + id,
				Remedy: "run kubectl delete node for the one whose kubelet no longer runs",
			}}
		}
		nodes[id] = m.Node.Name
	}
	return nil
}

// checkNode returns a finding for each obstacle that keeps a pod on the node until a user changes something.
func checkNode(w *upgrade.World, m *nodegroup.Member, covers *coverage) []Finding {
	var found []Finding
	for _, pod := range m.Pods {
		found = append(found, checkOwnerWish(w, pod, m.Name())...)
		found = append(found, checkForeignJob(w, pod, m.Name())...)
		for _, obstacle := range predictObstacles(w, pod) {
			if obstacle.Kind == drain.NoObstacle {
				continue
			}
			obstacle = covers.obstacleAfterCreation(pod, obstacle)
			object := nameObject("pod", pod)
			f := Finding{
				Rule: ruleOfObstacle(obstacle.Kind), Severity: Block, Node: m.Name(), Object: object, Blocker: describeBlocker(object, obstacle),
				Message: describeObstacle(obstacle), Remedy: obstacle.Remedy(),
			}
			explainClosedBudget(covers, pod, obstacle, &f)
			if f.Rule != "" {
				covers.keep(pod, f.Object)
				found = append(found, f)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(a.Object, b.Object) })
	return found
}

// predictObstacles returns the pod's first obstacle and the one behind it. A budget that counts no pods (PDB004) often covers
// pods without a controller, and stays closed for them even if the user allows their eviction.
func predictObstacles(w *upgrade.World, pod *corev1.Pod) []drain.Obstacle {
	first := predictObstacle(w, pod)
	if first.Kind != drain.Unmanaged {
		return []drain.Obstacle{first}
	}
	next := drain.Predict(pod, w.Budgets, nil, false).Obstacle
	if next.Kind != drain.BudgetNever || !countsNoPods(w.Budgets.Covering(pod)[0]) {
		return []drain.Obstacle{first}
	}
	return []drain.Obstacle{first, next}
}

// predictObstacle returns the pod's first obstacle, none if the pod need not leave.
func predictObstacle(w *upgrade.World, pod *corev1.Pod) drain.Obstacle {
	verdict := drain.Judge(pod, w.Request.Policy(), false)
	if verdict.Fate == drain.Go && canReturnToDrainedNode(pod, w.Group.Provider) {
		return drain.Obstacle{Kind: drain.Returns}
	}
	obstacle := drain.FindObstacle(pod, verdict, w.Budgets, w.EndingNamespaces)
	if obstacle.Budget.Name != "" && isMovedBySurge(w, pod) {
		return drain.Obstacle{}
	}
	return obstacle
}

// isMovedBySurge reports whether the upgrade moves the pod by a restart of its Deployment. The restart does not depend on budgets
// and leaves no gap.
func isMovedBySurge(w *upgrade.World, pod *corev1.Pod) bool {
	return w.Request.Move == record.MoveBySurge && w.Movable.CanMoveWithoutEviction(pod)
}

// checkOwnerWish implements rule POD008: a pod's owner asks for a special drain. The finding says what the upgrade does. A pod that
// the drain waits for is no finding of severity block, because the wait ends by itself.
func checkOwnerWish(w *upgrade.World, pod *corev1.Pod, node string) []Finding {
	keepsNode := beginsByItself(w) && pod.Annotations[drain.AnnotationDoNotDisrupt] == "true" // Karpenter does not evict it: KRP003
	if keepsNode || drain.WishOf(pod) == drain.NoWish && drain.Protection(pod) == "" {
		return nil
	}
	object, policy := nameObject("pod", pod), w.Request.Policy()
	f := Finding{Rule: "POD008", Severity: Warn, Node: node, Object: object}
	policy.EvictUnmanaged = true // another rule reports unmanaged pods
	switch reason := drain.Judge(pod, policy, false).Reason; {
	case reason == "" && policy.IgnoreWishes:
		f.Message = fmt.Sprintf("its owner asks for special treatment (%s), but %s evicts it like any other pod", describeWish(pod), nodegroup.InfoOf(w.Group.Provider).Manager.Name)
		f.Remedy = adviseWaiting(&w.Request, "it", "it")
	case reason == drain.ReasonSkipped:
		f.Message = "it stays and is terminated with its node, as its label " + drain.Label + " asks"
		f.Remedy = "remove the label so that it is evicted"
	case reason == drain.ReasonCompletes:
		obstacle := drain.Obstacle{Kind: drain.Completing}
		f.Blocker, f.Message, f.Remedy = describeBlocker(object, obstacle), obstacle.String(), obstacle.Remedy()
	case reason == "" && drain.WishOf(pod) == drain.UnknownWish:
		f.Message = fmt.Sprintf("its label %s has the unknown value %q: it is evicted like any other pod", drain.Label, pod.Labels[drain.Label])
		f.Remedy = "set it to skip or wait-completed"
	case reason == drain.ReasonDoNotDisrupt:
		obstacle := drain.Obstacle{Kind: drain.DoNotDisrupt}
		f.Blocker, f.Message, f.Remedy = describeBlocker(object, obstacle), "the drain waits until it has finished, as its annotation "+drain.Protection(pod)+" asks", obstacle.Remedy()
	case reason == "" && drain.Protection(pod) != "":
		f.Message = "its owner asks autoscalers not to disrupt it (" + drain.Protection(pod) + "), but it is evicted like any other pod"
		f.Remedy = "pass --respect-do-not-disrupt to wait until it has finished"
	default:
		return nil
	}
	return []Finding{f}
}

// describeWish returns the pod's label or annotation about its drain.
func describeWish(pod *corev1.Pod) string {
	if drain.WishOf(pod) == drain.NoWish {
		return drain.Protection(pod)
	}
	return drain.Label + "=" + pod.Labels[drain.Label]
}

// RuleForeignJob is the ID of the rule about pods that their controller may not create again.
const RuleForeignJob = "POD013"

// checkForeignJob implements rule POD013. All pods of one kind get the same message.
func checkForeignJob(w *upgrade.World, pod *corev1.Pod, node string) []Finding {
	isOperated := slices.ContainsFunc(w.Budgets.Covering(pod), func(b *drain.Budget) bool { return operatorOf(b) != "" })
	if !drain.IsForeignJob(pod) || isOperated || drain.Judge(pod, w.Request.Policy(), false).Fate != drain.Go {
		return nil
	}
	f := Finding{
		Rule: RuleForeignJob, Severity: Warn, Node: node, Object: nameObject("pod", pod),
		Message: fmt.Sprintf("it runs to completion (restartPolicy %s), and its controller of kind %s may not create it again: an eviction may lose its work for good", pod.Spec.RestartPolicy, drain.OwnerKind(pod)),
		Remedy:  adviseWaiting(&w.Request, "it", "it"),
	}
	if obeysDrainFlags(&w.Request) {
		f.Fix = labelCommand(pod, waitCompleted)
	}
	return []Finding{f}
}

func describeBlocker(object string, obstacle drain.Obstacle) string {
	return cmp.Or(obstacle.BudgetName(), fmt.Sprintf("%s (%s)", object, obstacle.Kind))
}

// describeObstacle describes an obstacle before any pod was evicted.
func describeObstacle(obstacle drain.Obstacle) string {
	if obstacle.Kind == drain.Returns {
		return "it tolerates the cordon and the fence's taint, so its controller may put it on the drained node again"
	}
	return obstacle.String()
}

func ruleOfObstacle(kind drain.ObstacleKind) string {
	return map[drain.ObstacleKind]string{
		drain.BudgetNever: "PDB001", drain.TwoBudgets: "PDB002", drain.BudgetUnhealthy: "PDB006",
		drain.Unmanaged: RuleUnmanaged, drain.Returns: "POD005", drain.NamespaceEnding: "POD007",
	}[kind]
}

// canReturnToDrainedNode reports whether rule POD005 applies: a pod that tolerates the whole fence may be created on the drained node again
// (EKS E51), if it has a controller.
func canReturnToDrainedNode(pod *corev1.Pod, provider string) bool {
	return metav1.GetControllerOfNoCopy(pod) != nil && drain.ToleratesTaint(pod, nodemark.CordonTaint()) && drain.ToleratesTaint(pod, nodegroup.FenceTaint(provider))
}

// addIntolerantDaemonSets adds the DaemonSets whose pods on the node do not tolerate the fence's taint, so that they would not be created
// again.
func addIntolerantDaemonSets(w *upgrade.World, m *nodegroup.Member, daemons map[string]bool) {
	for _, pod := range m.Pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "DaemonSet" && !drain.ToleratesTaint(pod, closingTaint(w)) {
			daemons[pod.Namespace+"/"+owner.Name] = true
		}
	}
}
