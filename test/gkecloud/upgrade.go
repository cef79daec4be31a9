package gkecloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// operation is an operation of the cluster. The lock of its Cloud protects it.
type operation struct {
	name, kind, status, pool string
	start, end               time.Time
	statusMessage            string
	failure                  map[string]any
	done, total              int
	cancelled, completed     chan struct{}
	completes                sync.Once
	initial, target          string
	isRollback               bool
}

// Operations describes the operations that the cluster has begun, oldest first: what each does to its pool, and its state.
func (c *Cloud) Operations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]string, 0, len(c.operations))
	for _, op := range c.operations {
		all = append(all, op.describe())
	}
	return all
}

// describe returns a text such as "rollback to 1.33.5-gke.1000: DONE".
func (o *operation) describe() string {
	what, state := "upgrade", o.status
	if o.isRollback {
		what = "rollback"
	}
	switch {
	case o.failure != nil:
		state = fmt.Sprint(o.failure["message"])
	case o.statusMessage != "":
		state = o.statusMessage
	}
	return fmt.Sprintf("%s to %s: %s", what, o.target, state)
}

// begin starts an operation of a pool. The caller has the lock.
func (c *Cloud) begin(kind string, p *pool) *operation {
	c.serial++
	op := &operation{
		name: fmt.Sprintf("operation-%d-%08x", 1784863408191+c.serial, c.serial), kind: kind, status: "RUNNING", pool: p.Name,
		start: time.Now(), cancelled: make(chan struct{}), completed: make(chan struct{}),
	}
	c.operations = append(c.operations, op)
	p.status = "RECONCILING"
	p.etag++
	return op
}

// end ends an operation. err is why it failed, nil if it succeeded. The caller must not have the lock.
func (c *Cloud) end(p *pool, op *operation, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	op.status, op.end, p.status, p.phase = "DONE", time.Now(), "RUNNING", ""
	p.etag++
	switch {
	case errors.Is(err, errCancelled):
		op.statusMessage = "Operation was aborted: the user cancelled it."
	case err != nil:
		op.statusMessage = err.Error()
		if !c.options.FailsByText {
			op.statusMessage, op.failure = "", map[string]any{"code": 13, "message": err.Error()}
		}
		p.status = "RUNNING_WITH_ERROR"
	default:
		p.version = op.target
	}
}

var errCancelled = errors.New("cancelled")

// upgrade replaces the pool's outdated nodes, one zone after another or, in a blue-green upgrade, together. Nodes of short-lived pools
// stay until they end by themselves.
func (c *Cloud) upgrade(ctx context.Context, p *pool, op *operation) error {
	c.mu.Lock()
	r, isBlueGreen := p.rollout(op.total)
	isShortLived := p.Settings["strategy"] == "SHORT_LIVED"
	c.mu.Unlock()
	switch {
	case isBlueGreen:
		return c.upgradeBlueGreen(ctx, p, op, r)
	case isShortLived:
		return nil
	}
	for _, zone := range p.Zones {
		if err := c.upgradeZone(ctx, p, op, zone); err != nil {
			return err
		}
	}
	return nil
}

// upgradeZone replaces the outdated nodes of a zone, as many at once as the pool's settings allow. After a cancellation it begins no
// other node.
func (c *Cloud) upgradeZone(ctx context.Context, p *pool, op *operation, zone string) error {
	c.mu.Lock()
	surge, unavailable := p.width()
	outdated := p.outdated(zone, op.target)
	c.mu.Unlock()
	slots := make(chan bool, min(surge+unavailable, 20)) // true: a node is added before the old one is drained
	for range min(surge, cap(slots)) {
		slots <- true
	}
	for range cap(slots) - min(surge, cap(slots)) {
		slots <- false
	}
	var running sync.WaitGroup
	failures := make(chan error, len(outdated)+1)
	for _, m := range outdated {
		var first bool
		select {
		case <-op.cancelled:
			failures <- errCancelled
		case first = <-slots:
			if c.holds(op) {
				failures <- op.awaitCancellation(ctx)
			}
		}
		if len(failures) > 0 {
			break
		}
		running.Go(func() {
			if err := c.replace(ctx, p, op, m, first); err != nil {
				failures <- err
			}
			slots <- first
		})
	}
	running.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// awaitCancellation waits until the operation is cancelled, and returns errCancelled or the end of the context.
func (o *operation) awaitCancellation(ctx context.Context) error {
	select {
	case <-o.cancelled:
		return errCancelled
	case <-ctx.Done():
		return ctx.Err()
	}
}

// holds reports whether the operation waits for its cancellation.
func (c *Cloud) holds(op *operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.options.HoldsAfter > 0 && op == c.operations[0] && op.done >= c.options.HoldsAfter
}

// replace replaces one machine. With surge it adds a new one first. Otherwise it starts the same machine again under the same name.
func (c *Cloud) replace(ctx context.Context, p *pool, op *operation, old machine, surge bool) error {
	if surge {
		c.mu.Lock()
		added := c.newMachine(p, old.zone, op.target)
		c.mu.Unlock()
		if err := c.start(ctx, p, added); err != nil {
			return err
		}
	}
	if err := c.drain(ctx, p, old); err != nil {
		return err
	}
	if err := c.options.Nodes.DeleteNode(ctx, old.name); err != nil {
		return err
	}
	c.mu.Lock()
	p.remove(old.name)
	renewed := machine{name: old.name, zone: old.zone, version: op.target}
	if !surge {
		p.nodes = append(p.nodes, renewed)
	}
	c.mu.Unlock()
	if !surge {
		if err := c.start(ctx, p, renewed); err != nil {
			return err
		}
	}
	c.mu.Lock()
	op.done++
	c.mu.Unlock()
	return nil
}

// start boots a machine and waits until its Node is Ready.
func (c *Cloud) start(ctx context.Context, p *pool, m machine) error {
	if err := pause(ctx, c.options.Boot); err != nil {
		return err
	}
	if err := c.boot(ctx, p, m); err != nil {
		return err
	}
	limit := time.Now().Add(c.options.NodeLimit)
	for time.Now().Before(limit) {
		ready, err := c.options.Drainer.IsReady(ctx, m.name, nil)
		if err != nil || ready {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("Timed out waiting for node %s: All cluster resources were brought up, but: only 0 nodes out of 1 have registered; this is likely due to Nodes failing to start correctly", m.name) //nolint:staticcheck // GKE's text
}

// drainLimit returns how long budgets are obeyed at a node of the pool.
func (c *Cloud) drainLimit(p *pool) time.Duration {
	return cmp.Or(p.DrainTimeout, c.options.DrainLimit)
}

// drain cordons and drains a machine's Node. After the limit of the drain it deletes the pods that are left.
func (c *Cloud) drain(ctx context.Context, p *pool, m machine) error {
	if err := c.options.Drainer.Fence(ctx, m.name, false); err != nil {
		return err
	}
	if err := c.options.Drainer.Drain(ctx, m.name, c.drainLimit(p)); err != nil {
		if err := c.options.Drainer.DeletePods(ctx, m.name, c.options.NodeLimit); err != nil {
			return err
		}
	}
	return pause(ctx, c.options.Delete)
}

// pause waits for a time that the behaviour of GKE takes, or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// json returns the operation as GKE shows it.
func (o *operation) json(c *Cloud) map[string]any {
	// Real links have the project's number, and "zones" even for regions.
	link := fmt.Sprintf("https://container.googleapis.com/v1/projects/%s/zones/%s/clusters/%s", projectNumber, c.options.Location, c.options.Cluster)
	if o.pool != "" {
		link += "/nodePools/" + o.pool
	}
	shown := map[string]any{"name": o.name, "operationType": o.kind, "status": o.status, "targetLink": link, "zone": c.options.Location, "startTime": o.start.UTC().Format(time.RFC3339Nano)}
	if !o.end.IsZero() {
		shown["endTime"] = o.end.UTC().Format(time.RFC3339Nano)
	}
	if o.statusMessage != "" {
		shown["statusMessage"] = o.statusMessage
	}
	if o.failure != nil {
		shown["error"] = o.failure
	}
	if o.total > 0 {
		shown["progress"] = map[string]any{"metrics": []any{
			map[string]any{"name": "NODES_DONE", "intValue": fmt.Sprint(o.done)}, map[string]any{"name": "NODES_TOTAL", "intValue": fmt.Sprint(o.total)},
		}}
	}
	return shown
}
