package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// formatZoneSizes formats counts by zone as "a:4 b:2", sorted by zone.
func formatZoneSizes(zones map[string]int) string {
	parts := make([]string, 0, len(zones))
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		parts = append(parts, fmt.Sprintf("%s:%d", zone, zones[zone]))
	}
	return strings.Join(parts, " ")
}

// joinNotes joins the texts that are not empty.
func joinNotes(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(note string) bool { return note == "" }), "; ")
}

// maxNamed limits how many items a text names.
const maxNamed = 3

// abbreviateNames lists the first names and counts the rest.
func abbreviateNames(names []string) string { return abbreviateTo(maxNamed, names) }

// abbreviateTo lists at most most names and counts the rest.
func abbreviateTo(most int, names []string) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// joinFirst joins the first phrases and counts the rest.
func joinFirst(phrases []string) string {
	if more := len(phrases) - maxNamed; more > 0 {
		phrases = append(phrases[:maxNamed:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(phrases, "; ")
}
