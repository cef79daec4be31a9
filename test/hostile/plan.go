package hostile

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"time"
)

// Plan says what harm is done. The zero Plan does none.
type Plan struct {
	// Seed decides which requests are disturbed.
	Seed uint64
	// Harms may each disturb a request that it is for, at most one of them does, and their shares add up.
	Harms []Harm
	// CutWatches closes the connection of a watch that has lasted so long; 0 for never.
	CutWatches time.Duration
}

// Harm is done to a share of the requests: each of its fields that is set, the delay first.
type Harm struct {
	// Share of the requests, from 0 to 1.
	Share float64
	// To are the requests it is for; nil for all.
	To func(*http.Request) bool
	// Delay is how much later the server gets the request, or the client its false answer.
	Delay time.Duration
	// Drop closes the connection.
	Drop Drop
	// Status is answered without the server; 0 for none. 429 is what Priority and Fairness answers, or what AWS throttles with.
	Status int
	// RetryAfter goes with the answer when it is not 0; whole seconds.
	RetryAfter time.Duration
}

// Drop says when a connection is closed without an answer.
type Drop int

// The moments of a Drop.
const (
	NoDrop       Drop = iota
	BeforeEffect      // the server never sees the request
	AfterEffect       // the server has answered
)

// Even shares total out evenly among the harms.
func Even(total float64, harms ...Harm) []Harm {
	shared := make([]Harm, len(harms))
	for i, h := range harms {
		h.Share = total / float64(len(harms))
		shared[i] = h
	}
	return shared
}

// harmFor is the harm done to a request, the zero Harm for none: key is what it asks for, before how often that was asked.
func (p *Plan) harmFor(r *http.Request, key string, before int) Harm {
	lot := p.lot(key, before)
	for _, h := range p.Harms {
		if h.To != nil && !h.To(r) {
			continue
		}
		if lot < h.Share {
			return h
		}
		lot -= h.Share
	}
	return Harm{}
}

// lot is from 0 to 1 and the same whenever it is asked for.
func (p *Plan) lot(key string, before int) float64 {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s %d", key, before)
	return rand.New(rand.NewPCG(p.Seed, hash.Sum64())).Float64()
}
