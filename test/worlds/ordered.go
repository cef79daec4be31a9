package worlds

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// order has half of the StatefulSets create their pods in order, as they do by default. It draws from its own generator.
func order(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6f726472))}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Kind == StatefulSet && w.Role != Completes && d.chance(50) {
			w.Ordered = true
		}
	}
}

// saysInOrder is I11 for StatefulSets that create their pods in order: their controller has a moment for the next one when the one before it
// is ready.
func (r *rules) saysInOrder(w *upgrade.World, app *Workload, u upgrade.Unhealthy) {
	if !strings.HasSuffix(u.Why, "does not say why") {
		return // more is known
	}
	for _, pod := range living(w, app) {
		if ready := w.Now.Sub(pod.Status.Conditions[0].LastTransitionTime.Time); app.Ordered && podIsReady(pod) && ready < time.Second {
			r.fail("I11", "%s is said to lack a pod, and its pod %s has been ready for only %s", u, pod.Name, ready)
		}
	}
}
