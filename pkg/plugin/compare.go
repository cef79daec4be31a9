package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// alternative is another way to upgrade a group: its flags, and the change that they make to the settings.
type alternative struct {
	flags  string
	change func(*upgrade.Settings)
}

// listAlternatives returns the ways that --compare adds to the requested one. The comparison shows why a way is refused
// if the group cannot use it.
func listAlternatives(group *nodegroup.Group) []alternative {
	other, unsurged := "gke", alternative{"--max-surge=0", func(s *upgrade.Settings) { s.MaxSurge = &nodegroup.Quantity{} }}
	if nodegroup.InfoOf(group.Provider).Model == other { // gke's default for max-unavailable is 0
		other = "eks"
		unsurged = alternative{"--max-surge=0 --max-unavailable=1", func(s *upgrade.Settings) {
			s.MaxSurge, s.MaxUnavailable = &nodegroup.Quantity{}, &nodegroup.Quantity{N: 1}
		}}
	}
	return []alternative{
		{"--max-unavailable=10%", func(s *upgrade.Settings) { s.MaxUnavailable = &nodegroup.Quantity{N: 10, Percent: true} }},
		unsurged,
		{"--like=" + other, func(s *upgrade.Settings) { s.Like = other }},
		{"--strategy=blue-green", func(s *upgrade.Settings) { s.Strategy = record.BlueGreen }},
		{"--strategy=blue-green --batch=25%", func(s *upgrade.Settings) {
			s.Strategy, s.Batch = record.BlueGreen, &nodegroup.Quantity{N: 25, Percent: true}
		}},
		{"--strategy=autoscaled-blue-green", func(s *upgrade.Settings) { s.Strategy = record.AutoscaledBlueGreen }},
		{"--strategy=short-lived", func(s *upgrade.Settings) { // short-lived allows no other drain settings
			*s = upgrade.Settings{Strategy: record.ShortLived, Current: s.Current, BootTimeout: s.BootTimeout}
		}},
	}
}

// withoutStrategySettings returns the settings without those that the alternatives set.
func withoutStrategySettings(s upgrade.Settings) upgrade.Settings {
	s.Strategy, s.Like, s.MaxUnavailable, s.MaxSurge = "", "", nil, nil
	s.Batch, s.BatchSoak, s.Soak, s.WaitForDrain, s.BatchBarrier = nil, nil, nil, nil, false
	return s
}

// printComparison prints a comparison of the requested way to upgrade the group with the alternatives.
func (p *planning) printComparison(ctx context.Context) error {
	switch {
	case p.group.Managed != nil && p.group.Managed.TakesRollout:
		return usageError(fmt.Errorf("--compare: %s upgrades group %q itself, and its strategies are not compared: remove the flag, and show the plan of each --strategy with --dry-run", nodegroup.InfoOf(p.group.Provider).Manager.Name, p.group.Name))
	case p.group.Managed != nil:
		return usageError(fmt.Errorf("--compare: %s upgrades group %q itself and in only one way: remove the flag", nodegroup.InfoOf(p.group.Provider).Manager.Name, p.group.Name))
	case p.record.IsResumable():
		return usageError(fmt.Errorf("--compare: an upgrade of group %q is running and cannot change its strategy: remove the flag", p.group.Name))
	}
	if owned := p.findOwnerRefusal(); owned != nil {
		return &exitErr{code: exitStructural, err: fmt.Errorf("comparing ways to upgrade group %q: %s", p.group.Name, owned)}
	}
	if err := p.loadForecastData(ctx); err != nil {
		return err
	}
	ways := p.listWays(p.s.line.settings)
	assumed, err := p.forecastWays(ctx, ways)
	if err != nil {
		return err
	}
	comparison := p.newComparison(ways)
	comparison.Context, comparison.Assumptions = p.s.conn.context, assumed
	names := []string{nodegroup.Prefix + p.group.Name}
	err = p.s.line.printObject(comparison, names, func(w io.Writer, ro report.Options) error { return report.WriteComparison(w, comparison, ro) })
	if err == nil && !comparison.ReachesGoal() {
		return &exitErr{code: exitStructural}
	}
	return err
}

func (p *planning) newComparison(ways []report.Way) *report.Comparison {
	fits, because := preflight.FitStrategy(&p.group, p.members, p.request.Policy(), p.now)
	return report.NewComparison(p.group.Name, fits, because, ways)
}

// listWays returns the requested way and the alternatives, without duplicates.
func (p *planning) listWays(asked upgrade.Settings) []report.Way {
	ways := []report.Way{{Flags: "as asked", Request: p.request}}
	for _, a := range listAlternatives(&p.group) {
		settings := withoutStrategySettings(asked)
		a.change(&settings)
		settings.To = p.to
		if settings.Strategy == record.ShortLived && p.request.Strategy == record.ShortLived {
			continue // the alternative is the requested way
		}
		way := report.Way{Flags: a.flags}
		if settings.Strategy == "" && !asked.Strategy.Traits().TakesWidth {
			way.Flags = "--strategy=" + string(record.Surge) + " " + way.Flags // the alternative replaces the typed strategy
		}
		req, err := settings.ResolveRequest(&p.group, p.countNodes(), countOutdated(p.members))
		if err == nil {
			err = req.CheckRecordSize(&p.group, p.members)
		}
		if err != nil {
			way.Refused, req = err.Error(), record.Request{}
		}
		way.Request = req
		if way.Refused != "" || !slices.ContainsFunc(ways, func(w report.Way) bool { return reflect.DeepEqual(w.Request, req) }) {
			ways = append(ways, way)
		}
	}
	return ways
}

// forecastWays forecasts all ways that are not refused and have no forecast yet. As many forecasts run in parallel as
// there are processors. It begins with the last ways, because they drain the most nodes at a time and take the longest
// to forecast. It returns the assumptions of the first way's forecast.
func (p *planning) forecastWays(ctx context.Context, ways []report.Way) ([]string, error) {
	assumed := make([][]string, len(ways))
	work := errgroup.Group{}
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range slices.Backward(ways) {
		switch {
		case ways[i].Refused != "" || ways[i].WayForecast != nil:
		case ways[i].Request.Strategy.Traits().Expires:
			ways[i].Unforecast = "no node is drained or removed, and it is unknown when the outdated nodes end on their own"
		default:
			work.Go(func() (err error) {
				assumed[i], err = p.forecastWay(ctx, &ways[i])
				return err
			})
		}
	}
	err := work.Wait() // before this, other goroutines write to assumed
	return assumed[0], err
}

// forecastWay adds a forecast to a way and returns the forecast's assumptions.
func (p *planning) forecastWay(ctx context.Context, way *report.Way) ([]string, error) {
	forecast, assumed, err := p.runForecast(ctx, way.Request, nil)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		way.Unforecast = context.Cause(ctx).Error()
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("comparing %s: %w", way.Flags, err)
	}
	p.setWayForecast(way, &forecast)
	return assumed, nil
}

// setWayForecast sets a way's forecast.
func (p *planning) setWayForecast(way *report.Way, forecast *simulate.Forecast) {
	if forecast.Endless != "" {
		way.Unforecast = "it would wait for " + forecast.Endless
		return
	}
	way.WayForecast = &report.WayForecast{
		Result: forecast.Slow.Result, Duration: forecast.Duration,
		Evictions: forecast.Evictions, Forced: forecast.Forced, Outage: record.Duration{Duration: forecast.Outage},
	}
	if p.group.Can.Resize {
		way.Peak, way.ExtraInstanceHours = &forecast.Peak, new(math.Round(forecast.ExtraHours*100)/100)
	}
}

// checkCompare returns an error if --compare is used without a plan with forecast of a single group.
func checkCompare(line *commandLine) error {
	switch {
	case !line.compare:
		return nil
	case !line.isDryRun():
		return errors.New("--compare works only with plans: add --dry-run")
	case !line.forecast:
		return errors.New("--compare needs forecasts: remove --forecast=false")
	case len(line.groups.names) > 1:
		return errors.New("--compare works for one group: name only one")
	}
	return nil
}
