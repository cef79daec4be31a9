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

// planning is a group whose upgrade is planned or checked, with the data that only plans and checks need.
type planning struct {
	*groupContext
	s      *session
	rights rights
	// balancers are the load balancers to watch, if they were read.
	balancers balancers
	// refusals says why the API server refuses new pods of a workload, by the workload's name in findings.
	refusals map[string]preflight.Refusal
	// webhooks are the admission webhooks that may fail during the upgrade.
	webhooks []*preflight.FailingWebhook
	// survey is the cloud's data for plans. surveyErr explains which part is missing; it is nil if nothing is.
	survey    cloud.Survey
	surveyErr error
	// recorder keeps the simulated upgrade for a report; nil without a report. forecast is the plan's forecast; nil
	// before it was made.
	recorder *simulationRecorder
	forecast *simulate.Forecast
}

// rights are the permissions that the user lacks, as far as they were checked.
type rights struct {
	// missing are the permissions that the upgrade needs. missingReads are the permissions that plans and checks need.
	missing, missingReads []string
	// shortfalls describe what the upgrade omits because a permission is missing.
	omittedParts []string
	// cloud has the missing permissions in the cloud.
	cloud cloud.Rights
}

// loadRights asks the cluster and the cloud which of the needed permissions the user lacks.
func (p *planning) loadRights(ctx context.Context) {
	p.rights.missing = p.s.conn.ListMissingRights(ctx, &p.request, true, p.s.line.stateNamespace)
	p.rights.omittedParts = p.s.conn.DescribeOmittedParts(ctx, &p.request)
	if authorizer, ok := cloud.As[cloud.Authorizer](p.provider); ok && countOutdated(p.members) > 0 {
		p.rights.cloud = authorizer.CheckRights(ctx, &p.group)
	}
}

// loadForecastData reads what only a forecast needs: the controllers and volumes of pods, and the cloud's survey of the
// group. If a part of the survey is missing, the plan says so.
func (p *planning) loadForecastData(ctx context.Context) error {
	if p.cluster.objects == nil { // the objects are read once for all groups of a session
		objects, err := p.s.readForecastObjects(ctx)
		if err != nil {
			return err
		}
		p.cluster.objects, p.cluster.use = objects, inventory.ForForecasts
	}
	return p.loadSurvey(ctx)
}

// loadSurvey reads the cloud's data about the group for a plan.
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

// believeFindings makes the forecast follow the findings about pods that the API server refuses and about webhooks that may fail.
func (p *planning) believeFindings(findings []preflight.Finding) {
	p.addRefusals(preflight.ListRefusals(findings))
	p.webhooks = preflight.ListFailingWebhooks(findings)
}

// addRefusals adds workloads whose new pods the API server refuses. It does not replace known refusals.
func (p *planning) addRefusals(refusals map[string]preflight.Refusal) {
	if p.refusals == nil {
		p.refusals = map[string]preflight.Refusal{}
	}
	for workload, refusal := range refusals {
		p.refusals[workload] = cmp.Or(p.refusals[workload], refusal)
	}
}

// makeFacts returns the data that rules need besides the World.
func (p *planning) makeFacts(serverVersion string, controlPlane bool) preflight.Facts {
	return preflight.Facts{
		ServerVersion: serverVersion, ControlPlane: controlPlane, MissingRights: p.rights.missing, MissingReads: p.rights.missingReads,
		DeniedActions: p.rights.cloud.Denied, UnverifiedActions: p.rights.cloud.Unverified,
		DeniedReads: p.balancers.Denied, Delays: p.balancers.deregistrationDelays(),
	}
}

// runRules returns the findings of all rules. If the objects for all rules were not read, it runs only the rules that
// need fewer objects.
func (p *planning) runRules() []preflight.Finding {
	objects := p.cluster.objectsForChecks()
	switch {
	case p.cluster.objects == nil:
		return p.findings
	case objects == nil:
		return slices.Concat(p.findings, preflight.CheckServices(p.members, &p.request, p.cluster.objects.Services))
	}
	world := p.makeWorld(p.now)
	return preflight.Check(preflight.NewScene(&world, p.makeFacts(p.s.conn.Version, p.s.line.controlPlane), objects), preflight.Catalogue(), p.s.line.skipChecks)
}
