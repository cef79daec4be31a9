package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// carryOut takes the lease, takes up what is recorded and runs the upgrade to its end.
func (o *options) carryOut(ctx context.Context, s *session, p *prospect, m mode) (upgrade.Record, error) {
	conn := s.connection
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	progress := newProgress(o, p.group.Name)
	defer progress.close()
	progress.unread(cancel)
	if err := o.onlyOne(ctx, conn, p.group.Name, m); err != nil {
		return upgrade.Record{}, err
	}
	hold, err := o.acquire(ctx, conn, p.group.Name, m, progress)
	if err != nil {
		return upgrade.Record{}, err
	}
	defer hold.Release()
	if err := o.takeUp(ctx, s, p, m, hold); err != nil {
		return upgrade.Record{}, err
	}
	if p.isCurrent() {
		return p.currentRecord(), nil
	}
	if p.request.Run == "" {
		p.request.Run = rand.String(8)
	}
	if p.record.Lost {
		progress.say(lossText(&p.record))
	}
	progress.say(headline(p))
	record, err := o.drive(ctx, conn, p, holding{hold, p.store, progress})
	switch {
	case err != nil:
		err = fmt.Errorf("%w: run %s to continue", err, o.again)
	case record.Result == upgrade.Interrupted && ctx.Err() == nil: // nobody pressed Ctrl-C: it gave way
		err = &exitErr{code: exitPaused, err: errors.New(record.Message)}
	}
	return record, err
}

// fresh is how long ago the cluster and the group may have been read before the lease was had.
const fresh = 10 * time.Second

// takeUp reads the record again, since it may have changed while the lease was waited for. Whoever
// held the lease after the cluster and the group were read may have upgraded the group: then all is
// read again. An undoing is written at once: from then on the record says what the request said,
// which is withdrawn.
func (o *options) takeUp(ctx context.Context, s *session, p *prospect, m mode, hold *cluster.Hold) error {
	age := time.Since(p.now.Round(0))
	last := hold.LastHeld()
	held := hold.Overtook() || (!last.IsZero() && s.idleSince(last) <= age+time.Second) // the server tells whole seconds
	if err := o.readAgain(ctx, s, p, m, m.undoesUpgrade() || age > fresh || held); err != nil || !m.keepsSettings() {
		return err
	}
	if m.undoesUpgrade() {
		if err := p.store.Save(ctx, p.record); err != nil {
			return err
		}
	}
	if asked := p.store.Asked(); asked.Verb == m.fulfils() && asked.Run == p.record.Run {
		return p.store.Withdraw(ctx, asked)
	}
	return nil
}

// readAgain reads the record, or all, and adopts what is recorded.
func (o *options) readAgain(ctx context.Context, s *session, p *prospect, m mode, all bool) error {
	var err error
	if !all {
		if p.record, err = p.store.Load(ctx); err != nil {
			return err
		}
		return o.adopt(p, m)
	}
	if s.view, err = s.read(ctx); err != nil {
		return err
	}
	s.background = nil
	again, err := o.look(ctx, s, p.name, m)
	if err != nil {
		return err
	}
	again.deeds = p.deeds
	*p = *again
	return p.refused()
}

// headline says what a run is about to do.
func headline(p *prospect) string {
	switch {
	case p.record.Stopping == upgrade.Aborted:
		return fmt.Sprintf("run %s: taking away what is left of it", p.request.Run)
	case p.record.Back:
		return fmt.Sprintf("run %s: going back to %s", p.request.Run, p.group.Wanted.Name)
	default:
		return fmt.Sprintf("run %s: upgrading to %s", p.request.Run, p.group.Wanted.Name)
	}
}

// holding is the right to write for a group, and what is kept of it.
type holding struct {
	*cluster.Hold
	store    *cluster.Store
	progress *progress
}

// drive watches the cluster and runs the upgrade.
func (o *options) drive(ctx context.Context, conn *connection, p *prospect, h holding) (upgrade.Record, error) {
	watchCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	watched := context.AfterFunc(ctx, cancel) // nothing is under way yet: an interrupt ends the wait for the first view
	watcher, err := cluster.Watch(watchCtx, conn.client)
	if err != nil {
		return upgrade.Record{}, err
	}
	asks, err := h.store.Follow(watchCtx)
	if err == nil && !watched() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return upgrade.Record{}, err
	}
	writer := cluster.NewWriter(conn.client, watcher, p.request.Run, nodegroup.FenceTaint(p.group.Provider))
	if h.Overtook() {
		if err := writer.TakeOver(ctx, p.record.InFlight(), h.Epoch()); err != nil {
			return upgrade.Record{}, err
		}
	}
	idle := conn.idleSince(h.LastHeld())
	for _, line := range limitsLeft(p.record.Extended(idle), time.Now()) {
		h.progress.say(line)
	}
	r := &runner.Runner{
		Idle:    idle,
		Request: p.request, Cluster: watcher, Cloud: p.provider, Writer: writer,
		Store: h.store, Asks: asks, Group: p.group, Record: p.record, Lost: h.Lost(), Expires: h.Expires,
		Watch: func(step upgrade.Step) { p.deeds.note(step); h.progress.step(step) }, Polled: h.progress.polled, Failures: watcher.Failures(), Unreached: h.progress.unreached,
	}
	return r.Run(ctx)
}

// limitsLeft says how long the nodes in drain that are taken up have left.
func limitsLeft(record upgrade.Record, now time.Time) []string {
	var lines []string
	limits := record.Limits()
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		left := max(0, limits[name].Sub(now)).Round(time.Second)
		lines = append(lines, fmt.Sprintf("node %s continues to drain, with %s of its %s left", name, left, record.Request.DrainTimeout))
	}
	return lines
}

// acquire takes the group's lease, and says whom it waits for.
func (o *options) acquire(ctx context.Context, conn *connection, group string, m mode, progress *progress) (*cluster.Hold, error) {
	return cluster.Acquire(ctx, conn.client, cluster.Claim{
		Namespace: o.stateSpace, Group: group, Identity: identity(), Takeover: o.takeover, Patient: m.undoesUpgrade(),
		Waiting: func(holder string) {
			if m.undoesUpgrade() {
				progress.say(fmt.Sprintf("waiting for %s to give way, up to %s if it is no longer alive", holder, cluster.LeaseDuration))
				return
			}
			progress.say(fmt.Sprintf("the lease is held by %s: waiting up to %s to see whether it is alive", holder, cluster.LeaseDuration))
		},
	})
}

// onlyOne refuses a second upgrade in the cluster, since two groups drained together can hold each
// other's budgets closed (containers-roadmap#1865).
func (o *options) onlyOne(ctx context.Context, conn *connection, group string, m mode) error {
	if o.parallelGroups || m == modeAbort { // which drains nothing
		return nil
	}
	leases, err := conn.client.CoordinationV1().Leases(o.stateSpace).List(ctx, metav1.ListOptions{LabelSelector: cluster.LabelManagedBy + "=" + cluster.FieldManager})
	if err != nil {
		return fmt.Errorf("listing the leases of upgrades: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if t := conn.tenure(lease); !t.over() && lease.Name != cluster.ObjectName(group) {
			return usage(fmt.Errorf("%s is upgrading another group (lease %s): wait for it, or pass --parallel-groups", t.holder, lease.Name))
		}
	}
	return nil
}

// identity names this process to whoever finds its lease.
func identity() string { return fmt.Sprintf("%s/%d-%s", person(), os.Getpid(), rand.String(5)) }

// person names who runs this process.
func person() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}
