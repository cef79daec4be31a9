package worlds

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// addScaleDown makes the owner of a workload scale it down and, in most cases, up again, in some worlds. It draws from its own
// generator.
func addScaleDown(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x7363616c))}
	if p.isDelegated() || p.isShortLived() || !d.chance(6) {
		return
	}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Replicas < 2 || !w.isPlain() {
			continue
		}
		w.Low, w.Down = d.IntN(w.Replicas), d.between(5*time.Second, pick(d, 3*time.Minute, 15*time.Minute))
		if d.chance(85) {
			w.Up, w.Shut = w.Down+d.between(20*time.Second, pick(d, 2*time.Minute, 15*time.Minute)), d.chance(50)
		}
		return
	}
}

// scheduleScaling schedules the owner's changes of the workload's scale.
func (c *cluster) scheduleScaling(m *controller) {
	if m.Down == 0 {
		return
	}
	syncAll := func() {
		for _, name := range sortedKeys(c.budgets) {
			c.syncBudget(name)
		}
	}
	c.after(m.Down, func() {
		if m.scale = m.Low; !c.namespaceEnding {
			c.deleteSurplus(m)
		}
		syncAll()
	})
	if m.Up > 0 {
		c.after(m.Up, func() {
			m.scale, m.refused = m.Replicas, m.Shut && !c.calm
			syncAll()
			c.createMissingPods(m)
		})
	}
}

// deleteSurplus deletes pods until the workload has as many as its scale: the highest ordinals of a StatefulSet, and unready pods of
// others first.
func (c *cluster) deleteSurplus(m *controller) {
	var ready, unready []types.UID
	for _, uid := range sortedKeys(c.pods) {
		pod := c.pods[uid]
		switch ordinal, _ := strconv.Atoi(strings.TrimPrefix(pod.Name, m.Name+"-")); {
		case pod.Labels["app"] != m.Name || pod.DeletionTimestamp != nil:
		case m.Kind == StatefulSet && ordinal >= m.scale:
			c.deletePod(uid)
		case m.Kind == StatefulSet:
		case isPodReady(pod):
			ready = append(ready, uid)
		default:
			unready = append(unready, uid)
		}
	}
	if all := slices.Concat(ready, unready); len(all) > m.scale {
		for _, uid := range all[m.scale:] {
			c.deletePod(uid)
		}
	}
}

// requiredReady returns how many ready pods the workload must have after the upgrade. before is the number before the upgrade. The
// result is smaller while the owner has scaled the workload down, and shortly after. It is zero if the owner scaled the workload down
// before the upgrade evicted a pod.
func (r *rules) requiredReady(app *Workload, before int, record *record.Record) int {
	const noticed = 10 * time.Second
	since := r.c.now.Sub(worldStart())
	known, evicted := record.Workloads[app.id().String()]
	switch {
	case app.Down == 0 || since < app.Down:
		return before
	case !evicted:
		return 0
	case app.Up == 0 || since < app.Up+noticed:
		return min(before, app.Low)
	default:
		return min(before, known.Ready+known.Scaled)
	}
}
