package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// forecastLimit is the timeout of a forecast of the rest.
	forecastLimit = time.Minute
	// forecastPause is the shortest time between two forecasts of a status. upgradePause is that of an upgrade, which also
	// needs the processor for decisions.
	forecastPause, upgradePause = 15 * time.Second, 30 * time.Second
	// forecastShare is the shortest time between two forecasts, as a multiple of the first one's duration. Forecasts
	// use up to four processors for a twentieth of the time, which is a fifth of one processor.
	forecastShare = 20
	// backgroundAge is the age at which restData is read again. Reading all of it costs the API server more than a
	// watch does.
	backgroundAge = 5 * time.Minute
)

// forecastRest forecasts how long the rest of a running upgrade takes, and how it ends. load reads the objects that the
// forecast needs. If that fails, the result has the error in RemainingUnknown. The group is not changed.
func (s *session) forecastRest(ctx context.Context, g groupContext, record record.Record, load func(context.Context, *planning) error) report.TimeLeft {
	ctx, cancel := context.WithTimeoutCause(ctx, forecastLimit, fmt.Errorf("it takes longer than %s to calculate", forecastLimit))
	defer cancel()
	g.record, g.request = record.Reopened(), record.Request
	if record.IsRunning() && g.idle == 0 {
		g.record.Unhealthy = record.Unhealthy // the running process keeps these counts; a new one would start them at 0
	}
	rest := &planning{groupContext: &g, s: s}
	err := g.rejectUnknownAddedNodes(&record)
	if err == nil {
		err = load(ctx, rest)
	}
	var found report.TimeLeft
	if err == nil {
		found, err = rest.predictRest(ctx)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		found = report.TimeLeft{RemainingUnknown: err.Error()}
	}
	found.RemainingAsOf = g.now
	return found
}

// rejectUnknownAddedNodes returns an error if the cloud upgrades the group and it is unknown how many nodes the cloud
// has added.
func (o *observation) rejectUnknownAddedNodes(record *record.Record) error {
	if record.Delegation != nil && !upgrade.KnowsCloudSurge(record, &o.group) {
		return errors.New("this tool did not start the cloud's upgrade, so it does not know how many nodes the cloud has added")
	}
	return nil
}

// predictRest forecasts the rest.
func (p *planning) predictRest(ctx context.Context) (report.TimeLeft, error) {
	forecast, _, err := p.runForecast(ctx, p.record.Request, nil)
	switch {
	case err != nil:
		return report.TimeLeft{}, err
	case forecast.Endless != "":
		return report.TimeLeft{}, errors.New("it would wait for " + forecast.Endless)
	case p.awaitsUserNodes(&p.record.Request):
		return report.TimeLeft{}, fmt.Errorf("the upgrade waits until you replace the drained nodes; its other steps take %s", report.FormatSpan(forecast.Duration))
	case p.group.Managed != nil && p.group.Managed.Halted != "":
		return report.TimeLeft{}, errors.New(p.group.Managed.Halted)
	case p.record.Delegation != nil:
		forecast.Fast.After, forecast.Slow.After = p.failureTime(&forecast.Fast, forecast.Nodes), p.failureTime(&forecast.Slow, forecast.Nodes)
	}
	lasts, err := p.addClosedTime(forecast.Duration)
	if err == nil {
		err = p.rejectPassedOver(lasts)
	}
	return report.NewTimeLeft(lasts, forecast.Fast, forecast.Slow), err
}

// closingMinute is how times at which budgets open and close are written.
const closingMinute = "2006-01-02 15:04 UTC"

// addClosedTime adds to the duration of the rest the time until the group's cloud may replace nodes at all. It returns an error if
// the cloud may not for as long as is known, or not to the end.
func (p *planning) addClosedTime(lasts simulate.Span) (simulate.Span, error) {
	if p.group.Managed == nil || len(p.group.Managed.Pace) == 0 {
		return lasts, nil
	}
	pace := p.group.Managed.Pace
	opens := slices.IndexFunc(pace, func(c nodegroup.Pace) bool { return c.MaxUnavailable > 0 })
	if opens < 0 {
		return lasts, errors.New("the budgets of the group allow no node, as far as their schedules are known")
	}
	closed := max(0, pace[opens].From.Sub(p.now))
	lasts.Earliest.Duration += closed
	lasts.Latest.Duration += closed
	closes := slices.IndexFunc(pace[opens:], func(c nodegroup.Pace) bool { return c.MaxUnavailable == 0 })
	if closes > 0 && pace[opens+closes].From.Before(p.now.Add(lasts.Latest.Duration)) {
		return lasts, fmt.Errorf("it may take longer than until %s, when the budgets of the group close again", pace[opens+closes].From.UTC().Format(closingMinute))
	}
	return lasts, nil
}

// delayByPace adds to the forecast of a plan the time until the group's cloud may replace nodes at all, and returns what the plan
// assumes. If the cloud may not for as long as is known, the forecast has no end.
func (p *planning) delayByPace(f *simulate.Forecast) (assumed []string) {
	if countOutdated(p.members) == 0 {
		return nil
	}
	lasts, err := p.addClosedTime(f.Duration)
	if err != nil {
		assumed = append(assumed, err.Error())
	}
	if m := p.group.Managed; m != nil && len(m.Pace) > 0 && m.MaxUnavailable.N == 0 {
		f.Duration, f.ExtraHours, f.Fast, f.Slow, f.Endless = simulate.Span{}, 0, simulate.Ending{}, simulate.Ending{}, "its budgets to allow a node"
		return assumed
	}
	closed := lasts.Earliest.Duration - f.Duration.Earliest.Duration
	if closed == 0 {
		return assumed
	}
	f.Duration = lasts
	for i := range f.Nodes {
		for _, span := range []*simulate.Span{&f.Nodes[i].Start, &f.Nodes[i].End} {
			if *span != (simulate.Span{}) || span == &f.Nodes[i].Start {
				span.Earliest.Duration += closed
				span.Latest.Duration += closed
			}
		}
	}
	for _, end := range []*simulate.Ending{&f.Fast, &f.Slow} {
		if end.After.Duration > 0 {
			end.After.Duration += closed
		}
	}
	return append(assumed, "the budgets of the group allow no node until "+p.now.Add(closed).UTC().Format(closingMinute))
}

// rejectPassedOver returns an error if the group's cloud passes over nodes until a person changes something. others is how long
// the other nodes take.
func (p *planning) rejectPassedOver(others simulate.Span) error {
	passed := len(upgrade.PassedOver(&p.group, p.members, p.cluster.view.Budgets, p.now))
	switch left := countOutdated(p.members) - passed; {
	case passed == 0:
		return nil
	case left == 0:
		return errors.New("something keeps all nodes that are left")
	default:
		return fmt.Errorf("something keeps %s; the other %d take %s", formatCount(passed, "node", "nodes"), left, report.FormatSpan(others))
	}
}

// addPassedOver adds to the forecast of a plan the nodes that the group's cloud passes over until a person changes something. The end
// is then not known. It returns what the plan assumes.
func (p *planning) addPassedOver(f *simulate.Forecast) (assumed []string) {
	passed := upgrade.PassedOver(&p.group, p.members, p.cluster.view.Budgets, p.now)
	if len(passed) == 0 {
		return nil
	}
	why := p.rejectPassedOver(f.Duration).Error()
	for _, name := range slices.Sorted(maps.Keys(passed)) {
		b := passed[name]
		blocker := b.BudgetName()
		switch {
		case blocker == "" && b.Pod.Name == "":
			blocker = "node (do-not-disrupt)"
		case blocker == "":
			blocker = "pod " + b.Pod.String() + " (do-not-disrupt)"
		}
		f.Nodes = append(f.Nodes, simulate.NodeForecast{Name: name, Stuck: b.String(), Blocker: blocker})
	}
	f.Duration, f.Endless = simulate.Span{}, cmp.Or(f.Endless, "a person")
	return []string{why}
}

// failureTime returns how long it takes until the cloud fails because it cannot drain the node, counted from now. Until
// then the simulation shows no change. For a node in drain the timeout began earlier.
func (p *planning) failureTime(end *simulate.Ending, nodes []simulate.NodeForecast) record.Duration {
	timeout := p.record.Request.DrainTimeout.Duration
	i := slices.IndexFunc(nodes, func(n simulate.NodeForecast) bool { return n.Name == end.Node })
	if end.Result != record.PodEvictionFailure || i < 0 {
		return end.After
	}
	if since := p.record.Delegation.Draining[end.Node]; !since.IsZero() {
		return record.Duration{Duration: max(0, since.Add(timeout).Sub(p.now))}
	}
	return record.Duration{Duration: min(end.After.Duration, nodes[i].Start.Latest.Duration+timeout)}
}

// forecaster runs forecasts of the rest in the background, one at a time. It pauses between them to save CPU time.
type forecaster struct {
	// made receives the forecast that is running; nil if none is.
	made chan madeForecast
	// last is the last forecast. It was for the run, took this long, and was finished at ended.
	last  report.TimeLeft
	run   string
	took  time.Duration
	ended time.Time
	known restData
}

// restData is the data that a forecast of the rest needs besides the group and its nodes: controllers, volumes and the
// load balancers that the upgrade waits for.
type restData struct {
	background *inventory.Objects
	balancers  balancers
	readAt     time.Time
}

// loadRestData reads what a forecast of the rest needs. It uses known data again for a while, except for the load
// balancers' targets and the cloud's survey.
func (p *planning) loadRestData(ctx context.Context, known *restData) error {
	if known.background == nil || time.Since(known.readAt) > backgroundAge {
		background, err := p.s.readForecastObjects(ctx)
		if err != nil {
			return err
		}
		p.balancers = p.findBalancers(ctx, p.s.conn.Client, nil)
		*known = restData{background: background, balancers: p.balancers, readAt: time.Now()}
	} else {
		p.balancers = known.balancers
		p.balancers.loadTargets(ctx, p.provider)
	}
	p.cluster = &clusterReading{view: p.cluster.view, objects: known.background, use: inventory.ForForecasts}
	return p.loadSurvey(ctx)
}

// madeForecast is a finished forecast with the data that it used.
type madeForecast struct {
	rest  report.TimeLeft
	run   string
	took  time.Duration
	known restData
}

// begin starts a forecast of the run in a goroutine, unless one is running or the last one ended less than the pause
// ago. The data that forecast uses must not change.
func (f *forecaster) begin(run string, pause time.Duration, forecast func(known *restData) report.TimeLeft) {
	if f.made != nil || f.run == run && time.Since(f.ended) < max(pause, forecastShare*f.took) {
		return
	}
	made := make(chan madeForecast, 1) // buffered, because it may have no receiver
	f.made = made
	result := madeForecast{run: run, known: f.known}
	go func() {
		began := time.Now()
		result.rest = forecast(&result.known)
		result.took = time.Since(began)
		made <- result
	}()
}

// finish stores a finished forecast.
func (f *forecaster) finish(made madeForecast) {
	f.made, f.last, f.run, f.took, f.ended, f.known = nil, made.rest, made.run, made.took, time.Now(), made.known
}

// restAt returns what is known now about the rest of the run.
func (f *forecaster) restAt(now time.Time, run string) report.TimeLeft {
	if f.run != run || f.ended.IsZero() {
		return report.TimeLeft{RemainingUnknown: report.ForecastPending}
	}
	return f.last.CountedFrom(now)
}
