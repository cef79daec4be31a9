package drain

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxDisruptedPods is the size of status.disruptedPods above which the API server refuses all evictions of the budget
// (eviction.go, MaxDisruptedPodSize).
const maxDisruptedPods = 2000

// Obstacle is why the eviction API would not admit a pod now. The zero value means no obstacle.
type Obstacle struct {
	// Kind is the kind of the obstacle. It determines what removes the obstacle.
	Kind ObstacleKind `json:"kind,omitempty"`
	// Budget is the budget that blocks the pod, namespace/name; empty if it is something else.
	Budget types.NamespacedName `json:"budget,omitzero"`
	// Need is how many healthy pods the budget requires, and Have is how many it counts.
	Need int32 `json:"need,omitempty"`
	Have int32 `json:"have,omitempty"`
	// Detail is further information for the reader: the second budget, or the message of a failed sync.
	Detail string `json:"detail,omitempty"`
}

// ObstacleKind classifies obstacles by what removes them.
type ObstacleKind string

const (
	// NoObstacle means that the eviction would be admitted.
	NoObstacle ObstacleKind = ""
	// BudgetSpent goes away when a pod of the workload becomes ready.
	BudgetSpent ObstacleKind = "budget"
	// BudgetUnhealthy goes away when the workload's unready pods are repaired.
	BudgetUnhealthy ObstacleKind = "unhealthy"
	// BudgetNever goes away when the user changes the budget or the workload.
	BudgetNever ObstacleKind = "never"
	// LastReady goes away when another pod of the workload becomes ready; see Budgets.WithLastReady.
	LastReady ObstacleKind = "last-ready"
	// Canary goes away when a new pod of the workload is ready that replaces a pod of another node.
	Canary ObstacleKind = "canary"
	// Moving goes away when the restarted Deployment of the pod has another pod ready.
	Moving ObstacleKind = "moving"
	// TwoBudgets goes away when one of the budgets is deleted (kubernetes#75957).
	TwoBudgets ObstacleKind = "two-budgets"
	// BudgetPending goes away when the disruption controller has processed the budget's newest spec.
	BudgetPending ObstacleKind = "pending"
	// Unmanaged goes away with --unmanaged-pods=evict, or when another process deletes the pod.
	Unmanaged ObstacleKind = "unmanaged"
	// Completing goes away when the pod ends, for which its label asks to wait; see Label.
	Completing ObstacleKind = "completion"
	// DoNotDisrupt goes away when the pod ends or its annotation is removed; see Protection.
	DoNotDisrupt ObstacleKind = "do-not-disrupt"
	// Keeps goes away when the pod ends or its annotation is removed or, with a time in Detail, at that time; see FindKeeper. Without
	// a pod it is the annotation of a node.
	Keeps ObstacleKind = "keeps-node"
	// NamespaceEnding goes away when the pod is deleted: the API server forbids evictions in a namespace that is being
	// deleted.
	NamespaceEnding ObstacleKind = "namespace"
	// Returns is a pod that came back to the fenced node after its eviction (EKS E51).
	Returns ObstacleKind = "returns"
	// Unanswered is a request without an answer, or with a server error. It is repeated.
	Unanswered ObstacleKind = "unanswered"
	// TargetStays goes away when a load balancer removes a target of an empty node or of a pod that was on it.
	TargetStays ObstacleKind = "target"
	// Denied is an answer that was not predicted, for example from an admission webhook or after a lost race.
	Denied ObstacleKind = "denied"
)

// NeedsPerson reports whether the obstacle remains until a person removes it.
func (o Obstacle) NeedsPerson() bool {
	switch o.Kind {
	case BudgetNever, TwoBudgets, Unmanaged, Returns:
		return true
	default:
		return false
	}
}

// BudgetName returns a short name of the obstacle's budget, or "": "PDB shop/cart", or "last ready pod of
// shop/Deployment/cart" for a budget without an object.
func (o Obstacle) BudgetName() string {
	switch kind, name, own := strings.Cut(o.Budget.Name, "/"); {
	case own:
		return "last ready pod of " + Workload{Namespace: o.Budget.Namespace, Kind: kind, Name: name}.String()
	case o.Budget.Name != "":
		return "PDB " + o.Budget.String()
	}
	return ""
}

// String describes the obstacle.
func (o Obstacle) String() string {
	pdb := o.Budget.String()
	switch o.Kind {
	case NoObstacle:
		return ""
	case BudgetSpent, BudgetUnhealthy:
		return fmt.Sprintf("PDB %s allows no disruption (needs %d healthy, has %s)", pdb, o.Need, o.describeHealth())
	case BudgetNever:
		return fmt.Sprintf("PDB %s can never allow a disruption: %s (needs %d healthy, has %d)", pdb, o.Detail, o.Need, o.Have)
	case LastReady:
		return fmt.Sprintf("it is the last ready pod of %s", o.Detail)
	case Canary:
		return fmt.Sprintf("no new pod of %s is ready yet", o.Detail)
	case Moving:
		return "it is moved without a gap: " + o.Detail
	case TwoBudgets:
		return fmt.Sprintf("PDB %s and %s cover the same pod, which the eviction API refuses", pdb, o.Detail)
	case Keeps:
		return o.describeKeeper()
	case BudgetPending:
		return fmt.Sprintf("PDB %s is not processed yet by the disruption controller", pdb)
	default:
		return o.describeOther()
	}
}

// describeKeeper describes an annotation that keeps Karpenter from the node.
func (o Obstacle) describeKeeper() string {
	text := "its annotation " + AnnotationDoNotDisrupt + " keeps its node"
	if o.Detail != "" {
		text += " until " + o.Detail
	}
	return text
}

// describeOther describes an obstacle that is not a budget.
func (o Obstacle) describeOther() string {
	texts := map[ObstacleKind]string{
		Unmanaged:       "it has no controller that would create it again",
		Completing:      "the drain waits until it has finished, as its label " + Label + " asks",
		DoNotDisrupt:    "its annotation asks not to disrupt it",
		NamespaceEnding: "its namespace is being deleted",
		Returns:         "its controller put it on the fenced node again after each eviction",
	}
	return cmp.Or(texts[o.Kind], o.describeAnswer())
}

// describeHealth returns how many pods are healthy. Healthy pods beyond the need are being evicted, and the disruption
// controller has not counted that yet.
func (o Obstacle) describeHealth() string {
	if granted := o.Have - o.Need; granted > 0 {
		return fmt.Sprintf("%d, %d of them being evicted", o.Have, granted)
	}
	return fmt.Sprint(o.Have)
}

// describeAnswer returns the detail of an obstacle that a server named, with the budget if a budget refused.
func (o Obstacle) describeAnswer() string {
	if o.Kind == Denied && o.Budget.Name != "" {
		return fmt.Sprintf("PDB %s: %s", o.Budget, o.Detail)
	}
	return o.Detail
}

// Remedy returns what the user can do, in the imperative.
func (o Obstacle) Remedy() string {
	remedies := map[ObstacleKind]string{
		BudgetSpent:     "wait until its pods are ready, raise its replicas or pass --on-timeout=force",
		BudgetUnhealthy: "repair its unready pods, set unhealthyPodEvictionPolicy: AlwaysAllow or pass --on-timeout=force",
		BudgetNever:     "change the budget as kubectl nodeupgrade check advises, or pass --on-timeout=force",
		LastReady:       "wait until another of its pods is ready or pass --implicit-budgets=false",
		Canary:          "wait until a new pod is ready, find out why none is or pass --ignore-unready",
		Moving:          "find out why its Deployment's new pod is not ready or remove --move=surge",
		TwoBudgets:      "delete one of the two budgets",
		Unmanaged:       "delete it or pass --unmanaged-pods=evict",
		Completing:      "wait until it has finished, raise --drain-timeout or remove the label so that it is evicted",
		DoNotDisrupt:    "wait until it has finished, remove the annotation or remove --respect-do-not-disrupt",
		Keeps:           "wait until it has finished or remove the annotation",
		Returns:         "remove the toleration or the nodeName from its pod template or pass --on-timeout=force",
		BudgetPending:   "check that kube-controller-manager is running",
		TargetStays:     "check the controller of that target group, for example the AWS Load Balancer Controller, or pass --on-timeout=force",
		Unanswered:      "check the health of the API server",
		NamespaceEnding: "find out which finalizers keep the namespace",
	}
	return cmp.Or(remedies[o.Kind], "find out what denies its eviction")
}

// OmitForce removes the advice to pass --on-timeout=force from a remedy, for upgrades that already have it.
func OmitForce(remedy string) string {
	for _, joined := range []string{", or ", " or "} {
		remedy = strings.Replace(remedy, joined+"pass --on-timeout=force", "", 1)
	}
	return remedy
}

// Spending counts, by budget, the disruptions of our own evictions that the budget's status does not show yet.
type Spending map[types.NamespacedName]int32

// Prediction is the answer that the eviction API would give now.
type Prediction struct {
	Obstacle
	// Spends is true if the eviction uses one of Budget's disruptionsAllowed.
	Spends bool
	// Version is the resourceVersion of the budget on which the prediction is based; "" without a budget.
	Version string
}

// LeavesThroughBudget reports whether the pod's budget decides when the pod leaves, now or later.
func (p Prediction) LeavesThroughBudget() bool {
	return p.Spends || p.Kind == BudgetSpent || p.Kind == LastReady || p.Kind == Canary
}

// Admitted reports whether the eviction may be sent.
func (p Prediction) Admitted() bool { return p.Kind == NoObstacle }

// Predict returns what the eviction API would answer for a pod that must leave, so that no request is sent that would be
// refused. spent has the disruptions of our evictions in flight. endingNamespace is true if the pod's namespace is being
// deleted.
func Predict(pod *corev1.Pod, budgets Budgets, spent Spending, endingNamespace bool) Prediction {
	if endingNamespace {
		// Admission refuses all creations in the namespace, including evictions, before it looks at the pod
		// (lifecycle/admission.go).
		return Prediction{Obstacle: Obstacle{Kind: NamespaceEnding}}
	}
	if pod.Status.Phase == corev1.PodPending {
		// Evictions of pods that never started do not consult budgets (eviction.go, canIgnorePDB).
		return Prediction{}
	}
	covering := budgets.Covering(pod)
	switch len(covering) {
	case 0:
		return Prediction{}
	case 1:
		return predictBudget(pod, covering[0], spent)
	default:
		return Prediction{Obstacle: Obstacle{
			Kind: TwoBudgets, Budget: covering[0].Key(), Detail: covering[1].Key().String(),
		}}
	}
}

// IsSeenLastReady reports whether the pod is the last ready one of its workload now, not only after the evictions in
// flight.
func (o Obstacle) IsSeenLastReady() bool { return o.Kind == LastReady && o.Have <= 1 }

// FindObstacle returns what blocks a pod's eviction now, or the zero Obstacle if the pod need not leave.
func FindObstacle(pod *corev1.Pod, verdict Verdict, budgets Budgets, endingNamespaces map[string]bool) Obstacle {
	if verdict.Fate != Go {
		return verdict.Obstacle()
	}
	return Predict(pod, budgets, nil, endingNamespaces[pod.Namespace]).Obstacle
}

func predictBudget(pod *corev1.Pod, budget *Budget, spent Spending) Prediction {
	st := budget.Status
	obstacle := Obstacle{Budget: budget.Key(), Need: st.DesiredHealthy, Have: st.CurrentHealthy}
	p := Prediction{Obstacle: obstacle, Version: budget.ResourceVersion}
	if !Ready(pod) && mayEvictUnready(budget) {
		return p
	}
	if st.ObservedGeneration < budget.Generation || len(st.DisruptedPods) > maxDisruptedPods {
		p.Kind = BudgetPending
		return p
	}
	if st.DisruptionsAllowed > spent[budget.Key()] {
		p.Spends = true
		return p
	}
	if budget.OfLastReady {
		p.Kind, p.Detail = LastReady, budget.Name
		return p
	}
	p.Kind = BudgetSpent
	if why := budget.WhyNeverOpens(); why != "" {
		p.Kind, p.Detail = BudgetNever, why
	} else if st.CurrentHealthy < st.DesiredHealthy || st.CurrentHealthy == 0 {
		// If no pod is healthy, even a budget that needs none stays closed (PDB007).
		p.Kind = BudgetUnhealthy
	}
	return p
}

// mayEvictUnready reports whether pods that are not ready may be evicted without using the budget (eviction.go, the
// unhealthyPodEvictionPolicy branch).
func mayEvictUnready(budget *Budget) bool {
	if p := budget.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	st := budget.Status
	return st.CurrentHealthy >= st.DesiredHealthy && st.DesiredHealthy > 0
}
