package hostile

import (
	"maps"
	"strconv"
)

// Tally counts a front's requests and disturbances.
type Tally struct {
	// Requests and Writes count requests, by verb and path ("PATCH /api/v1/nodes/n1") or by operation ("LaunchInstances").
	Requests, Writes map[string]int
	// Harms counts disturbances, by status ("429") or by name: "delayed", "dropped before the effect", "dropped after the
	// effect", "watch cut".
	Harms map[string]int
}

const (
	delayed       = "delayed"
	droppedBefore = "dropped before the effect"
	droppedAfter  = "dropped after the effect"
	watchCut      = "watch cut"
)

func newTally() Tally {
	return Tally{Requests: map[string]int{}, Writes: map[string]int{}, Harms: map[string]int{}}
}

// Harmed returns the number of disturbances.
func (t Tally) Harmed() int { return sum(t.Harms) }

// Asked returns the number of requests.
func (t Tally) Asked() int { return sum(t.Requests) }

func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

func (t Tally) clone() Tally {
	return Tally{Requests: maps.Clone(t.Requests), Writes: maps.Clone(t.Writes), Harms: maps.Clone(t.Harms)}
}

// note counts a harm before its request is answered.
func (t Tally) note(h Harm) {
	if h.Delay > 0 {
		t.Harms[delayed]++
	}
	switch {
	case h.Status != 0:
		t.Harms[strconv.Itoa(h.Status)]++
	case h.Drop == BeforeEffect:
		t.Harms[droppedBefore]++
	}
}
