package record

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// MaxSurgeWindow is how many nodes GKE upgrades at once at the most (GKE G12).
const MaxSurgeWindow = 20

// AllWorkloads is the value of Request.IgnoreUnready that ignores every workload.
const AllWorkloads = "*"

// OnTimeout is what happens to a node that is not empty at its deadline.
type OnTimeout string

const (
	// Fail stops the upgrade with PodEvictionFailure (EKS E42).
	Fail OnTimeout = "fail"
	// Force deletes the pods that are left, by UID and with their own grace (EKS E43).
	Force OnTimeout = "force"
	// Skip quarantines the node: it stays fenced, and the upgrade continues without it.
	Skip OnTimeout = "skip"
)

// Request is what the user asked for, with every default resolved against the group.
type Request struct {
	// Group is the name of the node group.
	Group string `json:"group"`
	// Run names this upgrade; the caller draws it, and it stays through restarts.
	Run string `json:"run"`
	// Strategy is how the nodes are replaced.
	Strategy Strategy `json:"strategy"`
	// Like names whose defaults were taken: "eks" or "gke".
	Like string `json:"like"`
	// To is the revision asked for, as typed; empty for what the group's template says.
	To string `json:"to,omitempty"`
	// Current are labels a current node carries.
	Current map[string]string `json:"current,omitempty"`
	// MaxUnavailable is how many nodes of the group may be missing or draining beyond what the
	// surge covers, in nodes.
	MaxUnavailable int `json:"maxUnavailable"`
	// Window is how many nodes may be between Draining and Removing at once.
	Window int `json:"window"`
	// Surge is how many nodes are added before the first is drained, in the whole group.
	Surge int `json:"surge"`
	// BlueGreen are the settings of the strategy of that name; nil for others.
	BlueGreen *BlueGreenRequest `json:"blueGreen,omitempty"`
	// WaitForDrain is how long an autoscaled blue-green upgrade waits between fence and drain (GKE
	// G71).
	WaitForDrain Duration `json:"waitForDrain,omitzero"`
	// BatchBarrier makes each batch of Window nodes end before the next begins.
	BatchBarrier bool `json:"batchBarrier,omitempty"`
	// DrainTimeout limits a node's drain; Settle is the wait after it is empty; BootTimeout limits
	// how long new nodes may take.
	DrainTimeout Duration `json:"drainTimeout"`
	Settle       Duration `json:"settle"`
	BootTimeout  Duration `json:"bootTimeout"`
	// OnTimeout is what happens to a node that is not empty after DrainTimeout.
	OnTimeout OnTimeout `json:"onTimeout"`
	// EvictUnmanaged allows pods without a controller to be evicted.
	EvictUnmanaged bool `json:"evictUnmanaged,omitempty"`
	// RespectDoNotDisrupt has pods waited for whose owners ask autoscalers not to disrupt them.
	RespectDoNotDisrupt bool `json:"respectDoNotDisrupt,omitempty"`
	// NoImplicitBudgets lets the last ready pod of a workload behind a Service go that has no
	// PodDisruptionBudget.
	NoImplicitBudgets bool `json:"noImplicitBudgets,omitempty"`
	// Move is how the only ready pod of a workload leaves its node, "" for MoveByEviction.
	Move Move `json:"move,omitempty"`
	// IgnoreUnready are workloads, NAMESPACE/KIND/NAME, whose pods need not become ready on current
	// nodes; AllWorkloads for all.
	IgnoreUnready []string `json:"ignoreUnready,omitempty"`
	// KeepMax leaves the group's maximum size alone; KeepFence leaves nodes fenced that were never
	// started.
	KeepMax   bool `json:"keepMax,omitempty"`
	KeepFence bool `json:"keepFence,omitempty"`
	// WaitReplacement makes the manual provider wait for another actor to bring a new node up
	// before the next is drained.
	WaitReplacement bool `json:"waitReplacement,omitempty"`
}

// BlueGreenRequest is what a blue-green upgrade is asked for beside what all are.
type BlueGreenRequest struct {
	// Batch is how many nodes are drained before the next soak, 0 for none before they are deleted
	// (GKE G45, G46).
	Batch int `json:"batch"`
	// BatchSoak is the wait after each batch, Soak that before the outdated nodes are deleted (GKE
	// G47, G49).
	BatchSoak Duration `json:"batchSoak"`
	Soak      Duration `json:"soak"`
}

// TakesTurns reports whether the group's zones are replaced one after the other, as GKE's surge
// upgrades do (GKE G14). Its numbers are then those of each zone.
func (r *Request) TakesTurns() bool { return r.Like == "gke" && r.Strategy.Traits().TakesWidth }

// RefusesBlocked reports whether an upgrade is not begun where a node could not be drained until a person
// does something: it would fail there. The other strategies keep such nodes to their end.
func (r *Request) RefusesBlocked() bool {
	traits := r.Strategy.Traits()
	return !traits.DeletesRest && !traits.Expires && r.OnTimeout == Fail
}

// IsRefilled reports whether new nodes are left to an autoscaler (GKE G70).
func (r *Request) IsRefilled() bool { return r.Strategy.Traits().ByAutoscaler }

// IgnoresUnready reports whether the workload's pods need not become ready. Its kind may be written
// in lower case.
func (r *Request) IgnoresUnready(name string) bool {
	return slices.ContainsFunc(r.IgnoreUnready, func(ignored string) bool { return ignored == AllWorkloads || strings.EqualFold(ignored, name) })
}

// Policy is the part of the request that says which pods may be evicted.
func (r *Request) Policy() drain.Policy {
	return drain.Policy{EvictUnmanaged: r.EvictUnmanaged, RespectDoNotDisrupt: r.RespectDoNotDisrupt, IgnoreWishes: r.Strategy.Traits().ByCloud}
}

// Duration is a time.Duration that reads and writes as "15m0s".
type Duration struct{ time.Duration }

// MarshalText writes the duration as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads; its error says which text was wrong.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("reading duration %q: %w", text, err)
	}
	d.Duration = parsed
	return nil
}

// setting is what a flag says in a request.
type setting struct {
	flag string
	// value points to it in the request.
	value any
	// ofModel is one that each model has its own number of, untold one that DescribeDifferences
	// leaves out.
	ofModel, untold bool
}

// listSettings lists what the flags say in the request. Those that only a blue-green upgrade has
// come last.
func (r *Request) listSettings() []setting {
	all := []setting{
		{flag: "strategy", value: &r.Strategy},
		{flag: "like", value: &r.Like},
		{flag: "to", value: &r.To},
		{flag: "current", value: &r.Current, untold: true},
		{flag: "max-unavailable", value: &r.MaxUnavailable, ofModel: true},
		{flag: "max-unavailable", value: &r.Window, ofModel: true, untold: true},
		{flag: "batch-barrier", value: &r.BatchBarrier},
		{flag: "wait-for-drain", value: &r.WaitForDrain},
		{flag: "drain-timeout", value: &r.DrainTimeout, ofModel: true},
		{flag: "settle", value: &r.Settle, ofModel: true},
		{flag: "boot-timeout", value: &r.BootTimeout},
		{flag: "on-timeout", value: &r.OnTimeout, ofModel: true},
		{flag: "unmanaged-pods", value: &r.EvictUnmanaged},
		{flag: "respect-do-not-disrupt", value: &r.RespectDoNotDisrupt},
		{flag: "implicit-budgets", value: &r.NoImplicitBudgets, untold: true},
		{flag: "ignore-unready", value: &r.IgnoreUnready, untold: true},
		{flag: "move", value: &r.Move, untold: true},
		{flag: "keep-max", value: &r.KeepMax},
		{flag: "keep-fence", value: &r.KeepFence},
		{flag: "wait-replacement", value: &r.WaitReplacement},
	}
	if b := r.BlueGreen; b != nil {
		all = append(all, setting{flag: "batch", value: &b.Batch}, setting{flag: "batch-soak", value: &b.BatchSoak}, setting{flag: "soak", value: &b.Soak})
	}
	return all
}

// WithSettings is the request with the settings of the other whose flags were given; what was left
// open stays as it is. Another model brings its own numbers.
func (r Request) WithSettings(other Request, given func(flag string) bool) Request {
	model := given("like") && r.Like != other.Like
	if r.BlueGreen != nil {
		mine := *r.BlueGreen
		r.BlueGreen = &mine
	}
	mine, theirs := r.listSettings(), other.listSettings()
	for i := range min(len(mine), len(theirs)) {
		if s := mine[i]; given(s.flag) || (model && s.ofModel) {
			reflect.ValueOf(s.value).Elem().Set(reflect.ValueOf(theirs[i].value).Elem())
		}
	}
	return r
}

// WithProtection is the request with how workloads are protected as in the other: that may change
// while an upgrade is under way.
func (r Request) WithProtection(other Request) Request {
	r.NoImplicitBudgets, r.IgnoreUnready, r.Move = other.NoImplicitBudgets, other.IgnoreUnready, other.Move
	return r
}

// DescribeDifferences names the settings in which the other request departs from this one, as
// flags, "" when there is none. What follows from the group's size at the time, and the run, is
// left out, and so is what WithProtection changes at any time.
func (r *Request) DescribeDifferences(other Request) string {
	var changed []string
	mine, theirs := r.listSettings(), other.listSettings()
	for i := range min(len(mine), len(theirs)) {
		if mine[i].untold {
			continue
		}
		was, is := reflect.ValueOf(mine[i].value).Elem().Interface(), reflect.ValueOf(theirs[i].value).Elem().Interface()
		if was != is {
			changed = append(changed, fmt.Sprintf("--%s %v, now %v", mine[i].flag, was, is))
		}
	}
	return strings.Join(changed, "; ")
}

// Move is how the only ready pod of a workload leaves its node.
type Move string

const (
	// MoveByEviction evicts it: until its successor is ready the workload has no ready pod.
	MoveByEviction Move = "evict"
	// MoveBySurge restarts its Deployment, where that brings another up first.
	MoveBySurge Move = "surge"
)
