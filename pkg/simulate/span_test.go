package simulate

import (
	"testing"
	"time"
)

// A node that one of the two runs never finishes has no end, instead of "0s-3m7s".
func TestNodeUnfinishedInOneRunHasNoForecastEnd(t *testing.T) {
	ends, later := newSpan(3*time.Minute), newSpan(5*time.Minute)
	for name, c := range map[string]struct{ a, b, want Span }{
		"both end":        {ends, later, Span{Earliest: ends.Earliest, Latest: later.Latest}},
		"the first stuck": {Span{}, later, Span{}},
		"the later stuck": {ends, Span{}, Span{}},
	} {
		if got := c.a.unionIfBoth(c.b); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
