package awscloud

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// callerOperation returns an operation that calls f with the request's caller. f only reads.
func callerOperation[In, Out any](f func(callerContext, *In) (*Out, error)) operation {
	return operation{decode: func(form url.Values) (handler, error) {
		in := new(In)
		return func(ctx context.Context, _ *region) (any, error) { return f(callerFrom(ctx), in) }, decodeQuery(form, in)
	}}
}

func stsOperations() map[string]operation {
	return map[string]operation{"GetCallerIdentity": callerOperation(getCallerIdentity)}
}

func iamOperations() map[string]operation {
	return map[string]operation{"SimulatePrincipalPolicy": callerOperation(simulatePrincipalPolicy)}
}

func getCallerIdentity(a callerContext, _ *sts.GetCallerIdentityInput) (*sts.GetCallerIdentityOutput, error) {
	return &sts.GetCallerIdentityOutput{
		Account: aws.String(a.book.account),
		Arn:     aws.String(a.who.arn),
		UserId:  aws.String("AIDACKCEVSQ6C2EXAMPLE"),
	}, nil
}

// simulationPage is the maximum number of results in an answer. It is small, because IAM may always send fewer results than
// were requested.
const simulationPage = 2

// parseMarker returns the index at which the page of a marker begins.
func parseMarker(marker *string, most int) (int, error) {
	from, err := strconv.Atoi(aws.ToString(marker))
	if marker != nil && (err != nil || from < 0 || from > most) {
		return 0, clientError("InvalidInput", "Invalid Marker: %s", *marker)
	}
	return from, nil
}

// simulatePrincipalPolicy decides each action on each resource by the policies with which the stand-in also authorizes
// requests.
func simulatePrincipalPolicy(a callerContext, in *iam.SimulatePrincipalPolicyInput) (*iam.SimulatePrincipalPolicyOutput, error) {
	principal := aws.ToString(in.PolicySourceArn)
	if !strings.Contains(principal, ":iam:") {
		return nil, clientError("InvalidInput", "Invalid Entity Arn: %s does not clearly define entity type and name.", principal)
	}
	who, ok := a.who, a.who.principal == principal // if two keys belong to one user, use the policies of the caller's key
	if !ok {
		who, ok = a.book.byPrincipal(principal)
	}
	if !ok {
		return nil, unknownEntityError(principal)
	}
	if err := sameAuthorization(in.ActionNames); err != nil {
		return nil, err
	}
	from, err := parseMarker(in.Marker, len(in.ActionNames))
	if err != nil {
		return nil, err
	}
	known := map[string][]string{}
	for _, entry := range in.ContextEntries {
		known[aws.ToString(entry.ContextKeyName)] = entry.ContextKeyValues
	}
	to := min(len(in.ActionNames), from+simulationPage)
	out := &iam.SimulatePrincipalPolicyOutput{EvaluationResults: []iamtypes.EvaluationResult{}, IsTruncated: to < len(in.ActionNames)}
	for _, action := range in.ActionNames[from:to] {
		out.EvaluationResults = append(out.EvaluationResults, who.simulate(action, in.ResourceArns, known))
	}
	if out.IsTruncated {
		out.Marker = aws.String(strconv.Itoa(to))
	}
	return out, nil
}

// simulate returns the result for one action. With resources, it lists missing context values for each resource.
func (c caller) simulate(action string, resources []string, known map[string][]string) iamtypes.EvaluationResult {
	if len(resources) == 0 {
		decision, missing := c.decide(action, "*", known)
		return iamtypes.EvaluationResult{EvalActionName: aws.String(action), EvalResourceName: aws.String("*"), EvalDecision: decision, MissingContextValues: missing}
	}
	all := iamtypes.EvaluationResult{
		EvalActionName: aws.String(action), EvalResourceName: aws.String(resources[0]), EvalDecision: iamtypes.PolicyEvaluationDecisionTypeAllowed,
	}
	for _, resource := range resources {
		decision, missing := c.decide(action, resource, known)
		if decision != iamtypes.PolicyEvaluationDecisionTypeAllowed {
			all.EvalDecision = decision
		}
		all.ResourceSpecificResults = append(all.ResourceSpecificResults, iamtypes.ResourceSpecificResult{
			EvalResourceName: aws.String(resource), EvalResourceDecision: decision, MissingContextValues: missing,
		})
	}
	return all
}

// unknownEntityError returns IAM's error for the ARN of an unknown user or role. The ARN of a role must contain the role's
// path.
func unknownEntityError(principal string) *apiError {
	kind, name, _ := strings.Cut(principal[strings.LastIndexByte(principal, ':')+1:], "/")
	return &apiError{Code: "NoSuchEntity", Message: fmt.Sprintf("The %s with name %s cannot be found.", kind, name), Status: http.StatusNotFound}
}

// sameAuthorization returns an error for actions of several services in one request. IAM accepts several actions only if all
// are authorized by the same kinds of resources. The stand-in does not model these kinds. Actions of two services always have
// different kinds.
func sameAuthorization(actions []string) error {
	var first string
	for _, action := range actions {
		service, _, _ := strings.Cut(action, ":")
		if first == "" {
			first = service
		}
		if service != first {
			return clientError("InvalidInput", "Invalid Input Actions: [%s] and [%s] require different authorization information.", actions[0], action)
		}
	}
	return nil
}
