package record

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// MaxSurgeWindow is the largest number of nodes that GKE upgrades at once (GKE G12).
const MaxSurgeWindow = 20

// AllWorkloads is the value of Request.IgnoreUnready that ignores every workload.
const AllWorkloads = "*"

// OnTimeout is what happens to a node that is not empty at its deadline.
type OnTimeout string

const (
	// Fail stops the upgrade with PodEvictionFailure (EKS E42).
	Fail OnTimeout = "fail"
	// Force deletes the pods that are left, by UID and with their own grace period (EKS E43).
	Force OnTimeout = "force"
	// Skip quarantines the node: it stays fenced, and the upgrade continues without it.
	Skip OnTimeout = "skip"
)

// Request is what the user asked for, with every default resolved against the group.
type Request struct {
	// Group is the name of the node group.
	Group string `json:"group"`
	// Run names this upgrade. The caller generates it, and it does not change when the upgrade is resumed.
	Run string `json:"run"`
	// Strategy is how the nodes are replaced.
	Strategy Strategy `json:"strategy"`
	// CloudStrategy is how the cloud replaces the nodes of a Delegated upgrade; "" for Surge and for all other strategies.
	CloudStrategy Strategy `json:"cloudStrategy,omitempty"`
	// SetsRollout is true if the user asked for CloudStrategy or for its settings. The cloud then keeps them as those of the
	// group.
	SetsRollout bool `json:"setsRollout,omitempty"`
	// Like is the model whose defaults are used: "eks" or "gke".
	Like string `json:"like"`
	// To is the revision asked for, as typed. If it is empty, the group's template decides.
	To string `json:"to,omitempty"`
	// Current are labels that current nodes have.
	Current map[string]string `json:"current,omitempty"`
	// MaxUnavailable is how many nodes of the group may be missing or draining beyond those that the surge replaces.
	MaxUnavailable int `json:"maxUnavailable"`
	// Window is how many nodes may be between Draining and Removing at once.
	Window int `json:"window"`
	// Surge is how many nodes are added before the first is drained, in the whole group.
	Surge int `json:"surge"`
	// BlueGreen are the settings of a blue-green upgrade, which this tool or a cloud carries out; nil for other upgrades.
	BlueGreen *BlueGreenRequest `json:"blueGreen,omitempty"`
	// WaitForDrain is how long an autoscaled blue-green upgrade waits between the fence and the drain (GKE G71).
	WaitForDrain Duration `json:"waitForDrain,omitzero"`
	// BatchBarrier makes each batch of Window nodes end before the next begins.
	BatchBarrier bool `json:"batchBarrier,omitempty"`
	// DrainTimeout limits a node's drain. Settle is the wait after it is empty. BootTimeout limits how long new nodes
	// may take.
	DrainTimeout Duration `json:"drainTimeout"`
	Settle       Duration `json:"settle"`
	BootTimeout  Duration `json:"bootTimeout"`
	// OnTimeout is what happens to a node that is not empty after DrainTimeout.
	OnTimeout OnTimeout `json:"onTimeout"`
	// EvictUnmanaged allows pods without a controller to be evicted.
	EvictUnmanaged bool `json:"evictUnmanaged,omitempty"`
	// RespectDoNotDisrupt makes the upgrade wait for pods whose owners ask autoscalers not to disrupt them.
	RespectDoNotDisrupt bool `json:"respectDoNotDisrupt,omitempty"`
	// NoImplicitBudgets allows the eviction of a workload's last ready pod, if the workload is behind a Service and has
	// no PodDisruptionBudget.
	NoImplicitBudgets bool `json:"noImplicitBudgets,omitempty"`
	// Move is how the only ready pod of a workload leaves its node; "" for MoveByEviction.
	Move Move `json:"move,omitempty"`
	// IgnoreUnready are workloads, as NAMESPACE/KIND/NAME, whose pods need not become ready on current nodes.
	// AllWorkloads means all.
	IgnoreUnready []string `json:"ignoreUnready,omitempty"`
	// KeepMax keeps the group's maximum size unchanged. KeepFence keeps nodes fenced that were never started.
	KeepMax   bool `json:"keepMax,omitempty"`
	KeepFence bool `json:"keepFence,omitempty"`
	// WaitReplacement makes the manual provider wait for a user to bring up a new node before it drains the next one.
	WaitReplacement bool `json:"waitReplacement,omitempty"`
}

// BlueGreenRequest contains the settings that only a blue-green upgrade has.
type BlueGreenRequest struct {
	// Batch is how many nodes are drained before the next soak. If it is 0, no node is drained before it is deleted
	// (GKE G45, G46).
	Batch int `json:"batch"`
	// BatchPercent is the percentage of the group that Batch comes from, for a cloud that carries the upgrade out; 0 if it is a
	// number of nodes.
	BatchPercent int `json:"batchPercent,omitempty"`
	// BatchSoak is the wait after each batch. Soak is the wait before the outdated nodes are deleted (GKE G47, G49).
	BatchSoak Duration `json:"batchSoak"`
	Soak      Duration `json:"soak"`
}

// ReplacedBy returns the strategy by which the nodes are replaced: the cloud's own for a Delegated upgrade.
func (r *Request) ReplacedBy() Strategy {
	if r.Strategy.Traits().ByCloud {
		return r.CloudStrategy.Known()
	}
	return r.Strategy.Known()
}

// hasRolloutOf reports whether both requests have the same batches, soaks and waits.
func (r *Request) hasRolloutOf(other *Request) bool {
	mine, theirs := cmp.Or(r.BlueGreen, &BlueGreenRequest{}), cmp.Or(other.BlueGreen, &BlueGreenRequest{})
	return *mine == *theirs && r.WaitForDrain == other.WaitForDrain
}

// TakesTurns reports whether the group's zones are replaced one after the other, as GKE's surge
// upgrades do (GKE G14). Its numbers are then those of each zone.
func (r *Request) TakesTurns() bool { return r.Like == "gke" && r.Strategy.Traits().TakesWidth }

// RefusesBlocked reports whether an upgrade must not begin while a node cannot be drained without a person's help,
// because the upgrade would fail at that node. The other strategies keep such nodes to the end.
func (r *Request) RefusesBlocked() bool {
	traits := r.Strategy.Traits()
	return !traits.DeletesRest && !traits.Expires && r.OnTimeout == Fail
}

// IsFilledByAutoscaler reports whether only an autoscaler adds new nodes (GKE G70).
func (r *Request) IsFilledByAutoscaler() bool { return r.Strategy.Traits().ByAutoscaler }

// IgnoresUnready reports whether the workload's pods need not become ready. Its kind may be written
// in lower case.
func (r *Request) IgnoresUnready(name string) bool {
	return slices.ContainsFunc(r.IgnoreUnready, func(ignored string) bool { return ignored == AllWorkloads || strings.EqualFold(ignored, name) })
}

// Policy returns which pods may be evicted.
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

// setting is a field of a request that a flag sets.
type setting struct {
	flag string
	// value points to the field.
	value any
	// ofModel is true if each model has its own default for the field. untold is true if DescribeDifferences omits the
	// field.
	ofModel, hidden bool
}

// listSettings returns the fields that flags set. Those that only a blue-green upgrade has come last.
func (r *Request) listSettings() []setting {
	all := []setting{
		{flag: "strategy", value: &r.Strategy},
		{flag: "strategy", value: &r.CloudStrategy, hidden: true}, // CheckReplan names it
		{flag: "like", value: &r.Like},
		{flag: "to", value: &r.To},
		{flag: "current", value: &r.Current, hidden: true},
		{flag: "max-unavailable", value: &r.MaxUnavailable, ofModel: true},
		{flag: "max-unavailable", value: &r.Window, ofModel: true, hidden: true},
		{flag: "batch-barrier", value: &r.BatchBarrier},
		{flag: "wait-for-drain", value: &r.WaitForDrain},
		{flag: "drain-timeout", value: &r.DrainTimeout, ofModel: true},
		{flag: "settle", value: &r.Settle, ofModel: true},
		{flag: "boot-timeout", value: &r.BootTimeout},
		{flag: "on-timeout", value: &r.OnTimeout, ofModel: true},
		{flag: "unmanaged-pods", value: &r.EvictUnmanaged},
		{flag: "respect-do-not-disrupt", value: &r.RespectDoNotDisrupt},
		{flag: "implicit-budgets", value: &r.NoImplicitBudgets, hidden: true},
		{flag: "ignore-unready", value: &r.IgnoreUnready, hidden: true},
		{flag: "move", value: &r.Move, hidden: true},
		{flag: "keep-max", value: &r.KeepMax},
		{flag: "keep-fence", value: &r.KeepFence},
		{flag: "wait-replacement", value: &r.WaitReplacement},
	}
	if b := r.BlueGreen; b != nil {
		all = append(all, setting{flag: "batch", value: &b.Batch}, setting{flag: "batch", value: &b.BatchPercent, hidden: true}, setting{flag: "batch-soak", value: &b.BatchSoak}, setting{flag: "soak", value: &b.Soak})
	}
	return all
}

// WithSettings returns the request with the other's settings for the given flags. All other settings stay unchanged,
// except that a different model brings its own numbers.
func (r Request) WithSettings(other Request, given func(flag string) bool) Request {
	model := given("like") && r.Like != other.Like
	batch, batchPercent := 0, 0
	if r.BlueGreen != nil {
		mine := *r.BlueGreen
		r.BlueGreen, batch, batchPercent = &mine, mine.Batch, mine.BatchPercent
	}
	mine, theirs := r.listSettings(), other.listSettings()
	for i := range min(len(mine), len(theirs)) {
		if s := mine[i]; given(s.flag) || (model && s.ofModel) {
			reflect.ValueOf(s.value).Elem().Set(reflect.ValueOf(theirs[i].value).Elem())
		}
	}
	if r.BlueGreen != nil && r.BlueGreen.BatchPercent > 0 && r.BlueGreen.BatchPercent == batchPercent {
		r.BlueGreen.Batch = batch // the same percentage of fewer outdated nodes would be another number
	}
	return r
}

// WithProtection returns the request with the other's settings for protecting workloads: these may change during an
// upgrade.
func (r Request) WithProtection(other Request) Request {
	r.NoImplicitBudgets, r.IgnoreUnready, r.Move = other.NoImplicitBudgets, other.IgnoreUnready, other.Move
	return r
}

// DescribeDifferences returns the settings in which the other request differs from this one, as flags; "" if there is
// none. It leaves out the run, what depends on the group's current size, and the settings that WithProtection may
// change.
func (r *Request) DescribeDifferences(other Request) string {
	var changed []string
	mine, theirs := r.listSettings(), other.listSettings()
	for i := range min(len(mine), len(theirs)) {
		if mine[i].hidden {
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
	// MoveByEviction evicts the pod: until its successor is ready, the workload has no ready pod.
	MoveByEviction Move = "evict"
	// MoveBySurge restarts the pod's Deployment, if that starts another pod first.
	MoveBySurge Move = "surge"
)
