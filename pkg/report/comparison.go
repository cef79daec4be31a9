package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Comparison compares several ways to upgrade one group.
type Comparison struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Context is the kubeconfig context, or the file of the dump.
	Context string `json:"context,omitempty"`
	// Fits is the strategy that suits the pods that must move. FitsBecause is the reason.
	Fits        record.Strategy `json:"fits"`
	FitsBecause string          `json:"fitsBecause"`
	// Assumptions lists what the forecast of the requested way depends on, one sentence each.
	Assumptions []string `json:"assumptions,omitempty"`
	// Ways lists the requested way and its alternatives, without duplicates.
	Ways []Way `json:"ways"`
}

// Way is one way to upgrade a group, with its forecast.
type Way struct {
	// Flags are the flags that select the way. They are "as asked" for the requested way.
	Flags string `json:"flags"`
	// Request has the settings of the way, with all defaults resolved.
	Request record.Request `json:"request,omitzero"`
	// Refused says why the group cannot be upgraded this way. It is empty if it can.
	Refused string `json:"refused,omitempty"`
	// Unforecast says why the way has no forecast. It is empty if it has one.
	Unforecast string `json:"unforecast,omitempty"`
	// Best is true for the best of the ways.
	Best bool `json:"best,omitempty"`
	// WayForecast is nil if the way is refused or has no forecast. Its fields are then left out.
	*WayForecast
}

// WayForecast is the forecast of a way.
type WayForecast struct {
	// Result is how the upgrade ends in the slow case.
	Result record.Result `json:"result"`
	// Duration is how long the way takes.
	Duration simulate.Span `json:"duration,omitzero"`
	// Peak is the largest number of instances at the same time. ExtraInstanceHours are the instance-hours
	// beyond those of the original size. Both are nil if the size of the group is not known.
	Peak               *int     `json:"peak,omitempty"`
	ExtraInstanceHours *float64 `json:"extraInstanceHours,omitempty"`
	// Evictions counts the pods that are evicted.
	Evictions int `json:"evictions"`
	// Forced counts the pods that are deleted against their budgets.
	Forced int `json:"forced"`
	// Outage is how long workloads that had a ready pod are without one, added up.
	Outage record.Duration `json:"outage"`
}

// DeepCopyObject returns a shallow copy, as that of List does.
func (c *Comparison) DeepCopyObject() runtime.Object { copied := *c; return &copied }

// NewComparison marks the best of the ways that replace all nodes. It compares the pods deleted against their
// budgets, the fitting strategy, the outage, the duration and the cost, in this order. A way that deletes pods
// against their budgets is never the best if another way deletes none, even if that other way does not replace
// all nodes.
func NewComparison(group string, fits record.Strategy, because string, ways []Way) *Comparison {
	c := &Comparison{Fits: fits, FitsBecause: because, Ways: ways}
	c.TypeMeta, c.ObjectMeta = NewMeta("Comparison", group)
	var best *Way
	for i := range c.Ways {
		way := &c.Ways[i]
		if c.canBeBest(way) && (best == nil || c.compareWays(way, best) < 0) {
			best = way
		}
	}
	if best != nil {
		best.Best = true
	}
	return c
}

// ReachesGoal reports whether one of the ways replaces all nodes.
func (c *Comparison) ReachesGoal() bool { return slices.ContainsFunc(c.Ways, Way.reachesGoal) }

func (w Way) reachesGoal() bool { return w.WayForecast != nil && w.Result == record.Succeeded }

// canBeBest reports whether the way replaces all nodes, and deletes no pods against their budgets unless every
// forecast way does.
func (c *Comparison) canBeBest(way *Way) bool {
	forcesNone := func(w Way) bool { return w.WayForecast != nil && w.Forced == 0 }
	return way.reachesGoal() && (way.Forced == 0 || !slices.ContainsFunc(c.Ways, forcesNone))
}

// compareWays returns a negative number if a is better than b.
func (c *Comparison) compareWays(a, b *Way) int {
	other := func(w *Way) int {
		if w.Request.Strategy == c.Fits {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.Forced, b.Forced), cmp.Compare(other(a), other(b)), cmp.Compare(a.Outage.Round(time.Second), b.Outage.Round(time.Second)),
		cmp.Compare(a.Duration.Latest.Round(time.Second), b.Duration.Latest.Round(time.Second)), cmp.Compare(a.extraHours(), b.extraHours()),
	)
}

// extraHours returns ExtraInstanceHours, or 0 if they are not known.
func (f *WayForecast) extraHours() float64 {
	if f.ExtraInstanceHours == nil {
		return 0
	}
	return *f.ExtraInstanceHours
}

// WriteComparison writes a row for each way, and names the best way.
func WriteComparison(w io.Writer, c *Comparison, o Options) error {
	out := newPage(w, o)
	out.addVerdict(comparisonVerdict(c))
	out.addLines(fmt.Sprintf("Group       %s, context %s", c.Name, cmp.Or(c.Context, "-")), "")
	var rows [][]string
	for i := range c.Ways {
		if c.Ways[i].WayForecast != nil {
			rows = append(rows, formatWay(&c.Ways[i]))
		}
	}
	if len(rows) > 0 {
		out.addTable([]column{
			{title: "WAY", wraps: true}, {title: "TAKES", alwaysShown: true}, {title: "PEAK"}, {title: "EXTRA-HOURS"}, {title: "EVICTIONS"}, {title: "FORCED"}, {title: "OUTAGE"}, {title: "ENDS"}, {title: "BEST", alwaysShown: true},
		}, rows)
		out.addLines("")
	}
	out.addLines(comparisonFooter(c)...)
	if o.Wide {
		for _, assumption := range c.Assumptions {
			out.addLines("Assumed     " + assumption)
		}
	}
	return out.err
}

// comparisonVerdict returns a line that names the best way, or says why there is none.
func comparisonVerdict(c *Comparison) (tone, string) {
	for i := range c.Ways {
		if w := &c.Ways[i]; w.Best {
			text := fmt.Sprintf("Best: %s, takes %s", w.Flags, FormatSpan(w.Duration))
			if w.Peak != nil {
				text += fmt.Sprintf(", at most %s", formatCount(*w.Peak, "node"))
			}
			return good, text
		}
	}
	if c.ReachesGoal() {
		return warning, "None is best: each way that replaces all nodes deletes pods against their budgets"
	}
	if !c.hasForecast() {
		return bad, "No way could be forecast: " + c.whyUnforecast()
	}
	return bad, "None is best: no forecast replaces all nodes"
}

// hasForecast reports whether at least one of the ways has a forecast.
func (c *Comparison) hasForecast() bool {
	return slices.ContainsFunc(c.Ways, func(w Way) bool { return w.WayForecast != nil })
}

// whyUnforecast returns the reason if all ways have the same one. Otherwise it refers to the lines of the
// ways.
func (c *Comparison) whyUnforecast() string {
	reason := ""
	for i := range c.Ways {
		w := &c.Ways[i]
		why := cmp.Or(w.Unforecast, strings.TrimPrefix(w.Refused, w.Flags+": "))
		if reason != "" && why != reason {
			return "the reason for each way is below"
		}
		reason = why
	}
	return reason
}

func formatWay(w *Way) []string {
	best := ""
	if w.Best {
		best = "*"
	}
	peak, extra := "-", "-"
	if w.Peak != nil && w.ExtraInstanceHours != nil {
		peak, extra = strconv.Itoa(*w.Peak), fmt.Sprintf("%.1f", *w.ExtraInstanceHours)
	}
	return []string{
		w.Flags, FormatSpan(w.Duration), peak, extra, strconv.Itoa(w.Evictions),
		strconv.Itoa(w.Forced), w.Outage.Round(time.Second).String(), string(w.Result), best,
	}
}

func comparisonFooter(c *Comparison) []string {
	lines := []string{fmt.Sprintf("Recommended %s: %s", c.Fits, c.FitsBecause)}
	switch {
	case slices.ContainsFunc(c.Ways, func(w Way) bool { return w.Best }):
	case !c.hasForecast(): // the lines of the ways give the reasons
	case c.ReachesGoal():
		lines = append(lines, "Best        none: each way that replaces all nodes deletes pods against their budgets; a plan shows what blocks the others")
	default:
		lines = append(lines, "Best        none: no forecast replaces all nodes; a plan shows what blocks them")
	}
	for i := range c.Ways {
		switch w := &c.Ways[i]; {
		case w.Best:
			lines = append(lines, fmt.Sprintf("Best        %s: fewest pods deleted past a budget, then the recommended strategy, then least outage, then shortest", w.Flags))
			if w.Request.OnTimeout == record.Force {
				lines = append(lines, fmt.Sprintf("Deletes     pods that are still on their node after %s, even against their budget (%d in this forecast)", duration.HumanDuration(w.Request.DrainTimeout.Duration), w.Forced))
			}
		case w.Refused != "":
			lines = append(lines, fmt.Sprintf("Refused     %s: %s", w.Flags, strings.TrimPrefix(w.Refused, w.Flags+": ")))
		case w.Unforecast != "":
			lines = append(lines, fmt.Sprintf("Not known   %s: %s", w.Flags, w.Unforecast))
		}
	}
	return lines
}
