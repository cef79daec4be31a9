package nodegroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxParallel is the largest number of nodes that EKS allows to be unavailable at the same time (EKS E06).
const MaxParallel = 100

// Quantity is a number of nodes as people write it: 2, 10% or 2/zone.
type Quantity struct {
	N       int
	Percent bool
	PerZone bool
}

// ParseQuantity parses "2", "10%" or "2/zone". It refuses signs, fractions, 0% and percentages over 100%.
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

// String returns the quantity in the format of ParseQuantity.
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

// ResolveUnavailable returns the quantity as maxUnavailable of a group with that many nodes. A percentage is rounded
// down, but is at least 1 and at most MaxParallel (EKS E06–E08). ResolveUnavailable returns an error if a plain
// number is over MaxParallel, or if the quantity is per zone.
func (q Quantity) ResolveUnavailable(nodes int) (int, error) {
	switch {
	case q.PerZone:
		return 0, errors.New("max-unavailable counts nodes of the whole group: write 2 or 10%")
	case q.Percent:
		return min(max(1, nodes*q.N/100), MaxParallel), nil
	case q.N > MaxParallel:
		return 0, fmt.Errorf("%d unavailable nodes are more than the limit of %d: use a smaller number", q.N, MaxParallel)
	default:
		return q.N, nil
	}
}

// ResolveSurge returns the quantity as the surge of a group with that many nodes and zones, in nodes of the whole
// group. A percentage is rounded up.
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

// ResolveBatch returns the quantity as a batch of a group with that many nodes. A percentage is rounded down but is
// at least 1 (GKE G45). ResolveBatch returns an error if the quantity is per zone.
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
