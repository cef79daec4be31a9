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

// undisturbed is a run of the tool without faults, with which the disturbed run is compared.
var undisturbed = rival{way: "kubectl nodeupgrade, undisturbed", isTool: true}

// disturbance returns the faults of a busy API server: cut watches, failing answers and rate limits.
func disturbance() hostile.Plan {
	return hostile.Plan{
		Seed: 1, CutWatches: 2 * second,
		Harms: []hostile.Harm{
			{Share: 0.05, Status: http.StatusInternalServerError},
			{Share: 0.05, Status: http.StatusTooManyRequests, RetryAfter: second},
		},
	}
}

// measureWay runs the line of a way. In a disturbed scenario, it injects faults for the tool and returns the moments at which a budget
// was broken.
func (sc *scenario) measureWay(ctx context.Context, s *fixture.Fixture, way, line string) (e ended, broken []string, err error) {
	if !sc.disturbed {
		e, err = measureCommand(ctx, s, line)
		return e, nil, err
	}
	budgets, err := s.WatchBudgets(ctx)
	if err != nil {
		return ended{}, nil, err
	}
	if way == toolName {
		e, err = measureDisturbed(ctx, s, line)
	} else {
		e, err = measureCommand(ctx, s, line)
	}
	broken, seen := budgets.Stop()
	if err == nil && seen == 0 {
		err = errors.New("no state of a budget was seen")
	}
	return e, broken, err
}

// measureDisturbed runs the line through a front. Watches are cut from the start. Answers fail only after the upgrade's record was
// written. Before that, the tool would exit with an error, as kubectl drain does.
func measureDisturbed(ctx context.Context, s *fixture.Fixture, line string) (ended, error) {
	plan := disturbance()
	front, err := hostile.Cluster(ctx, s.Cluster.Kubeconfig(), hostile.Plan{CutWatches: plan.CutWatches})
	if err != nil {
		return ended{}, err
	}
	defer front.Close()
	front.Number(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/configmaps") })
	front.After(1, func() { front.SetPlan(plan) })
	e, err := measureCommand(ctx, s, strings.Join(front.Env(), " ")+" "+line)
	tally := front.Tally()
	fmt.Fprintf(os.Stderr, "%d of %d requests were disturbed: %v\n", tally.Harmed(), tally.Asked(), tally.Harms)
	if err == nil && tally.Harmed() == 0 {
		err = errors.New("no request was disturbed")
	}
	return e, err
}

// brokenBudgetsTarget returns the target for the number of moments at which a budget had fewer healthy pods than it needs.
func brokenBudgetsTarget() target {
	return target{"moments at which a budget was broken", 0, func(r *result) (float64, bool) { return float64(len(r.toolFigure().broken)), true }}
}
