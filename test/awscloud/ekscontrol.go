package awscloud

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// UpdateFailure makes an update of a managed node group fail when it enters a phase.
type UpdateFailure struct {
	Phase       UpdatePhase
	Code        ekstypes.ErrorCode
	Message     string
	ResourceIDs []string
}

// FailUpdate makes the next version update of a node group that enters the phase fail there. Failures for the same phase are
// used in the order in which they were added.
func (c *Cloud) FailUpdate(cluster, name string, f UpdateFailure) error {
	return c.changeNodegroup(cluster, name, func(n *nodegroup, _ time.Time) {
		n.failures = append(n.failures, f)
	})
}

// HideUpdate removes the newest update of a node group from EKS's answers or, if hidden is false, shows it again. The
// update itself continues.
func (c *Cloud) HideUpdate(cluster, name string, hidden bool) error {
	return c.changeNodegroup(cluster, name, func(n *nodegroup, _ time.Time) {
		if u := n.newestUpdate(); u != nil {
			u.hidden = hidden
		}
	})
}

// SetNodegroupHealth sets the issues of a node group. With issues the node group is DEGRADED, without issues it is healthy
// again.
func (c *Cloud) SetNodegroupHealth(cluster, name string, issues ...ekstypes.Issue) error {
	return c.changeNodegroup(cluster, name, func(n *nodegroup, now time.Time) {
		n.shown.Health = &ekstypes.NodegroupHealth{Issues: append([]ekstypes.Issue{}, issues...)}
		if u := n.newestUpdate(); u == nil || u.shown.Status != ekstypes.UpdateStatusInProgress {
			n.setStatus(n.statusWithoutUpdate(), now)
		}
	})
}

// statusWithoutUpdate returns the status that the node group has while no update is in progress.
func (n *nodegroup) statusWithoutUpdate() ekstypes.NodegroupStatus {
	if len(n.shown.Health.Issues) > 0 {
		return ekstypes.NodegroupStatusDegraded
	}
	return ekstypes.NodegroupStatusActive
}

func (c *Cloud) changeNodegroup(cluster, name string, change func(*nodegroup, time.Time)) error {
	return c.home.update(func(now time.Time) error {
		n, err := c.home.nodegroup(cluster, name)
		if err != nil {
			return fmt.Errorf("changing node group %q of cluster %q: %w", name, cluster, err)
		}
		change(n, now)
		return nil
	})
}

// BlockDrains makes drains of the nodes wait, as a disruption budget does. Without nodes, it blocks the drains of all nodes. A
// drain waits until UnblockDrains or until its time limit.
func (c *Cloud) BlockDrains(nodes ...string) {
	_ = c.home.update(func(time.Time) error {
		for _, node := range nodes {
			c.home.blockedDrains[node] = true
		}
		c.home.blockedDrains[""] = c.home.blockedDrains[""] || len(nodes) == 0
		return nil
	})
}

// UnblockDrains ends the effect of all calls of BlockDrains.
func (c *Cloud) UnblockDrains() {
	_ = c.home.update(func(time.Time) error {
		clear(c.home.blockedDrains)
		return nil
	})
}

// PostponeDrains prevents drains of the nodes from starting until release is called. The time limit of a drain starts when the
// drain starts.
func (c *Cloud) PostponeDrains(nodes ...string) (release func()) {
	hold := func(on bool) {
		_ = c.home.update(func(time.Time) error {
			for _, node := range nodes {
				c.home.postponedDrains[node] = on
			}
			return nil
		})
	}
	hold(true)
	return func() { hold(false) }
}

// UpdateState is the state of an update, with facts that EKS does not show.
type UpdateState struct {
	ID       string // empty: the node group has had no update
	Type     ekstypes.UpdateType
	Status   ekstypes.UpdateStatus
	Phase    UpdatePhase // the present or last phase of a version update
	Draining []string    // nodes, from the start of their drain until they are gone
	Errors   []ekstypes.ErrorDetail
}

// WaitForUpdate calls ok after every change and returns the newest update of a node group when ok returns true. It fails if ctx ends
// first or the node group is unknown.
func (c *Cloud) WaitForUpdate(ctx context.Context, cluster, name string, ok func(UpdateState) bool) (UpdateState, error) {
	for {
		c.home.mu.Lock()
		n, err := c.home.nodegroup(cluster, name)
		s, changed := UpdateState{}, c.home.changed
		if err == nil {
			s = n.updateState()
		}
		c.home.mu.Unlock()
		if err != nil {
			return s, fmt.Errorf("waiting for an update of node group %q of cluster %q: %w", name, cluster, err)
		}
		if ok(s) {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("waiting for an update of node group %q, last seen as %+v: %w", name, s, ctx.Err())
		case <-changed:
		}
	}
}

func (n *nodegroup) updateState() UpdateState {
	u := n.newestUpdate()
	if u == nil {
		return UpdateState{}
	}
	return UpdateState{
		ID: aws.ToString(u.shown.Id), Type: u.shown.Type, Status: u.shown.Status, Phase: u.phase,
		Draining: slices.Clone(u.draining), Errors: u.shown.Errors,
	}
}

// Ended reports whether an update has ended, whether it succeeded or failed.
func (s UpdateState) Ended() bool { return s.ID != "" && s.Status != ekstypes.UpdateStatusInProgress }
