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

// String returns the point's name, which is also the name of its group and namespace.
func (p point) String() string {
	if p.n == 0 {
		return "undisturbed"
	}
	return fmt.Sprintf("%s-%03d", p.fault, p.n)
}

// proxy is between a command and both of its servers. It numbers the writes to both in one sequence, as they arrive.
type proxy struct {
	point          point
	cluster, cloud *hostile.Front

	mu     sync.Mutex // guards the fields below
	writes []string
	// effective lists the writes that had an effect: the cluster accepted them, or they reached the cloud.
	effective    []string
	pointReached bool // true after the point's write
}

// cloudFront is the front before a cloud. name returns the name of a write to the cloud.
type cloudFront struct {
	*hostile.Front
	name func(*http.Request) string
}

// openProxy opens the fronts before the API server and AWS. inject is called after the server has answered the point's write, except
// for the faults lose and down.
func openProxy(ctx context.Context, s *fixture.Fixture, at point, inject func()) (*proxy, error) {
	front, err := hostile.AWS(ctx, s.Cloud.URL(), hostile.Plan{})
	if err != nil {
		return nil, err
	}
	name := func(r *http.Request) string {
		return strings.TrimSpace(hostile.Operation(r) + " " + r.FormValue("InstanceId"))
	}
	return openProxyBefore(ctx, s, cloudFront{front, name}, at, inject)
}

// openProxyBefore is openProxy for the front of any cloud. The proxy closes this front, too.
func openProxyBefore(ctx context.Context, s *fixture.Fixture, cloud cloudFront, at point, inject func()) (*proxy, error) {
	p := &proxy{point: at, cloud: cloud.Front}
	var err error
	if p.cluster, err = hostile.Cluster(ctx, s.Cluster.Kubeconfig(), hostile.Plan{}); err != nil {
		cloud.Close()
		return nil, err
	}
	p.cluster.Number(func(r *http.Request) bool { return p.numberWrite(r.Method + " " + r.URL.Path) })
	p.cluster.Took(func(r *http.Request) { p.recordEffect(r.Method + " " + r.URL.Path) })
	p.cloud.Number(func(r *http.Request) bool {
		write := cloud.name(r)
		p.recordEffect(write)
		return p.numberWrite(write)
	})
	for _, front := range []*hostile.Front{p.cluster, p.cloud} {
		switch { // meet accepts only one write
		case at.fault == loseAnswer:
			front.Lose(1)
		case at.fault == serverDown:
			front.After(1, func() { p.cluster.Down(outage) })
		case inject != nil:
			front.After(1, inject)
		}
	}
	return p, nil
}

// numberWrite numbers a write and reports whether it is the point's.
func (p *proxy) numberWrite(write string) (isPoint bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, write)
	if p.pointReached || p.point.n == 0 || len(p.writes) < p.point.n || (p.point.fault == secondClockAhead && isLeaseWrite(write)) {
		return false
	}
	p.pointReached = true
	return true
}

// recordEffect records a write that had an effect.
func (p *proxy) recordEffect(write string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.effective = append(p.effective, write)
}

// writesWithEffect returns the writes up to now that the servers accepted.
func (p *proxy) writesWithEffect() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.effective)
}

// isLeaseWrite reports whether a write creates, acquires, renews or releases a lease.
func isLeaseWrite(write string) bool { return strings.Contains(write, "/leases") }

// allWrites returns the writes so far.
func (p *proxy) allWrites() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes)
}

// close closes the fronts and returns the writes that they saw.
func (p *proxy) close() []string {
	p.cluster.Close()
	p.cloud.Close()
	return p.allWrites()
}

// env returns the environment of a command that goes through the proxy.
func (p *proxy) env() []string { return append(p.cluster.Env(), p.cloud.Env()...) }
