package upgrade

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// ListImpacts returns the recorded impacts, the most noticeable first.
func ListImpacts(r *record.Record) []record.WorkloadImpact {
	all := make([]record.WorkloadImpact, 0, len(r.Workloads))
	for name, w := range r.Workloads {
		if w.Impact != (record.Impact{}) {
			all = append(all, record.WorkloadImpact{Name: name, Impact: w.Impact})
		}
	}
	slices.SortFunc(all, record.CompareImpacts)
	return all
}

// addImpacts counts the evictions that were answered since the last step. It also adds the time since then for the
// workloads that lacked pods.
func (d *decision) addImpacts() {
	if len(d.rec.Workloads) == 0 {
		return
	}
	since := max(0, d.w.Now.Sub(d.w.Notes.At)-d.w.Idle)
	if (since > 0 && len(d.w.Notes.Lacking) > 0) || len(d.w.Notes.Evicting)+len(d.w.Notes.DoubtfulSince) > 0 {
		d.addShortfallTimes(since)
		d.countAnsweredEvictions()
	}
	for _, h := range d.health {
		d.noteShortfall(h)
	}
}

// noteShortfall notes whether the workload has fewer ready pods than it should have. If a user may have scaled it, the time
// counts only once its controller was read.
func (d *decision) noteShortfall(h *workloadHealth) {
	ready := h.countReady()
	if ready >= h.before.Ready {
		return
	}
	since, doubtful := d.w.Notes.DoubtfulSince[h.name]
	if _, read := d.w.Controllers[h.Workload]; h.unscaled && !read {
		if !doubtful {
			since = d.w.Now
		}
		d.notes.DoubtfulSince[h.name] = since
		return
	}
	d.notes.Lacking[h.name] = ready == 0
	if doubtful {
		d.updateImpact(h.name, func(i *record.Impact) { i.AddTime(max(0, d.w.Now.Sub(since)-d.w.Idle), ready == 0) })
	}
}

// addShortfallTimes adds the time since the last step to the workloads that lacked pods.
func (d *decision) addShortfallTimes(since time.Duration) {
	for name, none := range d.w.Notes.Lacking {
		d.updateImpact(name, func(i *record.Impact) { i.AddTime(since, none) })
	}
}

// countAnsweredEvictions counts the evictions that were answered. It keeps the notes on the others.
func (d *decision) countAnsweredEvictions() {
	for uid, name := range d.w.Notes.Evicting {
		switch attempt := d.w.Open[(schedule.Eviction{UID: uid}).Key()]; {
		case attempt.InFlight || attempt.Begun.IsZero():
			d.notes.Evicting[uid] = name
		case attempt.Outcome == nodegroup.OutcomeDone:
			d.updateImpact(name, func(i *record.Impact) { i.Evictions++ })
		}
	}
}

// updateImpact changes the recorded impact on a workload, if the workload is on record.
func (d *decision) updateImpact(name string, change func(*record.Impact)) {
	if w, known := d.rec.Workloads[name]; known {
		change(&w.Impact)
		d.workloadsToChange()[name] = w
	}
}

// noteEvictions notes which evictions were decided, so that their answers are counted.
func (d *decision) noteEvictions(decided []schedule.Eviction) {
	for i := range decided {
		d.notes.Evicting[decided[i].UID] = decided[i].Workload.String()
	}
}
