package upgrade

import (
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// chooseRollout returns how the cloud replaces the group's nodes: as the group's own settings say, unless flags change them.
// sets is true if they do. It returns an error for a strategy that the cloud cannot be asked for, and for a width that the
// strategy does not have.
func (s *Settings) chooseRollout(group *nodegroup.Group) (rollout nodegroup.Rollout, sets bool, err error) {
	own := group.Managed.Rollout
	if s.Strategy == "" || s.Strategy == record.Delegated || !group.Managed.TakesRollout {
		if strategy := record.Strategy(own.Strategy); !strategy.Traits().TakesWidth && (s.MaxSurge != nil || s.MaxUnavailable != nil) {
			return own, false, fmt.Errorf("--max-surge and --max-unavailable: %s upgrades group %q with its strategy %s, which has neither: remove the flags, or add --strategy=%s", nameManager(group.Provider), group.Name, strategy, record.Surge)
		}
		return own, false, nil
	}
	asked, err := s.askedRollout(group)
	if op := &group.Managed.Operation; err == nil && asked != own && op.State == nodegroup.OperationRunning && op.To.ID == group.Wanted.ID {
		err = fmt.Errorf("--strategy=%s: %s is upgrading group %q already, and keeps the settings that it began with: remove --strategy and its flags to follow it", s.Strategy, nameManager(group.Provider), group.Name)
	}
	return asked, asked != own, err
}

// askedRollout returns the rollout that --strategy and its flags ask for. What they leave open is the group's own if it has the same
// strategy, else the cloud's default.
func (s *Settings) askedRollout(group *nodegroup.Group) (nodegroup.Rollout, error) {
	own, asked := group.Managed.Rollout, nodegroup.Rollout{Strategy: string(s.Strategy)}
	same := record.Strategy(own.Strategy).Known() == s.Strategy
	switch {
	case same:
		asked = own
	case s.Strategy == record.BlueGreen:
		asked.Batch, asked.Soak = nodegroup.Quantity{N: 1}, defaultSoak
	case s.Strategy == record.AutoscaledBlueGreen:
		asked.WaitForDrain = defaultWait
	case s.Strategy == record.ShortLived:
		return own, fmt.Errorf("--strategy=%s: %s has this strategy only for groups that were created with it: remove the flag", s.Strategy, nameManager(group.Provider))
	}
	if s.Strategy == record.AutoscaledBlueGreen && !group.Autoscaler.Serves {
		return own, fmt.Errorf("--strategy=%s: the autoscaler of group %q is off, so nothing would add nodes: switch it on, or use %s", s.Strategy, group.Name, record.BlueGreen)
	}
	asked.Batch, asked.BatchSoak, asked.Soak = valueOrDefault(s.Batch, asked.Batch), valueOrDefault(s.BatchSoak, asked.BatchSoak), valueOrDefault(s.Soak, asked.Soak)
	asked.WaitForDrain = valueOrDefault(s.WaitForDrain, asked.WaitForDrain)
	return asked, nil
}

// withoutRollout returns the settings without those that the cloud takes as the rollout.
func (s Settings) withoutRollout(managed *nodegroup.Managed) *Settings {
	if managed.TakesRollout {
		s.Strategy, s.Batch, s.BatchSoak, s.Soak, s.WaitForDrain = "", nil, nil, nil, nil
	}
	return &s
}

// resolveRollout completes the request for a cloud's strategy other than surge.
func resolveRollout(req record.Request, name record.Strategy, rollout nodegroup.Rollout, outdated int) (record.Request, error) {
	req.CloudStrategy = name
	switch name {
	case record.BlueGreen:
		batch, err := rollout.Batch.ResolveBatch(outdated)
		if err != nil {
			return record.Request{}, fmt.Errorf("--batch: %w", err)
		}
		req.BlueGreen = &record.BlueGreenRequest{Batch: batch, BatchSoak: record.Duration{Duration: rollout.BatchSoak}, Soak: record.Duration{Duration: rollout.Soak}}
		if rollout.Batch.Percent {
			req.BlueGreen.BatchPercent = rollout.Batch.N
		}
		req.Surge, req.Window = outdated, max(1, batch)
	case record.AutoscaledBlueGreen:
		req.WaitForDrain, req.Window = record.Duration{Duration: rollout.WaitForDrain}, maxDrainedTogether
	default:
		req.Window = 1
	}
	return req, nil
}

// canRollBack reports whether the strategy by which the nodes are replaced has a rollback (GKE G56, G78).
func canRollBack(r *record.Request) bool {
	return slices.ContainsFunc(makeStrategy(r.ReplacedBy()).phases, func(p phase) bool { return slices.Contains(p.verbs, record.VerbRollback) })
}

// requestedRollout returns what a request to the cloud says about the strategy: nothing if the group's own is used.
func requestedRollout(r *record.Request) nodegroup.Rollout {
	if !r.SetsRollout {
		return nodegroup.Rollout{}
	}
	rollout := nodegroup.Rollout{Strategy: string(r.CloudStrategy.Known()), WaitForDrain: r.WaitForDrain.Duration}
	if bg := r.BlueGreen; bg != nil {
		rollout.Batch, rollout.BatchSoak, rollout.Soak = nodegroup.Quantity{N: bg.Batch}, bg.BatchSoak.Duration, bg.Soak.Duration
		if bg.BatchPercent > 0 {
			rollout.Batch = nodegroup.Quantity{N: bg.BatchPercent, Percent: true}
		}
	}
	return rollout
}

// describeRollout returns the line of a plan for a cloud's strategy other than surge.
func describeRollout(r *record.Request, provider string) string {
	as := *r
	as.Strategy = r.ReplacedBy()
	return nameManager(provider) + " upgrades the group itself: " + makeStrategy(as.Strategy).describe(&as, provider) + describeKeptSettings(r, provider)
}

// describeKeptSettings says that the cloud keeps the settings that the user asked for; "" if the user asked for none.
func describeKeptSettings(r *record.Request, provider string) string {
	if !r.SetsRollout {
		return ""
	}
	return fmt.Sprintf("; %s keeps this as the group's own strategy", nameManager(provider))
}

// followUntilSoak follows the cloud's operation until the group is replaced or the cloud keeps the drained nodes.
func (d *decision) followUntilSoak() (done bool) { return d.isCloudSoaking() || d.followOperation() }

// isCloudSoaking reports whether the upgrade's operation keeps the drained nodes.
func (d *decision) isCloudSoaking() bool {
	op, known := d.newestOperation(), d.rec.Delegation
	return d.w.Group.Managed != nil && op.State == nodegroup.OperationRunning && op.ID == known.ID && op.Soaks
}

// isKeptByCloud reports whether the cloud has drained the outdated node, or has tried to for long enough, and keeps it. It may also be
// a node that was empty before.
func (d *decision) isKeptByCloud(m *nodegroup.Member) bool {
	if d.rec.Delegation == nil || !d.rec.Request.ReplacedBy().Traits().KeepsNodes || m.Node == nil || !hasMachine(m) || !nodegroup.IsClosed(m.Node) {
		return false
	}
	_, begun := d.rec.Delegation.Draining[m.Name()]
	return begun && !slices.Contains(d.listDraining(), m.Name()) || d.classifyPodsOf(m).countPodsLeft() == 0
}

// followSoak waits while the cloud keeps the drained nodes (GKE G49), and reports whether it deletes them or the group is replaced.
// A reading that shows neither is older than the soak.
func (d *decision) followSoak() (done bool) {
	op, known := d.newestOperation(), d.rec.Delegation
	if !d.isCloudSoaking() {
		d.endSoak()
		return op.Deletes && op.ID == known.ID || d.followOperation()
	}
	known.Newest, known.Draining, known.Blocked = op.Began, nil, nil
	d.rec.Replaced = max(0, d.rec.Total-len(d.count.pending)-len(d.count.leaving))
	d.rec.Soak.Until = op.SoaksUntil
	d.requeueAt(op.SoaksUntil)
	d.pollCloudSoon(fmt.Sprintf("%s to delete the drained nodes at %s", d.managerName(), describeSoakEnd(op)))
	d.poll = PollOperation
	switch {
	case d.pausing:
		d.endSoak() // the process must not exit before the operation is cancelled
		known.Completing = ""
	case known.Completing == op.ID && !op.Cancelling:
		d.endSoak()
		d.endCloudSoak(op)
		return false
	}
	d.cancelForPause(op)
	return false
}

// describeSoakEnd returns when the soak of the operation ends.
func describeSoakEnd(op *nodegroup.Operation) string {
	if op.SoaksUntil.IsZero() {
		return "the end of the soak, which the cloud does not tell"
	}
	return op.SoaksUntil.UTC().Format(time.RFC3339)
}

// endCloudSoak asks the cloud to end the soak. If the cloud refuses permanently, the soak continues, and the message says why.
func (d *decision) endCloudSoak(op *nodegroup.Operation) {
	end := nodegroup.EndSoak{Operation: op.ID}
	if last := d.lastAttempt(end); last.Outcome == nodegroup.OutcomeFatal && !last.InFlight {
		refused := fmt.Sprintf("%s refuses to end the soak of %s: %s", d.managerName(), d.operationName(op.ID), last.Detail)
		d.rec.Soak.Until = op.SoaksUntil
		if d.setWaiting(refused); !d.w.Stay {
			d.rec.Delegation.Completing = ""
			d.endUpgradeWith(record.Waiting, fmt.Sprintf("%s; the drained nodes are kept until %s", refused, describeSoakEnd(op)))
		}
		return
	}
	d.pollCloudSoon(d.managerName() + " to end the soak")
	if !d.isReadingTooOld(end) {
		d.addAction(end)
	}
}

// followDeletion follows the operation after its soak, and reports whether the group is replaced. If a cancelled operation was
// continued by another one that soaks, it goes back to the soak.
func (d *decision) followDeletion() (done bool) {
	if d.isCloudSoaking() {
		d.enterPhase(strategyOf(record.Delegated, false).findPhase(record.PhaseSoak))
		d.requeueNow()
		return false
	}
	return d.followOperation()
}
