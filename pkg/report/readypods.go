package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// ReadySample is the number of ready pods of a workload from At until the next sample.
type ReadySample struct {
	// At is when the workload reached this number.
	At time.Time `json:"at"`
	// Ready is the number of ready pods.
	Ready int `json:"ready"`
}

// ReadyPods is the number of ready pods of a workload over time.
type ReadyPods struct {
	// Name is the workload, NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Before is the number of ready pods before the first pod was evicted, minus the pods that the owner has
	// removed by scaling since.
	Before int `json:"before"`
	// Samples lists the changes in order of time. If there were many, some are left out. The sample with the
	// fewest ready pods is always kept.
	Samples []ReadySample `json:"samples"`
}

// The limits of a history and of a report for workloads that have fewer ready pods than before.
const (
	maxWorkloadsKept    = 300
	maxReadySamplesKept = 60
	maxWorkloadsCharted = 3
)

// addReadyPods adds the current number of ready pods of each workload. A workload is tracked from the first
// time it has fewer than before.
func (h *History) addReadyPods(at time.Time, rec *record.Record) {
	for name, w := range rec.Workloads {
		ready := w.Ready - w.Lacks
		if w.Out || ready < 0 {
			ready = 0
		}
		of, known := h.ready[name]
		switch {
		case known:
			of.Before = max(of.Before, w.Ready)
			of.addSample(at, ready)
		case ready < w.Ready && len(h.ready) < maxWorkloadsKept:
			of = &ReadyPods{Name: name, Before: w.Ready}
			if !h.Last.IsZero() {
				of.addSample(h.First, w.Ready)
			}
			of.addSample(at, ready)
			h.ready[name] = of
		}
	}
}

// addSample adds a sample if the number has changed. If there are too many samples, it drops every second one,
// except the first, the last and the lowest.
func (p *ReadyPods) addSample(at time.Time, ready int) {
	if n := len(p.Samples); n > 0 && p.Samples[n-1].Ready == ready {
		return
	}
	if p.Samples = append(p.Samples, ReadySample{At: at, Ready: ready}); len(p.Samples) > maxReadySamplesKept {
		p.Samples = thinOut(p.Samples, func(a, b *ReadySample) bool { return a.Ready < b.Ready })
	}
}

// fewestReady returns the lowest number of ready pods.
func (p *ReadyPods) fewestReady() int {
	return slices.MinFunc(p.Samples, func(a, b ReadySample) int { return a.Ready - b.Ready }).Ready
}

// listReadyPods returns the ready pods of the first workloads in worst that had fewer ready pods than before.
func (h *History) listReadyPods(worst []record.WorkloadImpact) []ReadyPods {
	var all []ReadyPods
	for i := range worst {
		if of := h.ready[worst[i].Name]; of != nil && len(all) < maxWorkloadsCharted {
			all = append(all, *of)
		}
	}
	return all
}

// The sizes of a chart of ready pods, in pixels.
const (
	readyHeight = 26
	readyRow    = readyHeight + 22
)

// drawReadyPods returns a chart of each workload's ready pods over time, "" if there are none.
func (r *RunReport) drawReadyPods() markup {
	s, _ := r.timelineScale()
	if len(r.Ready) == 0 || !s.to.After(s.from) {
		return ""
	}
	height := float64(axisHeight + len(r.Ready)*readyRow)
	parts := []markup{s.axis(height)}
	for i := range r.Ready {
		of := &r.Ready[i]
		top := float64(axisHeight + i*readyRow)
		rows := []markup{textElement("title", of.describe(r.From)), rowLabel(of.Name, fmt.Sprintf("at least %d of %d", of.fewestReady(), of.Before))}
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
	return wrapSVG(fmt.Sprintf("ready pods of %s over time", formatCount(len(r.Ready), "workload")), height, parts...)
}

// maxChangesDescribed is how many changes of a workload's ready pods a line describes.
const maxChangesDescribed = 12

// describe returns a line with the numbers of ready pods and the times of their changes since from.
func (p *ReadyPods) describe(from time.Time) string {
	var parts []string
	for i, s := range p.Samples[:min(len(p.Samples), maxChangesDescribed)] {
		if i == 0 {
			parts = append(parts, fmt.Sprintf("%d of %d ready", s.Ready, p.Before))
			continue
		}
		parts = append(parts, fmt.Sprintf("%d from +%s", s.Ready, formatWholeSeconds(s.At.Sub(from))))
	}
	if more := len(p.Samples) - len(parts); more > 0 {
		parts = append(parts, formatCount(more, "more change"))
	}
	return p.Name + ": " + strings.Join(parts, ", ")
}
