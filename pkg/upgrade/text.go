package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// formatZoneSizes writes counts by zone as "a:4 b:2", zones in order.
func formatZoneSizes(zones map[string]int) string {
	parts := make([]string, 0, len(zones))
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		parts = append(parts, fmt.Sprintf("%s:%d", zone, zones[zone]))
	}
	return strings.Join(parts, " ")
}

// joinNotes joins what is to be said at the end, leaving out what is empty.
func joinNotes(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(note string) bool { return note == "" }), "; ")
}

// mostNamed is how many of several things a text names.
const mostNamed = 3

// abbreviateNames names the first few and counts the rest.
func abbreviateNames(names []string) string { return abbreviateTo(mostNamed, names) }

// abbreviateTo names the first few, no more than most, and counts the rest.
func abbreviateTo(most int, names []string) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// joinFirst joins the first few phrases and counts the rest.
func joinFirst(phrases []string) string {
	if more := len(phrases) - mostNamed; more > 0 {
		phrases = append(phrases[:mostNamed:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(phrases, "; ")
}
