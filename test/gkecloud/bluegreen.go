package gkecloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// The phases of a blue-green upgrade.
const (
	creatingGreen   = "CREATING_GREEN_POOL"
	cordoningBlue   = "CORDONING_BLUE_POOL"
	waitingToDrain  = "WAITING_TO_DRAIN_BLUE_POOL"
	drainingBlue    = "DRAINING_BLUE_POOL"
	soaking         = "NODE_POOL_SOAKING"
	deletingBlue    = "DELETING_BLUE_POOL"
	rollbackStarted = "ROLLBACK_STARTED"
)

// rollout has the settings of a blue-green upgrade.
type rollout struct {
	batch           int
	batchSoak, soak time.Duration
	autoscaled      bool
	wait            time.Duration
}

// rollout returns the settings of the pool for nodes machines; ok is false if its strategy is not blue-green.
func (p *pool) rollout(nodes int) (r rollout, ok bool) {
	if p.Settings["strategy"] != "BLUE_GREEN" {
		return r, false
	}
	own, _ := p.Settings["blueGreenSettings"].(map[string]any)
	r = rollout{batch: 1, soak: seconds(own["nodePoolSoakDuration"], time.Hour)}
	if policy, is := own["autoscaledRolloutPolicy"].(map[string]any); is {
		return rollout{batch: min(nodes, 20), autoscaled: true, wait: seconds(policy["waitForDrainDuration"], 72*time.Hour)}, true
	}
	if policy, is := own["standardRolloutPolicy"].(map[string]any); is {
		r.batchSoak = seconds(policy["batchSoakDuration"], 0)
		if count, is := policy["batchNodeCount"].(float64); is {
			r.batch = int(count)
		}
		if part, is := policy["batchPercentage"].(float64); is {
			r.batch = max(1, int(part*float64(nodes)))
		}
	}
	return r, true
}

// seconds reads a duration of a request, such as "600s".
func seconds(value any, otherwise time.Duration) time.Duration {
	text, _ := value.(string)
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return otherwise
}

// enter sets the phase that the pool shows; "" for none.
func (c *Cloud) enter(p *pool, phase string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.phase = phase
}

// upgradeBlueGreen adds new nodes, cordons the old ones, drains them in batches, keeps them for the soak and deletes them. After a
// cancellation both stay, and the next upgrade continues with them.
func (c *Cloud) upgradeBlueGreen(ctx context.Context, p *pool, op *operation, r rollout) error {
	c.mu.Lock()
	var old []machine
	for _, zone := range p.Zones {
		old = append(old, p.outdated(zone, op.target)...)
	}
	c.mu.Unlock()
	if op.isRollback {
		return c.rollBackBlueGreen(ctx, p, op, old)
	}
	c.enter(p, creatingGreen)
	if !r.autoscaled {
		if err := c.addGreen(ctx, p, op, old); err != nil {
			return err
		}
	}
	c.enter(p, cordoningBlue)
	for _, m := range old {
		if err := c.options.Drainer.Fence(ctx, m.name, false); err != nil {
			return err
		}
	}
	if r.autoscaled {
		c.enter(p, waitingToDrain)
		if err := op.wait(ctx, r.wait); err != nil {
			return err
		}
		stop, err := c.serveAutoscaler(ctx, p, op, old)
		if err != nil {
			return err
		}
		defer stop()
	}
	if err := c.drainBatches(ctx, p, op, old, r); err != nil {
		return err
	}
	if !r.autoscaled {
		if err := c.soak(ctx, p, op, r.soak); err != nil {
			return err
		}
	}
	c.enter(p, deletingBlue)
	return c.deleteAll(ctx, p, op, old)
}

// addGreen adds a new machine for each old one, except for those that an earlier upgrade has added.
func (c *Cloud) addGreen(ctx context.Context, p *pool, op *operation, old []machine) error {
	c.mu.Lock()
	var added []machine
	for _, zone := range p.Zones {
		missing := 0
		for _, m := range old {
			if m.zone == zone {
				missing++
			}
		}
		for _, m := range p.nodes {
			if m.zone == zone && m.version == op.target {
				missing--
			}
		}
		for range missing {
			added = append(added, c.newMachine(p, zone, op.target))
		}
	}
	c.mu.Unlock()
	if err := eachMachine(added, func(m machine) error { return c.start(ctx, p, m) }); err != nil {
		return err
	}
	return op.wait(ctx, 0)
}

// scanInterval is how often GKE's autoscaler looks for pods that no node takes.
const scanInterval = 10 * time.Second

// serveAutoscaler adds the nodes that pods need, as GKE's autoscaler does, until stop is called. Without Options.Lacking it adds a new
// node for each old one before it returns.
func (c *Cloud) serveAutoscaler(ctx context.Context, p *pool, op *operation, old []machine) (stop func(), err error) {
	if c.options.Lacking == nil {
		return func() {}, c.addGreen(ctx, p, op, old)
	}
	ctx, cancel := context.WithCancel(ctx)
	var scans sync.WaitGroup
	scans.Go(func() {
		for pause(ctx, scanInterval) == nil {
			c.scaleUp(ctx, p, op)
		}
	})
	return func() { cancel(); scans.Wait() }, nil
}

// scaleUp adds the nodes that pods need, and waits until they are Ready. If that fails, the next scan tries it again.
func (c *Cloud) scaleUp(ctx context.Context, p *pool, op *operation) {
	missing, err := c.options.Lacking(ctx, p.Name)
	if err != nil {
		return
	}
	c.mu.Lock()
	var added []machine
	for i := range missing {
		added = append(added, c.newMachine(p, p.Zones[i%len(p.Zones)], op.target))
	}
	c.mu.Unlock()
	_ = eachMachine(added, func(m machine) error { return c.start(ctx, p, m) })
}

// drainBatches drains the old machines batch by batch. Pods that are left after the limit of the drain stay until their node is deleted.
func (c *Cloud) drainBatches(ctx context.Context, p *pool, op *operation, old []machine, r rollout) error {
	if r.batch == 0 {
		return nil
	}
	c.enter(p, drainingBlue)
	for len(old) > 0 {
		batch := old[:min(r.batch, len(old))]
		old = old[len(batch):]
		err := eachMachine(batch, func(m machine) error {
			if err := c.options.Drainer.Drain(ctx, m.name, c.drainLimit(p)); err != nil {
				return ctx.Err() // its pods are deleted with it
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := op.wait(ctx, r.batchSoak); err != nil {
			return err
		}
	}
	return nil
}

// soak keeps the old machines for the time, or until a user completes the upgrade.
func (c *Cloud) soak(ctx context.Context, p *pool, op *operation, length time.Duration) error {
	c.mu.Lock()
	p.phase, p.deletes = soaking, time.Now().Add(length)
	c.mu.Unlock()
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-op.completed:
	case <-op.cancelled:
		return errCancelled
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// rollBackBlueGreen lets the machines of the earlier version take pods again, and drains and deletes the others.
func (c *Cloud) rollBackBlueGreen(ctx context.Context, p *pool, op *operation, green []machine) error {
	c.enter(p, rollbackStarted)
	c.mu.Lock()
	blue := make([]machine, 0, len(p.nodes))
	for _, m := range p.nodes {
		if m.version == op.target {
			blue = append(blue, m)
		}
	}
	c.mu.Unlock()
	for _, m := range blue {
		if err := c.options.Drainer.Unfence(ctx, m.name); err != nil {
			return err
		}
	}
	for _, m := range green {
		if err := c.options.Drainer.Fence(ctx, m.name, false); err != nil {
			return err
		}
		if err := c.options.Drainer.Drain(ctx, m.name, c.drainLimit(p)); err != nil {
			return err
		}
	}
	return c.deleteAll(ctx, p, op, green)
}

// deleteAll deletes the machines with the pods that are left on them.
func (c *Cloud) deleteAll(ctx context.Context, p *pool, op *operation, all []machine) error {
	return eachMachine(all, func(m machine) error {
		if err := c.options.Drainer.DeletePods(ctx, m.name, c.options.NodeLimit); err != nil {
			return err
		}
		if err := errors.Join(pause(ctx, c.options.Delete), c.options.Nodes.DeleteNode(ctx, m.name)); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		p.remove(m.name)
		op.done++
		return nil
	})
}

// eachMachine calls the function for all machines at the same time, and returns their errors.
func eachMachine(all []machine, do func(machine) error) error {
	var running sync.WaitGroup
	failures := make([]error, len(all))
	for i, m := range all {
		running.Go(func() { failures[i] = do(m) })
	}
	running.Wait()
	return errors.Join(failures...)
}

// wait waits for the time. It returns errCancelled if the operation is or was cancelled.
func (o *operation) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-o.cancelled:
		return errCancelled
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	select {
	case <-o.cancelled:
		return errCancelled
	default:
		return nil
	}
}

// complete ends the soak of a pool's upgrade.
func (c *Cloud) complete(name string) (map[string]any, *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, op := c.findPool(name), c.runningOperation()
	switch {
	case p == nil:
		return nil, &fault{http.StatusNotFound, "NOT_FOUND", "Not found: node pool " + name + "."}
	case op == nil || op.pool != p.Name || p.phase != soaking:
		return nil, &fault{http.StatusBadRequest, "FAILED_PRECONDITION", fmt.Sprintf("Node pool %q is not in the soak of a blue-green upgrade.", name)}
	}
	op.completes.Do(func() { close(op.completed) })
	return map[string]any{}, nil
}

// infoJSON returns the pool's updateInfo as GKE shows it; nil if no blue-green upgrade runs. The caller has the lock.
func (p *pool) infoJSON(target string) map[string]any {
	if p.phase == "" {
		return nil
	}
	info := map[string]any{"phase": p.phase, "greenPoolVersion": target}
	if p.phase == soaking {
		info["bluePoolDeletionStartTime"] = p.deletes.UTC().Format(time.RFC3339Nano)
	}
	return map[string]any{"blueGreenInfo": info}
}

// ExpireNodes ends the outdated nodes of a pool, as GKE does with the nodes of short-lived pools, and starts a new one for each.
func (c *Cloud) ExpireNodes(ctx context.Context, name string) error {
	c.mu.Lock()
	p := c.findPool(name)
	if p == nil {
		c.mu.Unlock()
		return errors.New("no such pool: " + name)
	}
	var old, added []machine
	for _, m := range p.nodes {
		if m.version != p.version {
			old = append(old, m)
		}
	}
	for _, m := range old {
		added = append(added, c.newMachine(p, m.zone, p.version))
	}
	c.mu.Unlock()
	if err := eachMachine(added, func(m machine) error { return c.start(ctx, p, m) }); err != nil {
		return err
	}
	return c.deleteAll(ctx, p, &operation{}, old)
}
