package upgrade

import (
	"maps"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

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
		if before.Ready == 0 {
			continue
		}
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
