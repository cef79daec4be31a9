package measure

import (
	"fmt"
	"slices"
)

// Spread tells how values lie. Its ranks are nearest ranks, so each is one of the values.
type Spread struct{ Median, P90, Max int }

// SpreadOf sorts a copy of the values; of none it is zero.
func SpreadOf(values []int) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := func(percent int) int { return sorted[(len(sorted)*percent+99)/100-1] }
	return Spread{Median: rank(50), P90: rank(90), Max: rank(100)}
}

func (s Spread) String() string { return fmt.Sprintf("%d/%d/%d", s.Median, s.P90, s.Max) }

// share is "12 %", and "-" of nothing.
func share(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%d %%", (200*part+whole)/(2*whole))
}
