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

// requests counts the requests of one way to drain, from the API server's audit log.
type requests struct {
	all, evictions, refused int
	get, list, watch        int
	// write counts changes except evictions.
	write int
	// pods counts gets of single pods. keeping counts requests about the lease and the record. other counts all requests except those
	// and evictions.
	pods, keeping, other int
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
			r.add(e)
		}
	}
	return r, nil
}

func (r *requests) add(e *controlplane.Event) {
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
		r.keeping++
	default:
		r.other++
	}
}
