package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// forecastLimit is the longest time that a forecast of the rest may take.
	forecastLimit = time.Minute
	// forecastPause is the least time between two forecasts of a status, upgradePause that of an upgrade, which also has to decide.
	forecastPause, upgradePause = 15 * time.Second, 30 * time.Second
	// forecastShare is the least time between two forecasts, in multiples of the time that the first one took. Forecasts use up to
	// four processors for a twentieth of the time, which is a fifth of one processor.
	forecastShare = 20
	// backgroundAge is the age at which restData is read again. To read all of it costs the API server more than a watch does.
	backgroundAge = 5 * time.Minute
)

// forecastRest forecasts how long the rest of an upgrade under way takes, and how it ends. load reads the
// objects that the forecast needs. If an error occurs, the result has its text in RemainingUnknown. The group is not changed.
func (s *session) forecastRest(ctx context.Context, g groupContext, record record.Record, load func(context.Context, *planning) error) report.TimeLeft {
	ctx, cancel := context.WithTimeoutCause(ctx, forecastLimit, fmt.Errorf("it takes longer than %s to calculate", forecastLimit))
	defer cancel()
	g.record, g.request = record.Reopened(), record.Request
	if record.IsRunning() && g.idle == 0 {
		g.record.Unhealthy = record.Unhealthy // its holder counts on; another would begin anew
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

// rejectUnknownAddedNodes returns an error where a cloud is in the middle of an upgrade of its own and it
// is not known what it has added to the group.
func (o *observation) rejectUnknownAddedNodes(record *record.Record) error {
	if record.Delegation != nil && !upgrade.KnowsAdded(record, &o.group) {
		return errors.New("this tool did not start the cloud's update, so it does not know how many nodes the update has added")
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
		return report.TimeLeft{}, fmt.Errorf("it waits until you replace the drained nodes; the rest takes %s", report.FormatSpan(forecast.Duration))
	case p.record.Delegation != nil:
		forecast.Fast.After, forecast.Slow.After = p.failureTime(&forecast.Fast, forecast.Nodes), p.failureTime(&forecast.Slow, forecast.Nodes)
	}
	return report.NewTimeLeft(forecast.Duration, forecast.Fast, forecast.Slow), nil
}

// failureTime is when a cloud gives up on the node that it cannot drain, counted from now: it does
// nothing then. It has tried the nodes that it is draining for a while already.
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

// forecaster works out what remains of an upgrade beside its display: one forecast at a time, and so
// seldom that it takes little of the machine.
type forecaster struct {
	// made receives the forecast that is being made; nil while none is.
	made chan madeForecast
	// last was made for the run, and took so long; it was finished at ended.
	last  report.TimeLeft
	run   string
	took  time.Duration
	ended time.Time
	known restData
}

// restData is what a forecast of the rest knows beside the group and its nodes: controllers and volumes,
// and the load balancers that the upgrade waits for.
type restData struct {
	background *inventory.Objects
	balancers  balancers
	readAt     time.Time
}

// loadRestData reads what a forecast of the rest rests on. What was read shortly before stands, except for
// the targets of load balancers and what the cloud tells of the group.
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

// madeForecast is a forecast with what it was made from.
type madeForecast struct {
	rest  report.TimeLeft
	run   string
	took  time.Duration
	known restData
}

// begin begins a forecast of the run in a goroutine of its own, unless one is being made. At least the pause lies between the end of
// a forecast and the beginning of the next one. What forecast uses must not change.
func (f *forecaster) begin(run string, pause time.Duration, forecast func(known *restData) report.TimeLeft) {
	if f.made != nil || f.run == run && time.Since(f.ended) < max(pause, forecastShare*f.took) {
		return
	}
	made := make(chan madeForecast, 1) // it is sent even if nobody receives it
	f.made = made
	result := madeForecast{run: run, known: f.known}
	go func() {
		began := time.Now()
		result.rest = forecast(&result.known)
		result.took = time.Since(began)
		made <- result
	}()
}

// finish takes over a forecast that was made.
func (f *forecaster) finish(made madeForecast) {
	f.made, f.last, f.run, f.took, f.ended, f.known = nil, made.rest, made.run, made.took, time.Now(), made.known
}

// restAt is what is known of the run's rest now.
func (f *forecaster) restAt(now time.Time, run string) report.TimeLeft {
	if f.run != run || f.ended.IsZero() {
		return report.TimeLeft{RemainingUnknown: report.ForecastPending}
	}
	return f.last.CountedFrom(now)
}
