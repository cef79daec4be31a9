package record

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// maxWorkloads is the number of workloads whose Impact the record keeps by name. Each takes about 100 bytes of the
// record, which is written twice for each node.
const maxWorkloads = 500

// OtherWorkloads is the name under which recovered workloads with the least impact are summed up.
const OtherWorkloads = "others"

// WorkloadRecord is what is known about a workload whose pods left nodes.
type WorkloadRecord struct {
	// Ready counts the pods that served before the first of them left (drain.Replicas.CountServing), without those that
	// its owner scaled away since.
	Ready int `json:"ready,omitempty"`
	// Scaled counts the ready pods that the owner removed by scaling down. The upgrade expects them again if
	// the owner scales up again.
	Scaled int `json:"scaled,omitempty"`
	// Unready counts the pods that were not ready at that time.
	Unready int `json:"unready,omitempty"`
	// Proven is true once one of its pods became ready on a node that stays. Until then its pods leave only one node:
	// Canary.
	Proven bool   `json:"proven,omitempty"`
	Canary string `json:"canary,omitempty"`
	// Usual is how long its pods take to become ready, as first determined; 0 if unknown.
	Usual Duration `json:"usual,omitzero"`
	Impact
}

// WithPods returns the record with Ready and Unready raised to the numbers of pods that were seen.
func (w WorkloadRecord) WithPods(all, ready int) WorkloadRecord {
	all = max(w.Ready+w.Unready, all)
	if more := ready - w.Ready; more > 0 {
		w.Ready, w.Scaled = ready, max(0, w.Scaled-more)
	}
	w.Unready = all - w.Ready
	return w
}

// WithScale returns the record with at most so many pods. It first removes pods that were not ready.
func (w WorkloadRecord) WithScale(replicas int) WorkloadRecord {
	all := min(w.Ready+w.Unready, replicas)
	ready := min(w.Ready, all)
	w.Ready, w.Scaled = ready, w.Scaled+w.Ready-ready
	w.Unready = all - w.Ready
	return w
}

// WithScaledBack returns the record with that many of the scaled-away pods expected again.
func (w WorkloadRecord) WithScaledBack(pods int) WorkloadRecord {
	back := max(0, min(w.Scaled, pods))
	w.Ready, w.Scaled = w.Ready+back, w.Scaled-back
	return w
}

// Impact is what an upgrade cost a workload, as its users noticed it.
type Impact struct {
	// Evictions counts the pods that were evicted.
	Evictions int `json:"evictions,omitempty"`
	// Below is how long the workload had fewer ready pods than before the upgrade. None is how long it had no ready
	// pod.
	Below Duration `json:"below,omitzero"`
	None  Duration `json:"none,omitzero"`
	// Lacks is how many fewer ready pods than before it had when last examined. Out is true if it had none.
	Lacks int  `json:"lacks,omitempty"`
	Out   bool `json:"out,omitempty"`
}

// AddTime adds a time during which the workload had fewer ready pods than before the upgrade. hadNone is true if it had
// no ready pod.
func (i *Impact) AddTime(lasted time.Duration, hadNone bool) {
	if i.Below.Duration += lasted; hadNone {
		i.None.Duration += lasted
	}
}

// WorkloadImpact is the Impact on one workload, NAMESPACE/KIND/NAME.
type WorkloadImpact struct {
	// Name is the workload, NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	Impact
}

// CompareImpacts orders the impacts that users noticed most first.
func CompareImpacts(a, b WorkloadImpact) int {
	return cmp.Or(compareBool(a.Out, b.Out), cmp.Compare(b.None.Duration, a.None.Duration), cmp.Compare(b.Below.Duration, a.Below.Duration),
		cmp.Compare(b.Evictions, a.Evictions), strings.Compare(a.Name, b.Name))
}

// compareBool orders true before false.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// SumUpOthers keeps maxWorkloads workloads by name. Of the recovered ones, it adds those with the least impact to
// OtherWorkloads: the sum of their evictions, and the longest of their times.
func SumUpOthers(workloads map[string]WorkloadRecord, hasRecovered func(string, WorkloadRecord) bool) {
	if len(workloads) <= maxWorkloads {
		return
	}
	var recovered []WorkloadImpact
	for name, w := range workloads {
		if name != OtherWorkloads && hasRecovered(name, w) {
			recovered = append(recovered, WorkloadImpact{name, w.Impact})
		}
	}
	slices.SortFunc(recovered, CompareImpacts)
	others := workloads[OtherWorkloads]
	for len(workloads) >= maxWorkloads && len(recovered) > 0 {
		least := recovered[len(recovered)-1]
		recovered = recovered[:len(recovered)-1]
		delete(workloads, least.Name)
		others.Evictions += least.Evictions
		others.Below.Duration = max(others.Below.Duration, least.Below.Duration)
		others.None.Duration = max(others.None.Duration, least.None.Duration)
	}
	workloads[OtherWorkloads] = others
}
