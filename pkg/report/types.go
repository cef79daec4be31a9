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

// APIVersion is the version of the documents in this package. A field keeps its meaning within one version.
const APIVersion = "kubectl-nodeupgrade/v1alpha1"

// List is a document that contains several documents of one kind.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	// Items are the documents.
	Items []T `json:"items"`
}

// NewList returns a list of documents of the kind.
func NewList[T any](kind string, items []T) *List[T] {
	list := &List[T]{Items: items}
	list.TypeMeta, _ = NewMeta(kind, "")
	return list
}

type (
	// NodeGroupList lists node groups.
	NodeGroupList = List[NodeGroup]
	// PlanList lists the plans of several groups.
	PlanList = List[Plan]
)

// NodeGroup is a node group and the number of its outdated nodes.
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Provider is where the nodes come from: aws, gke or manual (labels).
	Provider string `json:"provider"`
	// Kind says what the group is, in the words of its provider or of the controller that owns its nodes.
	Kind string `json:"groupKind"`
	// Nodes counts all nodes and Outdated the outdated ones. Outdated is nil if it is not known which nodes
	// are outdated.
	Nodes    int  `json:"nodes"`
	Outdated *int `json:"outdated,omitempty"`
	// Wanted is the name of the revision that new nodes are launched with.
	Wanted string `json:"wanted,omitempty"`
	// Phase is the phase of a running upgrade, or how the last upgrade ended.
	Phase string `json:"phase,omitempty"`
	// PhaseUnknown is true if the record of the group's upgrades could not be read.
	PhaseUnknown bool `json:"phaseUnknown,omitempty"`
	// Created is when the group's oldest node was created.
	Created time.Time `json:"oldestNode,omitzero"`
	// Refusal says why the group cannot be upgraded; it is left out if it can.
	Refusal string `json:"refusal,omitempty"`
}

// Plan describes what an upgrade of one group would do.
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
	// SizeAfter is the group's desired size after the upgrade. It is 0 if the size does not change.
	SizeAfter int `json:"sizeAfter,omitempty"`
	// Surge is how many nodes would be added in each zone. Peak is the largest size of the group during the
	// upgrade.
	Surge map[string]int `json:"surge,omitempty"`
	Peak  int            `json:"peak,omitempty"`
	// Suspends lists the processes that would be suspended during the upgrade.
	Suspends []string `json:"suspends,omitempty"`
	// Nodes lists the outdated nodes in the order in which the upgrade drains them.
	Nodes []PlanNode `json:"nodes"`
	// Current counts the nodes that are not outdated. It is nil if it is not known which nodes are outdated.
	Current *int `json:"current,omitempty"`
	// Unlabelled is how many of Nodes are outdated only because they lack a label of current nodes.
	Unlabelled int `json:"unlabelled,omitempty"`
	// Findings are the problems that the rules of check find in the pods that must move.
	Findings []preflight.Finding `json:"findings,omitempty"`
	// StartBlockedBy lists the rules whose findings prevent the start of the upgrade. Until these findings are fixed,
	// the upgrade changes nothing and exits with an error. The forecast shows the upgrade without these rules.
	StartBlockedBy []string `json:"startBlockedBy,omitempty"`
	// Duration is how long the upgrade would take, counted from the time of the plan.
	Duration simulate.Span `json:"duration,omitzero"`
	// AwaitsNodes counts the new nodes that users must add, one for each drained node. Duration does not
	// include the wait for them.
	AwaitsNodes int `json:"awaitsNodes,omitempty"`
	// Ends is how the upgrade would end. It is nil if there is no forecast.
	Ends *PlanEnds `json:"ends,omitempty"`
	// Deletions lists the workloads whose pods are deleted instead of evicted, in order of time.
	Deletions []simulate.Deletion `json:"deletions,omitempty"`
	// Unrecovered lists the workloads that keep fewer ready pods than before although the upgrade succeeds: it does not
	// wait for them, because of --ignore-unready or because the cloud drains the nodes.
	Unrecovered []simulate.Unrecovered `json:"unrecovered,omitempty"`
	// ExtraInstanceHours are the instance-hours of the upgrade minus those of a group that keeps its size.
	// They are negative if the group is smaller during the upgrade, and nil if there is no forecast.
	ExtraInstanceHours *float64 `json:"extraInstanceHours,omitempty"`
	Disruption
	// Room compares the requests of the pods that must move with the free capacity of the nodes that can take
	// them.
	Room simulate.Room `json:"room,omitzero"`
	// Assumptions lists what the forecast times depend on, one sentence each.
	Assumptions []string `json:"assumptions,omitempty"`
	// Unread lists what the plan assumes because it was not read or only users know it. Each is a sentence
	// with the reason.
	Unread []string `json:"unread,omitempty"`
	// LeftOut lists the steps that the upgrade would skip because the user lacks a permission, one sentence
	// each.
	LeftOut []string `json:"leftOut,omitempty"`
	// CheckedBy is the command that shows all findings. If it is "", that is checkCommand.
	CheckedBy string `json:"-"`
	// Resumes is the identifier of the run that the upgrade would continue.
	Resumes string `json:"resumes,omitempty"`
	// Operation is what the cloud is doing with the group now.
	Operation *nodegroup.Operation `json:"operation,omitempty"`
	// Maintenance is when the cloud upgrades the group by itself; it is left out if that was not read.
	Maintenance *nodegroup.Maintenance `json:"maintenance,omitempty"`
	// MaxGrace is the longest grace period that the group's settings give pods; it is left out if they set none.
	MaxGrace record.Duration `json:"maxGrace,omitzero"`
	// Probes are the server's answers to dryRun=All requests, with --dry-run=server.
	Probes []Probe `json:"probes,omitempty"`
}

// PlanNode is one outdated node. Nodes are sorted by the time at which their drain starts.
type PlanNode struct {
	// Batch is the number of the node's batch, from 1. It is 0 for a node whose drain does not start.
	Batch int `json:"batch,omitempty"`
	// Name is the name of the node, and Zone its zone.
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// From is the name of the node's revision. To is the revision of the node that replaces it.
	From string `json:"from"`
	To   string `json:"to"`
	// Pods counts the pods that would be evicted. Staying counts the pods that are terminated with the node.
	Pods    int `json:"pods"`
	Staying int `json:"staying"`
	// BlockedBy names the obstacles that prevent the drain of the node.
	BlockedBy []string `json:"blockedBy,omitempty"`
	// Stuck describes an obstacle, with a remedy, that would keep the drain from ending in time and that no
	// finding reports.
	Stuck string `json:"stuck,omitempty"`
	// NotReached is true if the upgrade ends before the node's drain starts, even if pods end as soon as they
	// may.
	NotReached bool `json:"notReached,omitempty"`
	// Why is the reason why the node is outdated, if the reason is not its revision.
	Why string `json:"why,omitempty"`
	// Start is when the node's drain would start, and End when the node would be gone. Both count from the
	// time of the plan. Start is nil if the drain would not start or if its time is not known. End is left out
	// for a node that would be set aside.
	Start *simulate.Span `json:"start,omitempty"`
	End   simulate.Span  `json:"end,omitzero"`
	// WaitsFor is what the node would wait for longest: the window, a replacement or a budget. Waits is how
	// long it would wait.
	WaitsFor string          `json:"waitsFor,omitempty"`
	Waits    record.Duration `json:"waits,omitzero"`
}

// Probe is one dryRun=All request and the server's answer. It requests the eviction of a pod or, if Workload
// is set, the creation of a pod of that workload.
type Probe struct {
	// Pod is the pod whose eviction was requested, NAMESPACE/NAME, and Budget its PodDisruptionBudget.
	Pod    string `json:"pod"`
	Budget string `json:"budget,omitempty"`
	// Workload is the workload whose new pod was requested, NAMESPACE/KIND/NAME.
	Workload string `json:"workload,omitempty"`
	// Answer is what the API server answered.
	Answer string `json:"answer"`
	// Refused is true if the server refused the creation, so that no pod would replace an evicted one.
	Refused bool `json:"refused,omitempty"`
}

// PlanEnds is how an upgrade ends. A Result of "" is not known.
type PlanEnds struct {
	// Fast is the end if pods end as soon as they may. Slow is the end if they take as long as they may.
	Fast simulate.Ending `json:"fast"`
	Slow simulate.Ending `json:"slow"`
}

// NeedsAction reports whether a user must act before every node can be drained. That is the case if the
// upgrade would be refused, would fail or would leave nodes behind.
func (p *Plan) NeedsAction() bool {
	refuses := func(f preflight.Finding) bool {
		return f.Skipped == "" && f.Severity == preflight.Refuse || p.mayStopBy(f) || p.isStoppedBy(&f)
	}
	refused := func(p Probe) bool { return p.Refused }
	if slices.ContainsFunc(p.Findings, refuses) || slices.ContainsFunc(p.Probes, refused) {
		return true
	}
	return p.Ends != nil && (p.Ends.Fast.IsIncomplete() || p.Ends.Slow.IsIncomplete())
}

// mayStopBy reports whether the finding may stop the upgrade, before or after its start.
func (p *Plan) mayStopBy(f preflight.Finding) bool {
	return f.Severity == preflight.Block && f.Skipped == "" && p.Resumes == "" && p.Request.RefusesBlocked()
}

// isStoppedBy reports whether the finding prevents the start of the upgrade.
func (p *Plan) isStoppedBy(f *preflight.Finding) bool {
	return preflight.StopsUpgrade(f, &p.Request, p.Resumes != "")
}

// UpgradeStatus is the current state of one group's upgrade.
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
	// Outdated counts the outdated nodes of a group for which no upgrade is recorded. It is nil if it is not
	// known which nodes are outdated.
	Outdated *int `json:"outdated,omitempty"`
	// Unknown says why Outdated is not known. It names the missing flag, or the service or controller that
	// replaces the nodes by itself.
	Unknown string `json:"unknown,omitempty"`
	// Blocked are the pods that cannot leave their nodes now, and why.
	Blocked []drain.Blocked `json:"blocked,omitempty"`
	// Suspended are the processes of the Auto Scaling group that are suspended during the upgrade.
	Suspended []string `json:"suspended,omitempty"`
	// Impacts lists what the upgrade has cost workloads so far. The workloads whose users noticed most come
	// first.
	Impacts []record.WorkloadImpact `json:"impacts,omitempty"`
	// Operation is the newest operation of a group that its cloud upgrades.
	Operation *nodegroup.Operation `json:"operation,omitempty"`
	// OperationOf is the provider whose cloud carries out Operation.
	OperationOf string `json:"-"`
	// Maintenance is when the cloud upgrades the group by itself; it is left out if that was not read.
	Maintenance *nodegroup.Maintenance `json:"maintenance,omitempty"`
	// Unread says why the group could not be read from its cloud. The status then comes from the cluster only.
	Unread string `json:"unread,omitempty"`
	TimeLeft
	// Follows is the service that began the upgrade, if this tool did not.
	Follows string `json:"follows,omitempty"`
	// Pace is how many nodes the service may replace at the same time, now and from later times on. It is left out for a
	// service whose number does not change by itself.
	Pace []Pace `json:"pace,omitempty"`
	// Holder is the other process that holds the lease, if there is one.
	Holder string `json:"holder,omitempty"`
	// Leftovers lists what earlier runs left behind and what no upgrade continues.
	Leftovers []Leftover `json:"leftovers,omitempty"`
}

// Pace is a number of nodes that may be replaced at the same time.
type Pace struct {
	// From is when the number begins to hold. The first is the time of the status.
	From time.Time `json:"from"`
	// Nodes is the number. 0 is none.
	Nodes int `json:"nodes"`
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

// DeepCopyObject returns a shallow copy, as that of List does.
func (v *Version) DeepCopyObject() runtime.Object { c := *v; return &c }

// Failure is the document that a command prints if it fails before it prints another document. A command line
// that is refused with exit code 2 has no such document.
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

// DeepCopyObject returns a shallow copy, as that of List does.
func (f *Failure) DeepCopyObject() runtime.Object { c := *f; return &c }

// Leftover is something that this tool left behind and that a user must remove, with the remedy.
type Leftover struct {
	// What says what is left, and Remedy the command that removes it.
	What   string `json:"what"`
	Remedy string `json:"remedy"`
}

// NewMeta returns the type and the name of a document.
func NewMeta(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{APIVersion: APIVersion, Kind: kind}, metav1.ObjectMeta{Name: name}
}

// DeepCopyObject makes the type printable by cli-runtime. The copy is shallow, because printers only read.
func (l *List[T]) DeepCopyObject() runtime.Object { c := *l; return &c }

// DeepCopyObject returns a shallow copy, as that of List does.
func (p *Plan) DeepCopyObject() runtime.Object { c := *p; return &c }

// DeepCopyObject returns a shallow copy, as that of List does.
func (s *UpgradeStatus) DeepCopyObject() runtime.Object { c := *s; return &c }
