package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// requests contains the numbers of a way's requests, from the API server's audit log.
type requests struct {
	all, evictions, refused int
	get, list, watch        int
	// write counts changes except evictions.
	write int
	// pods counts gets of single pods. leaseAndRecord counts requests about the lease and the record. other counts all other requests
	// except evictions, including gets of single pods.
	pods, leaseAndRecord, other int
}

// countRequests counts the requests of kubectl and its plugins since the given time.
func countRequests(ctx context.Context, s *fixture.Fixture, since time.Time) (requests, error) {
	events, err := s.Cluster.AuditEvents(ctx)
	if err != nil {
		return requests{}, err
	}
	var r requests
	for i := range events {
		if e := &events[i]; strings.HasPrefix(e.UserAgent, "kubectl") && !e.Received.Before(since) {
			r.countRequest(e)
		}
	}
	return r, nil
}

func (r *requests) countRequest(e *controlplane.Event) {
	r.all++
	if e.ResponseStatus.Code == http.StatusTooManyRequests {
		r.refused++
	}
	switch {
	case e.IsEviction():
		r.evictions++
		return
	case e.Verb == "get":
		r.get++
	case e.Verb == "list":
		r.list++
	case e.Verb == "watch":
		r.watch++
	default:
		r.write++
	}
	switch {
	case e.Verb == "get" && e.ObjectRef.Resource == "pods":
		r.pods++
		r.other++
	case slices.Contains([]string{"leases", "configmaps"}, e.ObjectRef.Resource):
		r.leaseAndRecord++
	default:
		r.other++
	}
}
