package hostile

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"time"
)

// Plan determines which requests are disturbed and how. The zero Plan disturbs none.
type Plan struct {
	// Seed decides which requests are disturbed.
	Seed uint64
	// Harms are the possible disturbances of a request. At most one applies to a request, and their shares add up.
	Harms []Harm
	// CutWatches closes the connection of a watch after that time. 0 means never.
	CutWatches time.Duration
}

// Harm disturbs a share of the requests. Each field that is set applies, and the delay comes first.
type Harm struct {
	// Share of the requests, from 0 to 1.
	Share float64
	// To selects the requests. Nil selects all requests.
	To func(*http.Request) bool
	// Delay is how much later the server gets the request or, if Status is set, the client gets the answer.
	Delay time.Duration
	// Drop closes the connection.
	Drop Drop
	// Status is the status of an answer in place of the server's. 0 means no such answer. 429 is the answer of Priority and
	// Fairness, or AWS's throttling.
	Status int
	// RetryAfter is sent with the answer if it is not 0. It has whole seconds.
	RetryAfter time.Duration
}

// Drop is the time at which a connection is closed without an answer.
type Drop int

// The possible times of a Drop.
const (
	NoDrop       Drop = iota
	BeforeEffect      // the server never gets the request
	AfterEffect       // the server has answered
)

// Even divides total evenly among the harms' shares.
func Even(total float64, harms ...Harm) []Harm {
	shared := make([]Harm, len(harms))
	for i, h := range harms {
		h.Share = total / float64(len(harms))
		shared[i] = h
	}
	return shared
}

// harmFor returns the harm for a request, or the zero Harm. key identifies equal requests, before is the number of earlier
// requests with that key.
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

// lot returns a number from 0 to 1 that depends only on the arguments.
func (p *Plan) lot(key string, before int) float64 {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s %d", key, before)
	return rand.New(rand.NewPCG(p.Seed, hash.Sum64())).Float64()
}
