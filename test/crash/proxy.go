package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

// point is a write of an upgrade, by its number from 1 on, and the fault that is injected there. The zero point is no write.
type point struct {
	n     int
	fault fault
}

// String is the name of the point's group and namespace, too.
func (p point) String() string {
	if p.n == 0 {
		return "undisturbed"
	}
	return fmt.Sprintf("%s-%03d", p.fault, p.n)
}

// proxy stands between a command and both of its servers. It numbers the writes to them, in one row, as they arrive.
type proxy struct {
	point          point
	cluster, cloud *hostile.Front

	mu     sync.Mutex // guards what follows
	writes []string
	// taken are those that had an effect: the cluster accepted them, or they reached the cloud.
	taken []string
	met   bool // the point's write
}

// openProxy opens the fronts. inject is called when the server has answered the point's write, if the fault is not one of the connection.
func openProxy(ctx context.Context, s *fixture.Fixture, at point, inject func()) (*proxy, error) {
	p := &proxy{point: at}
	var err error
	if p.cluster, err = hostile.Cluster(ctx, s.Cluster.Kubeconfig(), hostile.Plan{}); err != nil {
		return nil, err
	}
	if p.cloud, err = hostile.AWS(ctx, s.Cloud.URL(), hostile.Plan{}); err != nil {
		p.cluster.Close()
		return nil, err
	}
	p.cluster.Number(func(r *http.Request) bool { return p.meet(r.Method + " " + r.URL.Path) })
	p.cluster.Took(func(r *http.Request) { p.take(r.Method + " " + r.URL.Path) })
	p.cloud.Number(func(r *http.Request) bool {
		write := strings.TrimSpace(hostile.Operation(r) + " " + r.FormValue("InstanceId"))
		p.take(write)
		return p.meet(write)
	})
	for _, front := range []*hostile.Front{p.cluster, p.cloud} {
		switch { // of the writes that meet accepts there is one
		case at.fault == lose:
			front.Lose(1)
		case at.fault == down:
			front.After(1, func() { p.cluster.Down(outage) })
		case inject != nil:
			front.After(1, inject)
		}
	}
	return p, nil
}

// meet numbers a write and tells whether it is the point's.
func (p *proxy) meet(write string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, write)
	if p.met || p.point.n == 0 || len(p.writes) < p.point.n || (p.point.fault == ahead && ofLease(write)) {
		return false
	}
	p.met = true
	return true
}

// take notes a write that had an effect.
func (p *proxy) take(write string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, write)
}

// had returns the writes up to now that the servers accepted.
func (p *proxy) had() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.taken)
}

// ofLease says that a write is one of a lease: it makes it, takes it, renews it or gives it back.
func ofLease(write string) bool { return strings.Contains(write, "/leases") }

// seen are the writes so far.
func (p *proxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes)
}

// close ends the fronts and returns the writes that they saw.
func (p *proxy) close() []string {
	p.cluster.Close()
	p.cloud.Close()
	return p.seen()
}

// env returns the environment of a command that goes through the proxy.
func (p *proxy) env() []string { return append(p.cluster.Env(), p.cloud.Env()...) }
