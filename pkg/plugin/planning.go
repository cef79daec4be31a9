package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
)

// planning is a group whose upgrade is planned or checked, with what that needs and an upgrade does not.
type planning struct {
	*groupContext
	s      *session
	rights rights
	// balancers are the load balancers to follow, where they were looked for.
	balancers balancers
	// refusals says why the API server refuses new pods of workloads, by what findings call those.
	refusals map[string]preflight.Refusal
	// survey is what the cloud tells of the group, and surveyErr why that is not all; nil
	// when it is.
	survey    cloud.Survey
	surveyErr error
	// film keeps the upgrade that the plan forecasts, nil for a plan without a report. forecast is the plan's once that is made.
	recorder *simulationRecorder
	forecast *simulate.Forecast
}

// rights are what the user may not do, as far as that was asked.
type rights struct {
	// missing are those that carrying the upgrade out takes, and missingReads those that plans and checks read with.
	missing, missingReads []string
	// shortfalls says what the upgrade leaves out because the user lacks a right.
	shortfalls []string
	// cloud is what the cloud says of the user's rights.
	cloud cloud.Rights
}

// askRights asks the cluster and the cloud what the user may do of what the upgrade takes.
func (p *planning) askRights(ctx context.Context) {
	p.rights.missing = p.s.conn.ListMissingRights(ctx, &p.request, true, p.s.line.stateNamespace)
	p.rights.shortfalls = p.s.conn.DescribeShortfalls(ctx, &p.request)
	if authorizer, ok := cloud.As[cloud.Authorizer](p.provider); ok && countOutdated(p.members) > 0 {
		p.rights.cloud = authorizer.AskRights(ctx, &p.group)
	}
}

// loadForecastData reads what a forecast needs and an upgrade does not: the controllers and volumes behind the pods, and
// what the cloud tells of the group. A plan does without what the cloud does not tell, and says so.
func (p *planning) loadForecastData(ctx context.Context) error {
	if p.cluster.objects == nil { // they are read once for all groups of a session
		objects, err := p.s.readForecastObjects(ctx)
		if err != nil {
			return err
		}
		p.cluster.objects, p.cluster.use = objects, inventory.ForForecasts
	}
	return p.loadSurvey(ctx)
}

// loadSurvey reads what the cloud tells a plan of the group.
func (p *planning) loadSurvey(ctx context.Context) error {
	surveyor, ok := cloud.As[cloud.Surveyor](p.provider)
	if !ok {
		return nil
	}
	p.survey, p.surveyErr = surveyor.Survey(ctx, &p.group)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reading group %q from the cloud: %w", p.group.Name, err)
	}
	return nil
}

// addRefusals adds workloads of which the API server refuses new pods. A refusal that is known already stays.
func (p *planning) addRefusals(refusals map[string]preflight.Refusal) {
	if p.refusals == nil {
		p.refusals = map[string]preflight.Refusal{}
	}
	for workload, refusal := range refusals {
		p.refusals[workload] = cmp.Or(p.refusals[workload], refusal)
	}
}

// makeFacts returns what rules need beside the World.
func (p *planning) makeFacts(serverVersion string) preflight.Facts {
	return preflight.Facts{
		ServerVersion: serverVersion, MissingRights: p.rights.missing, MissingReads: p.rights.missingReads,
		DeniedActions: p.rights.cloud.Denied, UnverifiedActions: p.rights.cloud.Unverified,
		DeniedReads: p.balancers.Denied, Delays: p.balancers.deregistrationDelays(),
	}
}

// runRules returns what all rules find. Where the objects that they look at were not read, it returns what the rules
// find that need fewer.
func (p *planning) runRules() []preflight.Finding {
	objects := p.cluster.objectsForChecks()
	switch {
	case p.cluster.objects == nil:
		return p.findings
	case objects == nil:
		return slices.Concat(p.findings, preflight.CheckServices(p.members, &p.request, p.cluster.objects.Services))
	}
	world := p.makeWorld(p.now)
	return preflight.Check(preflight.NewScene(&world, p.makeFacts(p.s.conn.Version), objects), preflight.Catalogue(), p.s.line.skipChecks)
}
