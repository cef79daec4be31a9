package aws

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	it "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// TestUncertainIAMSimulationIsUnverified checks answers of IAM that the stand-in does not give. If such an answer is not
// certain, the action is unverified.
func TestUncertainIAMSimulationIsUnverified(t *testing.T) {
	const action, resource = "ec2:CreateFleet", "arn:aws:ec2:us-east-1:123456789012:fleet/fleet-0"
	result := func(decision it.PolicyEvaluationDecisionType, change ...func(*it.EvaluationResult)) []it.EvaluationResult {
		r := it.EvaluationResult{EvalActionName: sdk.String(action), EvalResourceName: sdk.String(resource), EvalDecision: decision}
		for _, c := range change {
			c(&r)
		}
		return []it.EvaluationResult{r}
	}
	byOrganization := func(allows bool) func(*it.EvaluationResult) {
		return func(r *it.EvaluationResult) {
			r.OrganizationsDecisionDetail = &it.OrganizationsDecisionDetail{AllowedByOrganizations: allows}
		}
	}
	missing := func(r *it.EvaluationResult) { r.MissingContextValues = []string{"aws:SourceIp"} }
	specific := func(name string, decision it.PolicyEvaluationDecisionType) func(*it.EvaluationResult) {
		return func(r *it.EvaluationResult) {
			r.ResourceSpecificResults = []it.ResourceSpecificResult{{EvalResourceName: sdk.String(name), EvalResourceDecision: decision}}
		}
	}
	const yes, no, never = it.PolicyEvaluationDecisionTypeAllowed, it.PolicyEvaluationDecisionTypeImplicitDeny, it.PolicyEvaluationDecisionTypeExplicitDeny
	cases := map[string]struct {
		results []it.EvaluationResult
		want    verdict
	}{
		"no result":                         {nil, unverified},
		"another action":                    {[]it.EvaluationResult{{EvalActionName: sdk.String("ec2:RunInstances"), EvalDecision: no}}, unverified},
		"allowed":                           {result(yes), allowed},
		"allowed as far as is known":        {result(yes, missing), allowed},
		"denied":                            {result(no), denied},
		"denied for good":                   {result(never), denied},
		"denied, with values missing":       {result(no, missing), unverified},
		"denied for good, values missing":   {result(never, missing), unverified},
		"denied, and by the organization":   {result(no, byOrganization(false)), unverified},
		"denied, allowed by organization":   {result(no, byOrganization(true)), denied},
		"denied for the resource":           {result(yes, specific(resource, no)), denied},
		"denied for something else":         {result(yes, specific("*", no)), allowed},
		"a decision of which is not known":  {result("maybe"), unverified},
		"no decision on the resource named": {result("", specific("*", no)), unverified},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := judgeSimulation(c.results, action, resource); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
