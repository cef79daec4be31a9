package upgrade

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// WorkloadImpact is the Impact on one workload, NAMESPACE/KIND/NAME.
type WorkloadImpact struct {
	Name string `json:"name"`
	Impact
}

// ListImpacts are the impacts that are on record, those first that users have noticed most.
func ListImpacts(r *Record) []WorkloadImpact {
	all := make([]WorkloadImpact, 0, len(r.Workloads))
	for name, w := range r.Workloads {
		if w.Impact != (Impact{}) {
			all = append(all, WorkloadImpact{name, w.Impact})
		}
	}
	slices.SortFunc(all, compareImpacts)
	return all
}

// compareImpacts puts those first that users have noticed more.
func compareImpacts(a, b WorkloadImpact) int {
	return cmp.Or(cmp.Compare(b.None.Duration, a.None.Duration), cmp.Compare(b.Below.Duration, a.Below.Duration),
		cmp.Compare(b.Evictions, a.Evictions), strings.Compare(a.Name, b.Name))
}

// sumUpOthers keeps mostWorkloads by name and adds those that were noticed least, of the ones that
// have recovered, to OtherWorkloads: their evictions, and the longest of their times.
func sumUpOthers(workloads map[string]WorkloadRecord) {
	if len(workloads) <= mostWorkloads {
		return
	}
	var recovered []WorkloadImpact
	for name, w := range workloads {
		if w.Ready == 0 && name != OtherWorkloads {
			recovered = append(recovered, WorkloadImpact{name, w.Impact})
		}
	}
	slices.SortFunc(recovered, compareImpacts)
	others := workloads[OtherWorkloads]
	for len(workloads) >= mostWorkloads && len(recovered) > 0 {
		least := recovered[len(recovered)-1]
		recovered = recovered[:len(recovered)-1]
		delete(workloads, least.Name)
		others.Evictions += least.Evictions
		others.Below.Duration = max(others.Below.Duration, least.Below.Duration)
		others.None.Duration = max(others.None.Duration, least.None.Duration)
	}
	workloads[OtherWorkloads] = others
}

// impacts add up what the upgrade costs workloads.
type impacts struct{ *draft }

// addImpacts counts the evictions that were answered since the step before and, for the workloads
// that lacked pods, the time since then.
func (d impacts) addImpacts() {
	if len(d.rec.Workloads) == 0 {
		return
	}
	d.rec.Workloads = maps.Clone(d.rec.Workloads)
	since := max(0, d.w.Now.Sub(d.w.Notes.At)-d.w.Idle)
	for name, none := range d.w.Notes.Lacking {
		d.changeImpact(name, func(i *Impact) {
			if i.Below.Duration += since; none {
				i.None.Duration += since
			}
		})
	}
	for uid, name := range d.w.Notes.Evicting {
		switch attempt := d.w.Open[(Evict{UID: uid}).Key()]; {
		case attempt.InFlight || attempt.Begun.IsZero():
			d.notes.Evicting[uid] = name
		case attempt.Outcome == nodegroup.OutcomeDone:
			d.changeImpact(name, func(i *Impact) { i.Evictions++ })
		}
	}
	for name, before := range d.rec.Workloads {
		if ready := (canary{d.draft}).countReady(name); ready < before.Ready {
			d.notes.Lacking[name] = ready == 0
		}
	}
}

func (d impacts) changeImpact(name string, change func(*Impact)) {
	if w, known := d.rec.Workloads[name]; known {
		change(&w.Impact)
		d.rec.Workloads[name] = w
	}
}

// noteEvictions notes which evictions were decided, for their answers to be counted.
func (d impacts) noteEvictions(decided []Evict) {
	for i := range decided {
		d.notes.Evicting[decided[i].UID] = decided[i].Workload.String()
	}
}
