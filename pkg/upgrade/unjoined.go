package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// joinTime is how long a new machine of a group that its cloud upgrades may take to join the cluster
// before it is named.
const joinTime = 3 * time.Minute

// unjoined finds out why the new nodes of a group that its cloud upgrades do not come up.
type unjoined struct{ *draft }

// noteUnjoined notes why a launch failed, and since when current machines have been without a node.
// One that ends without having joined stays on record for the report.
func (d unjoined) noteUnjoined() {
	if f := d.w.Group.LaunchFailure; f.Message != "" && f.At.After(d.newestOperation().Began) {
		d.rec.Delegation.LaunchFailure = f.Message
	}
	known := maps.Clone(d.rec.Delegation.Unjoined)
	for i := range d.w.Members {
		m := &d.w.Members[i]
		id := m.Instance.ID
		if m.Node != nil {
			delete(known, id)
			continue
		}
		if _, noted := known[id]; noted || m.Outdated || id == "" || m.Instance.State == nodegroup.InstanceLeaving {
			continue
		}
		if known == nil {
			known = map[string]time.Time{}
		}
		known[id] = d.w.Now
	}
	d.rec.Delegation.Unjoined = known
}

// describeUnjoined names the machines that ran for long and have not joined, "" when there are none.
func (d unjoined) describeUnjoined() string {
	var names []string
	for _, id := range slices.Sorted(maps.Keys(d.rec.Delegation.Unjoined)) {
		since := d.rec.Delegation.Unjoined[id]
		if at := since.Add(joinTime); d.w.Now.Before(at) {
			d.requeueAt(at)
			continue
		}
		names = append(names, id)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("not joined to the cluster: %s: see their user data, their node role and their kubelets' logs", abbreviateNames(names))
}

// describeMissing says why new nodes are missing by now, "" when none is or nobody knows why.
func (d unjoined) describeMissing() string {
	if f := d.w.Group.LaunchFailure; f.Message == "" || !f.At.After(d.newestOperation().Began) {
		return d.describeUnjoined()
	}
	return d.describeFailures()
}

// describeFailures says why new nodes have been missing since the operation began.
func (d unjoined) describeFailures() string {
	launch := d.rec.Delegation.LaunchFailure
	if launch != "" {
		launch = "the last launch failed: " + launch
	}
	return joinNotes(launch, d.describeUnjoined())
}
