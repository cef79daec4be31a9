package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// ReadySample is how many pods of a workload were ready from a time until the next sample.
type ReadySample struct {
	// At is when the workload had this number for the first time.
	At time.Time `json:"at"`
	// Ready counts its ready pods.
	Ready int `json:"ready"`
}

// ReadyPods is how many pods of a workload were ready over time.
type ReadyPods struct {
	// Name is the workload, NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Before counts the ready pods that it had before its first pod left, less what its owner scaled away since.
	Before int `json:"before"`
	// Samples lists the changes in order of time. If there were many, some are left out, but not the one to the fewest ready pods.
	Samples []ReadySample `json:"samples"`
}

// What a history keeps of workloads that have fewer ready pods than before, and how many of them a report shows.
const (
	mostWorkloadsKept    = 300
	mostReadyKept        = 60
	mostWorkloadsCharted = 3
)

// seeWorkloads notes the ready pods of workloads that have fewer than before, from then on.
func (h *History) seeWorkloads(at time.Time, rec *record.Record) {
	for name, w := range rec.Workloads {
		ready := w.Ready - w.Lacks
		if w.Out || ready < 0 {
			ready = 0
		}
		of, known := h.ready[name]
		switch {
		case known:
			of.Before = max(of.Before, w.Ready)
			of.add(at, ready)
		case ready < w.Ready && len(h.ready) < mostWorkloadsKept:
			of = &ReadyPods{Name: name, Before: w.Ready}
			if !h.Last.IsZero() {
				of.add(h.First, w.Ready)
			}
			of.add(at, ready)
			h.ready[name] = of
		}
	}
}

// add adds a sample if the number is another one. If there are too many, it drops every other, except the first, the last and the lowest.
func (p *ReadyPods) add(at time.Time, ready int) {
	if n := len(p.Samples); n > 0 && p.Samples[n-1].Ready == ready {
		return
	}
	if p.Samples = append(p.Samples, ReadySample{At: at, Ready: ready}); len(p.Samples) > mostReadyKept {
		p.Samples = thin(p.Samples, func(a, b *ReadySample) bool { return a.Ready < b.Ready })
	}
}

// fewest returns the lowest number of ready pods.
func (p *ReadyPods) fewest() int {
	return slices.MinFunc(p.Samples, func(a, b ReadySample) int { return a.Ready - b.Ready }).Ready
}

// listReady returns the ready pods of the first workloads of the list that had fewer than before.
func (h *History) listReady(worst []record.WorkloadImpact) []ReadyPods {
	var all []ReadyPods
	for i := range worst {
		if of := h.ready[worst[i].Name]; of != nil && len(all) < mostWorkloadsCharted {
			all = append(all, *of)
		}
	}
	return all
}

// Sizes in pixels of what a chart of ready pods draws.
const (
	readyHeight = 26
	readyRow    = readyHeight + 22
)

// drawReady draws the ready pods of each workload over time, "" for none.
func (r *RunReport) drawReady() markup {
	s, _ := r.timeScale()
	if len(r.Ready) == 0 || !s.to.After(s.from) {
		return ""
	}
	height := float64(axisHeight + len(r.Ready)*readyRow)
	parts := []markup{s.axis(height)}
	for i := range r.Ready {
		of := &r.Ready[i]
		top := float64(axisHeight + i*readyRow)
		rows := []markup{textElement("title", of.describe(r.From)), rowLabel(of.Name, fmt.Sprintf("at least %d of %d", of.fewest(), of.Before))}
		rows = append(rows, s.bar("w", readyRow-readyHeight-4, readyHeight, of.Samples[0].At, r.To))
		for j, sample := range of.Samples {
			until := r.To
			if j+1 < len(of.Samples) {
				until = of.Samples[j+1].At
			}
			if high := readyHeight * min(1, float64(sample.Ready)/float64(max(1, of.Before))); high > 0 {
				rows = append(rows, s.bar("s", readyRow-4-high, high, sample.At, until))
			}
		}
		parts = append(parts, element("g", []attribute{{"transform", "translate(0 " + formatPixels(top) + ")"}}, rows...))
	}
	return drawing(fmt.Sprintf("ready pods of %s over time", formatCount(len(r.Ready), "workload")), height, parts...)
}

// mostChangesSaid is how many changes of a workload's ready pods a line has.
const mostChangesSaid = 12

// describe says on one line how many pods were ready and when that changed, counted from a time.
func (p *ReadyPods) describe(from time.Time) string {
	var parts []string
	for i, s := range p.Samples[:min(len(p.Samples), mostChangesSaid)] {
		if i == 0 {
			parts = append(parts, fmt.Sprintf("%d of %d ready", s.Ready, p.Before))
			continue
		}
		parts = append(parts, fmt.Sprintf("%d from +%s", s.Ready, formatLength(s.At.Sub(from))))
	}
	if more := len(p.Samples) - len(parts); more > 0 {
		parts = append(parts, formatCount(more, "more change"))
	}
	return p.Name + ": " + strings.Join(parts, ", ")
}
