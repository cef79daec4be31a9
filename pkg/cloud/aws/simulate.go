package aws

import (
	"context"
	"errors"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	it "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// simulationTimeout is how long IAM may take for all answers together. Many private networks cannot reach IAM, and a plan must
// not wait there.
const simulationTimeout = 5 * time.Second

// policySimulator asks IAM what the user's own policies allow.
type policySimulator struct {
	region string
	iam    *iam.Client
	sts    *sts.Client
}

// simulate asks IAM which of the actions the user's own policies allow. The result does not contain actions without an answer.
// It is empty if IAM refuses to answer or cannot be reached.
func (s *policySimulator) simulate(ctx context.Context, checks []rightCheck) map[string]verdict {
	ctx, cancel := context.WithTimeout(ctx, simulationTimeout)
	defer cancel()
	verdicts := map[string]verdict{}
	who, err := s.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return verdicts
	}
	principal, ok := principalOf(sdk.ToString(who.Arn))
	if !ok {
		return verdicts
	}
	for _, check := range checks {
		if check.resource == "" {
			continue
		}
		results, err := s.simulateActions(ctx, principal, check)
		if _, invalid := errors.AsType[*it.InvalidInputException](err); invalid {
			continue // IAM does not accept these actions in one request; the next check may succeed
		}
		if err != nil {
			return verdicts
		}
		for _, action := range check.actions {
			verdicts[action] = judgeSimulation(results, action, check.resource)
		}
	}
	return verdicts
}

// simulateActions asks IAM about the actions of one resource. IAM would evaluate several resources
// in all combinations. It also refuses a request whose actions are authorized by different
// resources (InvalidInput, "require different authorization information").
func (s *policySimulator) simulateActions(ctx context.Context, principal string, check rightCheck) ([]it.EvaluationResult, error) {
	// Many policies limit users to some regions and launch templates, so the request contains both values.
	known := []it.ContextEntry{{
		ContextKeyName: sdk.String("aws:RequestedRegion"), ContextKeyType: it.ContextKeyTypeEnumString, ContextKeyValues: []string{s.region},
	}}
	if check.template != "" {
		known = append(known, it.ContextEntry{
			ContextKeyName: sdk.String("ec2:LaunchTemplate"), ContextKeyType: it.ContextKeyTypeEnumString, ContextKeyValues: []string{check.template},
		})
	}
	pages := iam.NewSimulatePrincipalPolicyPaginator(s.iam, &iam.SimulatePrincipalPolicyInput{
		PolicySourceArn: sdk.String(principal), ActionNames: check.actions, ResourceArns: []string{check.resource}, ContextEntries: known,
	})
	var results []it.EvaluationResult
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		results = append(results, out.EvaluationResults...)
	}
	return results, nil
}
