package hostile

import (
	"fmt"
	"math"
	"net/http"
	"testing"
)

func TestFaultsHitTheirShareOfRequests(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	const requests = 10000
	for _, seed := range []uint64{0, 1, 2, math.MaxUint64} {
		plan := Plan{Seed: seed, Harms: append(Even(0.2, Harm{Status: 500}, Harm{Status: 503}), Harm{Share: 0.1, Drop: AfterEffect})}
		type fate struct {
			status int
			drop   Drop
		}
		counts := map[fate]int{}
		for i := range requests {
			h := plan.harmFor(r, fmt.Sprintf("PATCH /api/v1/nodes/n%d", i%100), i/100)
			counts[fate{h.Status, h.Drop}]++
		}
		for f, want := range map[fate]float64{{}: 0.7, {status: 500}: 0.1, {status: 503}: 0.1, {drop: AfterEffect}: 0.1} {
			if got := float64(counts[f]) / requests; math.Abs(got-want) > 0.01 {
				t.Errorf("seed %d: %+v is the fate of %.3f of the requests, want %.3f", seed, f, got, want)
			}
		}
	}
}

func TestFaultsDependOnlyOnSeedAndRequest(t *testing.T) {
	one, same, other := Plan{Seed: 1}, Plan{Seed: 1}, Plan{Seed: 2}
	differ := 0
	for i := range 100 {
		if one.lot("a", i) != same.lot("a", i) {
			t.Errorf("request %d is treated differently the second time", i)
		}
		if one.lot("a", i) != other.lot("a", i) && one.lot("a", i) != one.lot("b", i) {
			differ++
		}
	}
	if differ != 100 {
		t.Errorf("%d of 100 requests are treated differently with another seed and another name, want all", differ)
	}
}
