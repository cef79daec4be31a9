package report

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// APIVersion is the version of the documents this package describes. A field keeps its meaning
// within it.
const APIVersion = "kubectl-nodeupgrade/v1alpha1"

// List is several documents as one.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	// Items are the documents.
	Items []T `json:"items"`
}

// NewList is documents as one of that kind.
func NewList[T any](kind string, items []T) *List[T] {
	list := &List[T]{Items: items}
	list.TypeMeta, _ = NewMeta(kind, "")
	return list
}

type (
	// NodeGroupList is the answer to "which groups are there".
	NodeGroupList = List[NodeGroup]
	// PlanList is the plans of several groups.
	PlanList = List[Plan]
)

// NodeGroup is one group and how far it is from being current.
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Provider is where the nodes come from: aws, gke or manual (labels).
	Provider string `json:"provider"`
	// Kind says what the group is, in the words of its provider or of the controller that owns its nodes.
	Kind string `json:"groupKind"`
	// Nodes and Outdated count nodes; Outdated is nil where no one can say.
	Nodes    int  `json:"nodes"`
	Outdated *int `json:"outdated,omitempty"`
	// Wanted is the name of the revision that new nodes are launched with.
	Wanted string `json:"wanted,omitempty"`
	// Phase is that of an upgrade under way, or how the last one ended.
	Phase string `json:"phase,omitempty"`
	// PhaseUnknown is true if the record of the group's upgrades could not be read.
	PhaseUnknown bool `json:"phaseUnknown,omitempty"`
	// Created is when the group's oldest node was.
	Created time.Time `json:"oldestNode,omitzero"`
	// Refusal says why the group cannot be upgraded; it is left out if it can.
	Refusal string `json:"refusal,omitempty"`
}

// Plan is what an upgrade of one group would do.
type Plan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Context is the kubeconfig context, or the file of the dump.
	Context string `json:"context,omitempty"`
	// Account is the cloud account and region.
	Account string `json:"account,omitempty"`
	// Provider is where the nodes come from: aws, gke or manual (labels).
	Provider string `json:"provider"`
	// Kind says what the group is, in the words of its provider or of the controller that owns its nodes.
	Kind string `json:"groupKind"`
	// From is the revision that the group points to now.
	From nodegroup.Revision `json:"pointed,omitzero"`
	// To is the revision that the upgrade moves the nodes to.
	To nodegroup.Revision `json:"wanted,omitzero"`
	// Request has the settings of the upgrade, with all defaults resolved.
	Request record.Request `json:"request"`
	// Sizes is the group's size before the upgrade.
	Sizes nodegroup.Sizes `json:"sizes,omitzero"`
	// SizeAfter is the group's desired size after the upgrade; 0 for the one that it has now.
	SizeAfter int `json:"sizeAfter,omitempty"`
	// Surge is how many nodes would be added, by zone; Peak the group's largest size meanwhile.
	Surge map[string]int `json:"surge,omitempty"`
	Peak  int            `json:"peak,omitempty"`
	// Quiesce are the processes that would be suspended meanwhile.
	Quiesce []string `json:"suspends,omitempty"`
	// Nodes lists the outdated nodes in the order in which the upgrade drains them.
	Nodes []PlanNode `json:"nodes"`
	// Current counts the group's other nodes; it is nil where no one can say which nodes are outdated.
	Current *int `json:"current,omitempty"`
	// Unlabelled is how many of Nodes are outdated only because they lack a label of current nodes.
	Unlabelled int `json:"unlabelled,omitempty"`
	// Findings are what the rules of check find in the pods that must move.
	Findings []preflight.Finding `json:"findings,omitempty"`
	// Duration is how long all would take, from the moment of the plan.
	Duration simulate.Span `json:"duration,omitzero"`
	// AwaitsNodes counts the nodes that the upgrade waits for and that users have to bring, one for each node that is drained.
	// Duration does not contain that time.
	AwaitsNodes int `json:"awaitsNodes,omitempty"`
	// Ends is how it ends, nil where it is not forecast.
	Ends *PlanEnds `json:"ends,omitempty"`
	// Deletions are the workloads whose pods are deleted, not evicted, in order of time.
	Deletions []simulate.Deletion `json:"deletions,omitempty"`
	// ExtraInstanceHours are the instance-hours of the upgrade, less those of a group that keeps its size. They
	// are negative if the group is smaller during the upgrade, and nil if there is no forecast.
	ExtraInstanceHours *float64 `json:"extraInstanceHours,omitempty"`
	Moves
	// Room compares what must move with where it may go.
	Room simulate.Room `json:"room,omitzero"`
	// Assumptions are what the times rest on, a sentence each.
	Assumptions []string `json:"assumptions,omitempty"`
	// Unread are what the plan takes for granted in the place of what was not read or only users know, a sentence each with the reason.
	Unread []string `json:"unread,omitempty"`
	// LeftOut says what the upgrade would leave out because the user lacks a right, a sentence each.
	LeftOut []string `json:"leftOut,omitempty"`
	// CheckedBy is the command that shows all findings; "" for the one that is known by heart.
	CheckedBy string `json:"-"`
	// Resumes is the run that the upgrade would continue with.
	Resumes string `json:"resumes,omitempty"`
	// Operation is what the group's own cloud is carrying out now.
	Operation *nodegroup.Operation `json:"operation,omitempty"`
	// Probes are the server's answers to dryRun=All requests, with --dry-run=server.
	Probes []Probe `json:"probes,omitempty"`
}

// PlanNode is one outdated node, in order of start.
type PlanNode struct {
	// Batch is the number of its batch, from 1; 0 for a node that is not started.
	Batch int `json:"batch,omitempty"`
	// Name is the name of the node, and Zone its zone.
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// From is the name of the revision that the node has, and To of the one that its successor gets.
	From string `json:"from"`
	To   string `json:"to"`
	// Pods counts those that would be evicted, Staying those that go down with the node.
	Pods    int `json:"pods"`
	Staying int `json:"staying"`
	// BlockedBy names what keeps the node from being drained.
	BlockedBy []string `json:"blockedBy,omitempty"`
	// Stuck says, with a remedy, what would keep the node from being drained in its time, where no finding does.
	Stuck string `json:"stuck,omitempty"`
	// NotReached is true where the upgrade ends before the node's drain begins, even if pods end as soon as they may.
	NotReached bool `json:"notReached,omitempty"`
	// Why says why the node is outdated, where that is not its revision.
	Why string `json:"why,omitempty"`
	// Start is when its drain would begin and End when it would be gone, from the moment of the
	// plan. Start is nil where it would not begin or that is not known; End is left out for a node that
	// would be set aside.
	Start *simulate.Span `json:"start,omitempty"`
	End   simulate.Span  `json:"end,omitzero"`
	// WaitsFor is what would hold it longest, the window, a replacement or a budget, and Waits how
	// long.
	WaitsFor string          `json:"waitsFor,omitempty"`
	Waits    record.Duration `json:"waits,omitzero"`
}

// Probe is one dryRun=All request and the server's answer to it: the eviction of a pod or, with a
// Workload, the creation of a pod in its place.
type Probe struct {
	// Pod is the pod that the eviction was asked for, NAMESPACE/NAME, and Budget its PodDisruptionBudget.
	Pod    string `json:"pod"`
	Budget string `json:"budget,omitempty"`
	// Workload is the workload that the pod was created for, NAMESPACE/KIND/NAME.
	Workload string `json:"workload,omitempty"`
	// Answer is what the API server answered.
	Answer string `json:"answer"`
	// Refused is true where no pod would take the place of one that leaves.
	Refused bool `json:"refused,omitempty"`
}

// PlanEnds is how an upgrade ends: Fast if pods end as soon as they may, Slow if they take as long as they
// may. A Result of "" is not known.
type PlanEnds struct {
	// Fast is the end if pods end as soon as they may, Slow the end if they take as long as they may.
	Fast simulate.Ending `json:"fast"`
	Slow simulate.Ending `json:"slow"`
}

// Structural reports whether a person has to do something before every node can be drained: the upgrade
// would be refused, or would end before its goal or leave nodes behind.
func (p *Plan) Structural() bool {
	refuses := func(f preflight.Finding) bool {
		return f.Skipped == "" && (f.Severity == preflight.Refuse || (f.Severity == preflight.Block && p.refusesBlocked()))
	}
	refused := func(p Probe) bool { return p.Refused }
	if slices.ContainsFunc(p.Findings, refuses) || slices.ContainsFunc(p.Probes, refused) {
		return true
	}
	return p.Ends != nil && (p.Ends.Fast.IsShort() || p.Ends.Slow.IsShort())
}

// refusesBlocked reports whether an upgrade is refused where a node cannot be drained.
func (p *Plan) refusesBlocked() bool { return p.Resumes == "" && p.Request.RefusesBlocked() }

// UpgradeStatus is one group's upgrade as it stands.
type UpgradeStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Run is the identifier of the upgrade, and Started when it began; both are left out if no upgrade is recorded.
	Run     string    `json:"run,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Result is how the upgrade ended; it is left out while the upgrade runs.
	Result record.Result `json:"result,omitempty"`
	// Message says why it ended that way, and what to do.
	Message string `json:"message,omitempty"`
	// Target is the revision that the upgrade moves the nodes to.
	Target nodegroup.Revision `json:"target,omitzero"`
	// Status has the phase, the counts and the nodes of the upgrade.
	Status record.Status `json:"status,omitzero"`
	// Outdated counts the outdated nodes of a group of which this tool has no record; it is nil where no one can say.
	Outdated *int `json:"outdated,omitempty"`
	// Unknown says why Outdated is not known: what to pass, or which service or controller replaces the nodes by itself.
	Unknown string `json:"unknown,omitempty"`
	// Blocked are the pods that cannot leave their nodes now, and why.
	Blocked []drain.Blocked `json:"blocked,omitempty"`
	// Suspended are the processes of the Auto Scaling group that are suspended during the upgrade.
	Suspended []string `json:"suspended,omitempty"`
	// Impacts are what the upgrade cost workloads so far, those first that users have noticed most.
	Impacts []record.WorkloadImpact `json:"impacts,omitempty"`
	// Operation is the newest one of a group that its own cloud upgrades.
	Operation *nodegroup.Operation `json:"operation,omitempty"`
	// Unread says why the group could not be read from its cloud: the cluster alone tells the rest.
	Unread string `json:"unread,omitempty"`
	Rest
	// Holder holds the lease, if another actor does.
	Holder string `json:"holder,omitempty"`
	// Leftovers are what runs left behind that no one continues with.
	Leftovers []Leftover `json:"leftovers,omitempty"`
}

// Version is the version of this tool.
type Version struct {
	metav1.TypeMeta `json:",inline"`
	// Version is the release's tag, or the commit of a build that is not released.
	Version string `json:"version"`
	// Go is the version of the compiler, and Platform the operating system and processor as OS/ARCH.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// DeepCopyObject is as List's.
func (v *Version) DeepCopyObject() runtime.Object { c := *v; return &c }

// Failure is the document of a command that fails before it prints another one. A command line that is refused with exit
// code 2 has none.
type Failure struct {
	metav1.TypeMeta `json:",inline"`
	// Error is the text that follows "error: " on stderr.
	Error string `json:"error"`
	// ExitCode is the exit code of the command.
	ExitCode int `json:"exitCode"`
}

// NewFailure returns the document of a command that fails with the text and the exit code.
func NewFailure(text string, exitCode int) *Failure {
	f := &Failure{Error: text, ExitCode: exitCode}
	f.TypeMeta, _ = NewMeta("Error", "")
	return f
}

// DeepCopyObject is as List's.
func (f *Failure) DeepCopyObject() runtime.Object { c := *f; return &c }

// Leftover is something of ours that no one takes away by himself, and what does.
type Leftover struct {
	// What says what is left, and Remedy the command that removes it.
	What   string `json:"what"`
	Remedy string `json:"remedy"`
}

// NewMeta is the type and name of a document.
func NewMeta(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{APIVersion: APIVersion, Kind: kind}, metav1.ObjectMeta{Name: name}
}

// DeepCopyObject makes the type printable by cli-runtime; printers only read, so the copy is
// shallow.
func (l *List[T]) DeepCopyObject() runtime.Object { c := *l; return &c }

// DeepCopyObject is as List's.
func (p *Plan) DeepCopyObject() runtime.Object { c := *p; return &c }

// DeepCopyObject is as List's.
func (s *UpgradeStatus) DeepCopyObject() runtime.Object { c := *s; return &c }
