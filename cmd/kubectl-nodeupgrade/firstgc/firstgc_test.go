package firstgc

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// gcPercent returns the present GOGC value without a change.
func gcPercent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// collectUntil collects garbage until the GOGC value is as wanted.
func collectUntil(t *testing.T, wanted func(int) bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !wanted(gcPercent()); time.Sleep(time.Millisecond) {
		runtime.GC()
		if time.Now().After(end) {
			t.Fatalf("GOGC is still %d", gcPercent())
		}
	}
}

func TestFirstCollectionRestoresGCPercent(t *testing.T) {
	collectUntil(t, func(now int) bool { return now != percent }) // the delay that began when the process started
	const own = 70
	defer debug.SetGCPercent(debug.SetGCPercent(own))
	delay()
	if got := gcPercent(); got != percent {
		t.Errorf("GOGC is %d before the collection, want %d", got, percent)
	}
	collectUntil(t, func(now int) bool { return now == own })
}
