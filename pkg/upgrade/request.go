package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Strategy names how a group is replaced.
type Strategy string

const (
	// Surge adds nodes first and replaces the outdated ones in a moving window (EKS E01, GKE G10).
	Surge Strategy = "surge"
	// BlueGreen adds a node for each outdated one, drains these in batches, and keeps them until a
	// soak is over (GKE G40).
	BlueGreen Strategy = "blue-green"
	// AutoscaledBlueGreen fences the outdated nodes, waits for pods to leave them, and drains what
	// is left; an autoscaler brings up new ones for pods that wait (GKE G70).
	AutoscaledBlueGreen Strategy = "autoscaled-blue-green"
	// ShortLived points the group at the wanted revision and leaves its nodes, which end by
	// themselves within a week (GKE G90).
	ShortLived Strategy = "short-lived"
)

// maxSurgeWindow is how many nodes GKE upgrades at once at the most (GKE G12).
const maxSurgeWindow = 20

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
	Group string `json:"group"`
	// Run names this upgrade; the caller draws it, and it stays through restarts.
	Run      string   `json:"run"`
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
	DrainTimeout Duration  `json:"drainTimeout"`
	Settle       Duration  `json:"settle"`
	BootTimeout  Duration  `json:"bootTimeout"`
	OnTimeout    OnTimeout `json:"onTimeout"`
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
func (r *Request) TakesTurns() bool { return r.Like == "gke" && r.Strategy == Surge }

// isRefilled reports whether new nodes are left to an autoscaler (GKE G70).
func (r *Request) isRefilled() bool { return r.Strategy == AutoscaledBlueGreen }

// ignoresUnready reports whether the workload's pods need not become ready. Its kind may be written
// in lower case.
func (r *Request) ignoresUnready(name string) bool {
	return slices.ContainsFunc(r.IgnoreUnready, func(ignored string) bool { return ignored == AllWorkloads || strings.EqualFold(ignored, name) })
}

// Policy is the part of the request that says which pods may be evicted.
func (r *Request) Policy() drain.Policy {
	return drain.Policy{EvictUnmanaged: r.EvictUnmanaged, RespectDoNotDisrupt: r.RespectDoNotDisrupt}
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

// WithSettings is the request with the settings of the other whose flags were given; what was left
// open stays as it is. Another model brings its own numbers.
func (r Request) WithSettings(other Request, given func(flag string) bool) Request {
	model := given("like") && r.Like != other.Like
	setIfGiven(&r.Strategy, other.Strategy, given("strategy"))
	setIfGiven(&r.Like, other.Like, given("like"))
	setIfGiven(&r.To, other.To, given("to"))
	setIfGiven(&r.Current, other.Current, given("current"))
	setIfGiven(&r.MaxUnavailable, other.MaxUnavailable, model || given("max-unavailable"))
	setIfGiven(&r.Window, other.Window, model || given("max-unavailable"))
	setIfGiven(&r.BatchBarrier, other.BatchBarrier, given("batch-barrier"))
	if r.BlueGreen != nil && other.BlueGreen != nil {
		mine := *r.BlueGreen
		setIfGiven(&mine.Batch, other.BlueGreen.Batch, given("batch"))
		setIfGiven(&mine.BatchSoak, other.BlueGreen.BatchSoak, given("batch-soak"))
		setIfGiven(&mine.Soak, other.BlueGreen.Soak, given("soak"))
		r.BlueGreen = &mine
	}
	setIfGiven(&r.WaitForDrain, other.WaitForDrain, given("wait-for-drain"))
	setIfGiven(&r.DrainTimeout, other.DrainTimeout, model || given("drain-timeout"))
	setIfGiven(&r.Settle, other.Settle, model || given("settle"))
	setIfGiven(&r.BootTimeout, other.BootTimeout, given("boot-timeout"))
	setIfGiven(&r.OnTimeout, other.OnTimeout, model || given("on-timeout"))
	setIfGiven(&r.EvictUnmanaged, other.EvictUnmanaged, given("unmanaged-pods"))
	setIfGiven(&r.RespectDoNotDisrupt, other.RespectDoNotDisrupt, given("respect-do-not-disrupt"))
	setIfGiven(&r.NoImplicitBudgets, other.NoImplicitBudgets, given("implicit-budgets"))
	setIfGiven(&r.IgnoreUnready, other.IgnoreUnready, given("ignore-unready"))
	setIfGiven(&r.Move, other.Move, given("move"))
	setIfGiven(&r.KeepMax, other.KeepMax, given("keep-max"))
	setIfGiven(&r.KeepFence, other.KeepFence, given("keep-fence"))
	setIfGiven(&r.WaitReplacement, other.WaitReplacement, given("wait-replacement"))
	return r
}

// WithProtection is the request with how workloads are protected as in the other: that may change
// while an upgrade is under way.
func (r Request) WithProtection(other Request) Request {
	r.NoImplicitBudgets, r.IgnoreUnready, r.Move = other.NoImplicitBudgets, other.IgnoreUnready, other.Move
	return r
}

func setIfGiven[T any](to *T, value T, given bool) {
	if given {
		*to = value
	}
}

// DescribeDifferences names the settings in which the other request departs from this one, as
// flags, "" when there is none. What follows from the group's size at the time, and the run, is
// left out, and so is what WithProtection changes at any time.
func (r *Request) DescribeDifferences(other Request) string {
	type pair struct {
		flag     string
		mine, is any
	}
	pairs := []pair{
		{"strategy", r.Strategy, other.Strategy},
		{"like", r.Like, other.Like},
		{"to", r.To, other.To},
		{"max-unavailable", r.MaxUnavailable, other.MaxUnavailable},
		{"batch-barrier", r.BatchBarrier, other.BatchBarrier},
		{"wait-for-drain", r.WaitForDrain, other.WaitForDrain},
		{"drain-timeout", r.DrainTimeout, other.DrainTimeout},
		{"settle", r.Settle, other.Settle},
		{"boot-timeout", r.BootTimeout, other.BootTimeout},
		{"on-timeout", r.OnTimeout, other.OnTimeout},
		{"unmanaged-pods", r.EvictUnmanaged, other.EvictUnmanaged},
		{"respect-do-not-disrupt", r.RespectDoNotDisrupt, other.RespectDoNotDisrupt},
		{"keep-max", r.KeepMax, other.KeepMax},
		{"keep-fence", r.KeepFence, other.KeepFence},
		{"wait-replacement", r.WaitReplacement, other.WaitReplacement},
	}
	if mine, is := r.BlueGreen, other.BlueGreen; mine != nil && is != nil {
		pairs = append(pairs, []pair{{"batch", mine.Batch, is.Batch}, {"batch-soak", mine.BatchSoak, is.BatchSoak}, {"soak", mine.Soak, is.Soak}}...)
	}
	var changed []string
	for _, p := range pairs {
		if p.mine != p.is {
			changed = append(changed, fmt.Sprintf("--%s %v, now %v", p.flag, p.mine, p.is))
		}
	}
	return strings.Join(changed, "; ")
}
