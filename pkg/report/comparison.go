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

// Comparison is what an upgrade of one group would be like in several ways.
type Comparison struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Context is the kubeconfig context, or the file of the dump.
	Context string `json:"context,omitempty"`
	// Fits is the strategy that suits the pods which have to move, and FitsBecause why.
	Fits        record.Strategy `json:"fits"`
	FitsBecause string          `json:"fitsBecause"`
	// Assumptions are what the forecast of the way that was asked for rests on, a sentence each.
	Assumptions []string `json:"assumptions,omitempty"`
	// Ways are the way that was asked for and others beside it, each once.
	Ways []Way `json:"ways"`
}

// Way is one way to upgrade a group, and what that would be like.
type Way struct {
	// Flags are what to type for it, "as asked" for the way that was asked for.
	Flags string `json:"flags"`
	// Request has the settings of the way, with all defaults resolved.
	Request record.Request `json:"request,omitzero"`
	// Refused says why the group cannot be upgraded so; empty when it can.
	Refused string `json:"refused,omitempty"`
	// Unforecast says why it is not known what the way would be like; empty where that is known.
	Unforecast string `json:"unforecast,omitempty"`
	// Best marks the one that fits best.
	Best bool `json:"best,omitempty"`
	// WayForecast is nil where the way is refused or not forecast; its fields are left out then.
	*WayForecast
}

// WayForecast is what a way would be like.
type WayForecast struct {
	// Result is that of the slow case.
	Result record.Result `json:"result"`
	// Duration is how long the way takes.
	Duration simulate.Span `json:"duration,omitzero"`
	// Peak is the most instances at once; ExtraInstanceHours are paid beyond those of the size
	// before. Both are nil in a group whose size is not known.
	Peak               *int     `json:"peak,omitempty"`
	ExtraInstanceHours *float64 `json:"extraInstanceHours,omitempty"`
	// Evictions counts the pods that are evicted.
	Evictions int `json:"evictions"`
	// Forced counts pods deleted past their budgets.
	Forced int `json:"forced"`
	// Outage is for how long workloads are without a ready pod that have one, added up.
	Outage record.Duration `json:"outage"`
}

// DeepCopyObject is as List's.
func (c *Comparison) DeepCopyObject() runtime.Object { copied := *c; return &copied }

// NewComparison marks the best of the ways that reach the goal: the one in which fewest pods are deleted past their budgets,
// then the one by the strategy that fits, then the one with the least outage, then the shortest, then the cheapest. Where a way
// deletes no pod past its budget, one that does is not the best, though it may be the only one that reaches the goal.
func NewComparison(group string, fits record.Strategy, because string, ways []Way) *Comparison {
	c := &Comparison{Fits: fits, FitsBecause: because, Ways: ways}
	c.TypeMeta, c.ObjectMeta = NewMeta("Comparison", group)
	var best *Way
	for i := range c.Ways {
		way := &c.Ways[i]
		if c.mayBeBest(way) && (best == nil || c.compareWays(way, best) < 0) {
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

// mayBeBest reports whether the way reaches the goal, and forces no pods where another way forces none.
func (c *Comparison) mayBeBest(way *Way) bool {
	forcesNone := func(w Way) bool { return w.WayForecast != nil && w.Forced == 0 }
	return way.reachesGoal() && (way.Forced == 0 || !slices.ContainsFunc(c.Ways, forcesNone))
}

// compareWays is negative when a is better than b.
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

// extraHours are the ExtraInstanceHours, 0 where they are not known of any way.
func (f *WayForecast) extraHours() float64 {
	if f.ExtraInstanceHours == nil {
		return 0
	}
	return *f.ExtraInstanceHours
}

// WriteComparison writes a row for each way, and which fits best.
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
			{title: "WAY", long: true}, {title: "TAKES", key: true}, {title: "PEAK"}, {title: "EXTRA-HOURS"}, {title: "EVICTIONS"}, {title: "FORCED"}, {title: "OUTAGE"}, {title: "ENDS"}, {title: "BEST", key: true},
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

// comparisonVerdict names the best way.
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
	if !c.isForecast() {
		return bad, "No way could be forecast: " + c.whyUnforecast()
	}
	return bad, "None is best: no forecast replaces all nodes"
}

// isForecast reports whether one of the ways is forecast.
func (c *Comparison) isForecast() bool {
	return slices.ContainsFunc(c.Ways, func(w Way) bool { return w.WayForecast != nil })
}

// whyUnforecast returns the reason that all ways have in common. If they have several reasons, it refers to the lines of the ways.
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
	case !c.isForecast(): // the lines of the ways say why
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
