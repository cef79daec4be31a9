package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

// blow is what happens at a point.
type blow string

const (
	// kill ends the tool once the server has answered.
	kill blow = "kill"
	// lose closes the connection in place of the answer.
	lose blow = "lose"
	// stop halts the tool once the server has answered, has the same command take the upgrade over when the lease is over, and
	// lets the first continue when the second has ended.
	stop blow = "stop"
	// down puts the API server out of reach for a minute once it has answered.
	down blow = "down"
	// pair starts the same command twice at once; the point's number tells the pairs apart.
	pair blow = "pair"
	// clock is stop, with the halted tool's wall clock set forward before it continues.
	clock blow = "clock"
	// back is stop, with the halted tool's wall clock set back before it continues: by it the lease has hours to go.
	back blow = "back"
	// ahead starts the same command again, with its wall clock set forward, once the server has answered, and has the first
	// hear of the answer when the second has ended. A write of the lease is left alone, and the next one taken.
	ahead blow = "ahead"
	// These are kill, with the verb asked for afterwards; the same command continues where that is refused.
	pause    blow = "pause"
	rollback blow = "rollback"
	complete blow = "complete"
	abort    blow = "abort"
)

// outage is how long the API server is out of reach: as long as a lease lasts.
const outage = time.Minute

func blows() []blow {
	return []blow{kill, lose, stop, down, pair, clock, back, ahead, pause, rollback, complete, abort}
}

// point is the n-th write of an upgrade, from 1 on, and what happens there; the zero point is never reached.
type point struct {
	n    int
	blow blow
}

// String is the name of the point's group and namespace, too.
func (p point) String() string {
	if p.n == 0 {
		return "undisturbed"
	}
	return fmt.Sprintf("%s-%03d", p.blow, p.n)
}

// tap leads a command to both of its servers and numbers its writes to them, in one row, as they arrive.
type tap struct {
	point          point
	cluster, cloud *hostile.Front

	mu     sync.Mutex // guards what follows
	writes []string
	// taken are those that had an effect: the cluster accepted them, or they reached the cloud.
	taken []string
	met   bool // the point's write
}

// kills says that the tool is killed.
func (b blow) kills() bool { return b == kill || b.verb() != "" }

// halts says that the tool is halted until another actor has ended the upgrade.
func (b blow) halts() bool { return b == stop || b == clock || b == back }

// setsClock says that one of the commands has a clock that is set forward or back.
func (b blow) setsClock() bool { return b == clock || b == back || b == ahead }

// openTap opens the fronts. strike is called when the server has answered the point's write, where something else than that write is struck.
func openTap(ctx context.Context, s *stage.Stage, p point, strike func()) (*tap, error) {
	t := &tap{point: p}
	var err error
	if t.cluster, err = hostile.Cluster(ctx, s.Cluster.Kubeconfig(), hostile.Plan{}); err != nil {
		return nil, err
	}
	if t.cloud, err = hostile.AWS(ctx, s.Cloud.URL(), hostile.Plan{}); err != nil {
		t.cluster.Close()
		return nil, err
	}
	t.cluster.Number(func(r *http.Request) bool { return t.meet(r.Method + " " + r.URL.Path) })
	t.cluster.Took(func(r *http.Request) { t.take(r.Method + " " + r.URL.Path) })
	t.cloud.Number(func(r *http.Request) bool {
		write := strings.TrimSpace(hostile.Operation(r) + " " + r.FormValue("InstanceId"))
		t.take(write)
		return t.meet(write)
	})
	for _, front := range []*hostile.Front{t.cluster, t.cloud} {
		switch { // of the writes that meet accepts there is one
		case p.blow == lose:
			front.Lose(1)
		case p.blow == down:
			front.After(1, func() { t.cluster.Down(outage) })
		case strike != nil:
			front.After(1, strike)
		}
	}
	return t, nil
}

// meet numbers a write and tells whether it is the point's.
func (t *tap) meet(write string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes = append(t.writes, write)
	if t.met || t.point.n == 0 || len(t.writes) < t.point.n || (t.point.blow == ahead && ofLease(write)) {
		return false
	}
	t.met = true
	return true
}

// take notes a write that had an effect.
func (t *tap) take(write string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = append(t.taken, write)
}

// had are the writes so far that had an effect.
func (t *tap) had() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.taken)
}

// ofLease says that a write is one of a lease: it makes it, takes it, renews it or gives it back.
func ofLease(write string) bool { return strings.Contains(write, "/leases") }

// seen are the writes so far.
func (t *tap) seen() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.writes)
}

// close ends the fronts and returns the writes that they saw.
func (t *tap) close() []string {
	t.cluster.Close()
	t.cloud.Close()
	return t.seen()
}

// env is what leads a command through the tap.
func (t *tap) env() []string { return append(t.cluster.Env(), t.cloud.Env()...) }
