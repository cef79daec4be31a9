package simulate

import (
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Unrecovered is a workload that has fewer ready pods after the upgrade than before.
type Unrecovered struct {
	// Workload is NAMESPACE/KIND/NAME. Ready counts its ready pods after the upgrade, Before those before it.
	Workload string `json:"workload"`
	Ready    int    `json:"ready"`
	Before   int    `json:"before"`
	// Why is why the API server refuses its new pods; "" if it does not.
	Why string `json:"why,omitempty"`
}

// recoveryTime is how long after the upgrade a workload may become ready again. Later, it counts as unrecovered.
const recoveryTime = time.Hour

// findUnrecovered returns the workloads on record that lack ready pods when no more pods become ready, or after recoveryTime. It
// moves the time.
func (c *Cluster) findUnrecovered() []Unrecovered {
	found := c.listLackingWorkloads()
	for end := c.clock.now.Add(recoveryTime); len(found) > 0 && c.clock.now.Before(end); {
		if at, more := c.clock.nextEventTime(); !more || at.After(end) {
			break
		}
		c.Advance(end)
		found = c.listLackingWorkloads()
	}
	return found
}

// listLackingWorkloads returns the workloads on record that have fewer ready pods than before their pods left nodes, by name.
func (c *Cluster) listLackingWorkloads() []Unrecovered {
	var lacking []Unrecovered
	current := c.workloads.Current()
	for name, before := range c.record.Workloads {
		w, err := drain.ParseWorkload(name)
		if err != nil || before.Ready == 0 {
			continue
		}
		if ready := current.Named(w).CountSettled(0, c.clock.now); ready < before.Ready {
			lacking = append(lacking, Unrecovered{Workload: name, Ready: ready, Before: before.Ready, Why: c.pods.refused[w]})
		}
	}
	slices.SortFunc(lacking, func(a, b Unrecovered) int { return strings.Compare(a.Workload, b.Workload) })
	return lacking
}

// mergeUnrecovered returns the workloads of both lists. Of a workload in both, it keeps the entry with fewer ready pods.
func mergeUnrecovered(all, more []Unrecovered) []Unrecovered {
	for _, u := range more {
		i := slices.IndexFunc(all, func(known Unrecovered) bool { return known.Workload == u.Workload })
		switch {
		case i < 0:
			all = append(all, u)
		case u.Ready < all[i].Ready:
			all[i] = u
		}
	}
	slices.SortFunc(all, func(a, b Unrecovered) int { return strings.Compare(a.Workload, b.Workload) })
	return all
}
