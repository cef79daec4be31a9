package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// formatZoneSizes returns counts by zone as "a:4 b:2", sorted by zone.
func formatZoneSizes(zones map[string]int) string {
	parts := make([]string, 0, len(zones))
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		parts = append(parts, fmt.Sprintf("%s:%d", zone, zones[zone]))
	}
	return strings.Join(parts, " ")
}

// joinNotes joins the notes that are not empty.
func joinNotes(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(note string) bool { return note == "" }), "; ")
}

// mostNamed is how many items of a list a text names.
const mostNamed = 3

// abbreviateNames returns the first few names and the number of the others.
func abbreviateNames(names []string) string { return abbreviateTo(mostNamed, names) }

// abbreviateTo returns the first names, no more than most, and the number of the others.
func abbreviateTo(most int, names []string) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// joinFirst joins the first few phrases and the number of the others.
func joinFirst(phrases []string) string {
	if more := len(phrases) - mostNamed; more > 0 {
		phrases = append(phrases[:mostNamed:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(phrases, "; ")
}
