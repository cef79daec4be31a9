package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// newBlueGreen is the blue-green upgrade of three nodes, which is to soak for two hours.
func newBlueGreen(t *testing.T, batch int) *driver {
	t.Helper()
	spec := groupSketch{outdated: map[string]int{"a": 2, "b": 1}, provider: "aws", zonal: true, pointed: "1"}.spec()
	addWorkload(&spec, "web", "ReplicaSet", 6, 1)
	return newDriver(t, spec, upgrade.Request{
		Group: "workers", Run: "r1", Strategy: upgrade.BlueGreen, Like: "eks", Window: max(1, batch), Surge: 3,
		DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
		OnTimeout: upgrade.Fail, BlueGreen: &upgrade.BlueGreenRequest{Batch: batch, Soak: duration(2 * time.Hour)},
	})
}

// deleting is the world in which the soak has just ended.
func deleting(t *testing.T) upgrade.World {
	t.Helper()
	d := newBlueGreen(t, 3)
	d.run(start.Add(time.Hour))
	d.ask(upgrade.VerbComplete)
	for d.record.Phase != upgrade.PhaseDeleteBlue {
		d.turn(0)
	}
	return d.world()
}

// G56: there is no way back once outdated nodes are deleted.
func TestNoWayBackWhileOutdatedNodesAreDeleted(t *testing.T) {
	w := deleting(t)
	if _, err := w.Record.WayBack(); err == nil || !strings.Contains(err.Error(), `in the phase "delete blue"`) {
		t.Errorf("got error %v", err)
	}
}

// G56: the way back out of a soak does not wait for its end.
func TestWayBackOutOfSoakDoesNotWait(t *testing.T) {
	d := newBlueGreen(t, 3)
	d.leave = true
	d.run(time.Time{})
	if d.record.Result != upgrade.Waiting {
		t.Fatalf("got %q, want it to wait", d.record.Result)
	}
	d.rollBack()
	soak := d.record.Soak
	d.run(time.Time{})
	if d.record.Result != upgrade.Succeeded || soak != (upgrade.Soak{}) {
		t.Errorf("got %q with the soak %+v: %s", d.record.Result, soak, d.record.Message)
	}
}

// G54: a pause of an upgrade that nobody carries out keeps what is left of its soak, too.
func TestPauseWhileNobodyWaits(t *testing.T) {
	d := newBlueGreen(t, 3)
	d.leave = true
	d.run(time.Time{})
	at := d.record.Soak.Until.Add(-time.Hour)
	d.cluster.Advance(at)
	d.saved = upgrade.MarkPaused(&d.record, "workers", "alice@host", at)
	d.cluster.Advance(at.Add(24 * time.Hour))
	d.reopen()
	d.turn(-1)
	if want := at.Add(25 * time.Hour); !d.record.Soak.Until.Equal(want) {
		t.Errorf("it soaks until %s, want %s", d.record.Soak.Until, want)
	}
}

// G52: a soak that was paused is completed at once, whatever was left of it.
func TestCompletePausedSoak(t *testing.T) {
	d := newBlueGreen(t, 3)
	d.run(start.Add(time.Hour))
	d.ask(upgrade.VerbPause)
	d.run(time.Time{})
	d.saved.Soak.Until = d.cluster.Now() // as the command complete does
	d.reopen()
	d.turn(-1)
	if d.record.Phase != upgrade.PhaseDeleteBlue {
		t.Errorf("it is in phase %q, with the soak %+v", d.record.Phase, d.record.Soak)
	}
}
