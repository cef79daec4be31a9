package nodegroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxParallel is how many nodes EKS lets be unavailable at once (EKS E06).
const MaxParallel = 100

// Quantity is a number of nodes as people write it: 2, 10% or 2/zone.
type Quantity struct {
	N       int
	Percent bool
	PerZone bool
}

// ParseQuantity reads "2", "10%" or "2/zone". It refuses signs, fractions and a percentage of 0 or
// over 100.
func ParseQuantity(text string) (Quantity, error) {
	var q Quantity
	digits, isPercent := strings.CutSuffix(text, "%")
	q.Percent = isPercent
	if !isPercent {
		digits, q.PerZone = strings.CutSuffix(text, "/zone")
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return Quantity{}, fmt.Errorf("%q is not a number of nodes: write 2, 10%% or 2/zone", text)
	}
	q.N = int(n)
	if q.Percent && (q.N < 1 || q.N > 100) {
		return Quantity{}, fmt.Errorf("%q is not a percentage from 1%% to 100%%", text)
	}
	return q, nil
}

// String writes the quantity as ParseQuantity reads it.
func (q Quantity) String() string {
	switch {
	case q.Percent:
		return fmt.Sprintf("%d%%", q.N)
	case q.PerZone:
		return fmt.Sprintf("%d/zone", q.N)
	default:
		return strconv.Itoa(q.N)
	}
}

// ResolveUnavailable resolves the quantity as maxUnavailable of a group of that many nodes: a
// percentage is rounded down but is at least 1, and it is at most MaxParallel (EKS E06–E08).
// It returns an error when a plain number is over MaxParallel, or the quantity is per zone.
func (q Quantity) ResolveUnavailable(nodes int) (int, error) {
	switch {
	case q.PerZone:
		return 0, errors.New("max-unavailable counts nodes of the whole group: write 2 or 10%")
	case q.Percent:
		return min(max(1, nodes*q.N/100), MaxParallel), nil
	case q.N > MaxParallel:
		return 0, fmt.Errorf("%d nodes unavailable at once is over the limit of %d: choose a smaller number", q.N, MaxParallel)
	default:
		return q.N, nil
	}
}

// ResolveSurge resolves the quantity as a surge over a group of that many nodes in that many
// zones, in nodes of the whole group; a percentage is rounded up.
func (q Quantity) ResolveSurge(nodes, zones int) int {
	switch {
	case q.PerZone:
		return q.N * zones
	case q.Percent:
		return (nodes*q.N + 99) / 100
	default:
		return q.N
	}
}

// ResolveBatch resolves the quantity as a batch of that many nodes: a percentage is rounded down
// but is at least 1 (GKE G45). It returns an error when the quantity is per zone.
func (q Quantity) ResolveBatch(nodes int) (int, error) {
	switch {
	case q.PerZone:
		return 0, errors.New("a batch counts nodes of the whole group: write 2 or 25%")
	case q.Percent:
		return max(1, nodes*q.N/100), nil
	default:
		return q.N, nil
	}
}
