package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

// undisturbed is the tool as its own rival, without disturbance.
var undisturbed = rival{way: "kubectl nodeupgrade, undisturbed", self: true}

// disturbance returns the faults of an API server on a bad day: watches that are cut, answers that fail, and a full queue.
func disturbance() hostile.Plan {
	return hostile.Plan{
		Seed: 1, CutWatches: 2 * second,
		Harms: []hostile.Harm{
			{Share: 0.05, Status: http.StatusInternalServerError},
			{Share: 0.05, Status: http.StatusTooManyRequests, RetryAfter: second},
		},
	}
}

// measure runs the line, and disturbs the tool if the scenario says so. It lists the moments at which a budget was broken.
func (sc *scenario) measure(ctx context.Context, s *fixture.Fixture, way, line string) (e ended, broken []string, err error) {
	if !sc.disturbed {
		e, err = measure(ctx, s, line)
		return e, nil, err
	}
	budgets, err := s.WatchBudgets(ctx)
	if err != nil {
		return ended{}, nil, err
	}
	if way == ours {
		e, err = measureDisturbed(ctx, s, line)
	} else {
		e, err = measure(ctx, s, line)
	}
	broken, seen := budgets.Stop()
	if err == nil && seen == 0 {
		err = errors.New("no state of a budget was seen")
	}
	return e, broken, err
}

// measureDisturbed runs the line through a front. Watches are cut from the start. Answers fail only from the moment at which the
// upgrade's record is written: before that, the tool ends with an error, as kubectl drain does.
func measureDisturbed(ctx context.Context, s *fixture.Fixture, line string) (ended, error) {
	plan := disturbance()
	front, err := hostile.Cluster(ctx, s.Cluster.Kubeconfig(), hostile.Plan{CutWatches: plan.CutWatches})
	if err != nil {
		return ended{}, err
	}
	defer front.Close()
	front.Number(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/configmaps") })
	front.After(1, func() { front.Obey(plan) })
	e, err := measure(ctx, s, strings.Join(front.Env(), " ")+" "+line)
	tally := front.Tally()
	fmt.Fprintf(os.Stderr, "of %d requests %d were disturbed: %v\n", tally.Asked(), tally.Harmed(), tally.Harms)
	if err == nil && tally.Harmed() == 0 {
		err = errors.New("nothing was disturbed")
	}
	return e, err
}

// keptBudgets returns the target for the moments at which a budget had fewer healthy pods than it needs.
func keptBudgets() target {
	return target{"moments at which a budget was broken", 0, func(r *result) (float64, bool) { return float64(len(r.ours().broken)), true }}
}
