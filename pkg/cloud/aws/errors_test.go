package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials/ssocreds"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// errorAnswer returns the error that the SDK's clients return for an error answer of AWS.
func errorAnswer(status int, api error) error {
	return &smithy.OperationError{ServiceID: "Auto Scaling", OperationName: "TerminateInstanceInAutoScalingGroup", Err: &awshttp.ResponseError{
		RequestID: "0ea5f0da",
		ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: api,
		},
	}}
}

func errorWithCode(status int, code, message string) error {
	return errorAnswer(status, &smithy.GenericAPIError{Code: code, Message: message})
}

// errorWithoutAnswer returns the error of a request that got no answer.
func errorWithoutAnswer(cause error) error {
	return &smithy.OperationError{ServiceID: "Auto Scaling", OperationName: "TerminateInstanceInAutoScalingGroup", Err: fmt.Errorf("https response error StatusCode: 0, %w",
		&smithyhttp.RequestSendError{Err: &url.Error{Op: "Post", URL: "https://autoscaling.us-east-1.amazonaws.com/", Err: cause}})}
}

// credentialRenewalError returns the error of a request whose credentials could not be renewed.
func credentialRenewalError(cause error) error {
	return &smithy.OperationError{ServiceID: "Auto Scaling", Err: fmt.Errorf("get identity: get credentials: failed to refresh cached credentials, %w", cause)}
}

func TestAWSErrorsAreClassified(t *testing.T) {
	const (
		minSize = "Currently, desiredSize equals minSize (3). Terminating instance without replacement will violate group's min size constraint. " +
			"Either set shouldDecrementDesiredCapacity flag to false or lower group's min size."
		noInstance = "Instance Id not found - No managed instance found for instance ID i-0bba418a2c5c5ed5c"
		denial     = "User: arn:aws:iam::1:user/u is not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:*:*:instance/*"
	)
	cases := map[string]struct {
		err     error
		outcome nodegroup.Outcome
		says    string
	}{
		"throttled":                      {errorWithCode(400, "Throttling", "Rate exceeded"), nodegroup.OutcomeLater, "Rate exceeded (Throttling)"},
		"throttled, documented code":     {errorWithCode(400, "RateExceeded", "Rate exceeded"), nodegroup.OutcomeLater, ""},
		"throttled by EC2":               {errorWithCode(503, "RequestLimitExceeded", "Request limit exceeded."), nodegroup.OutcomeLater, "Request limit exceeded ("},
		"scaling activity in progress":   {errorAnswer(400, &at.ScalingActivityInProgressFault{Message: sdk.String("busy")}), nodegroup.OutcomeLater, "busy"},
		"resource contention":            {errorAnswer(500, &at.ResourceContentionFault{Message: sdk.String("pending update")}), nodegroup.OutcomeLater, ""},
		"same token in flight":           {errorAnswer(400, &at.IdempotentCallInProgressFault{}), nodegroup.OutcomeLater, ""},
		"version not visible yet":        {errorWithCode(400, "ValidationError", "You must use a valid fully-formed launch template. Could not find the specified version 8 for the launch template with ID lt-0a."), nodegroup.OutcomeLater, ""},
		"instance gone":                  {errorWithCode(400, "ValidationError", noInstance), nodegroup.OutcomeMoved, "No managed instance"},
		"instance of no group":           {errorWithCode(400, "ValidationError", "The instance i-1 is not part of Auto Scaling group workers."), nodegroup.OutcomeMoved, ""},
		"instance unknown to EC2":        {errorWithCode(400, "InvalidInstanceID.NotFound", "The instance ID 'i-1' does not exist"), nodegroup.OutcomeMoved, ""},
		"group gone":                     {errorWithCode(400, "ValidationError", "AutoScalingGroup name not found - AutoScalingGroup workers not found"), nodegroup.OutcomeMoved, ""},
		"maximum lowered meanwhile":      {errorWithCode(400, "ValidationError", "New SetDesiredCapacity value 9 is above max value 8 for the AutoScalingGroup."), nodegroup.OutcomeMoved, ""},
		"minimum size":                   {errorWithCode(400, "ValidationError", minSize), nodegroup.OutcomeExhausted, "equals minSize"},
		"no capacity":                    {errorWithCode(400, "InsufficientInstanceCapacity", "We currently do not have sufficient capacity"), nodegroup.OutcomeExhausted, ""},
		"vCPU quota":                     {errorWithCode(400, "VcpuLimitExceeded", "You have requested more vCPU capacity"), nodegroup.OutcomeExhausted, ""},
		"addresses":                      {errorWithCode(400, "InsufficientFreeAddressesInSubnet", "Not enough free addresses"), nodegroup.OutcomeExhausted, ""},
		"EKS updates it already":         {errorWithCode(409, "ResourceInUseException", "busy"), nodegroup.OutcomeMoved, ""},
		"unknown to EKS":                 {errorWithCode(404, "ResourceNotFoundException", "no"), nodegroup.OutcomeMoved, ""},
		"throttled by EKS":               {errorWithCode(429, "ThrottlingException", "Rate exceeded"), nodegroup.OutcomeLater, ""},
		"fault of EKS":                   {errorWithCode(500, "ServerException", "oops"), nodegroup.OutcomeUnclear, ""},
		"EKS is not there":               {errorWithCode(503, "ServiceUnavailableException", "oops"), nodegroup.OutcomeUnclear, ""},
		"denied, resource as well":       {errorWithCode(403, "AccessDeniedException", denial+" because no policy allows it"), nodegroup.OutcomeFatal, "IAM action ec2:RunInstances on arn:aws:ec2:*:*:instance/*"},
		"denied, action in the message":  {errorWithCode(403, "AccessDenied", denial), nodegroup.OutcomeFatal, "IAM action ec2:RunInstances"},
		"denied, action of the request":  {errorWithCode(403, "AccessDenied", "no"), nodegroup.OutcomeFatal, "IAM action autoscaling:TerminateInstanceInAutoScalingGroup"},
		"denied by EC2":                  {errorWithCode(403, "UnauthorizedOperation", "You are not authorized to perform this operation."), nodegroup.OutcomeFatal, "IAM action"},
		"expired":                        {errorWithCode(403, "ExpiredToken", "The security token included in the request is expired"), nodegroup.OutcomeFatal, "aws sso login"},
		"expired, EC2":                   {errorWithCode(400, "RequestExpired", "Request has expired."), nodegroup.OutcomeFatal, "expired"},
		"invalid key":                    {errorWithCode(403, "InvalidClientTokenId", "The security token included in the request is invalid."), nodegroup.OutcomeFatal, "check the credentials"},
		"wrong signature":                {errorWithCode(403, "SignatureDoesNotMatch", "Signature expired"), nodegroup.OutcomeFatal, "clock"},
		"instance refresh":               {errorAnswer(400, &at.InstanceRefreshInProgressFault{}), nodegroup.OutcomeFatal, "cancel-instance-refresh"},
		"token used otherwise":           {errorAnswer(400, &at.IdempotentParameterMismatchError{}), nodegroup.OutcomeFatal, "token"},
		"other validation error":         {errorWithCode(400, "ValidationError", "Max bound, 1, must be greater than or equal to min bound, 3"), nodegroup.OutcomeFatal, "Max bound"},
		"unknown code, request at fault": {errorWithCode(400, "Invented", "no"), nodegroup.OutcomeFatal, "no (Invented)"},
		"unknown code, server at fault":  {errorWithCode(502, "Invented", "no"), nodegroup.OutcomeUnclear, ""},
		"internal failure":               {errorWithCode(500, "InternalFailure", "An internal error has occurred."), nodegroup.OutcomeUnclear, ""},
		"service unavailable":            {errorWithCode(503, "ServiceUnavailable", ""), nodegroup.OutcomeUnclear, ": ServiceUnavailable"},
		"answer that is no answer":       {errorAnswer(502, &smithy.DeserializationError{Err: errors.New("<html>")}), nodegroup.OutcomeUnclear, ""},
		"deadline":                       {errorWithoutAnswer(context.DeadlineExceeded), nodegroup.OutcomeUnclear, "no answer from AWS in time"},
		"cancelled":                      {&smithy.OperationError{Err: &smithy.CanceledError{Err: context.Canceled}}, nodegroup.OutcomeUnclear, ""},
		"connection lost":                {errorWithoutAnswer(&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}), nodegroup.OutcomeUnclear, "connection reset"},
		"nobody listens":                 {errorWithoutAnswer(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}), nodegroup.OutcomeLater, "dial tcp: connection refused"},
		"no such host":                   {errorWithoutAnswer(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), nodegroup.OutcomeLater, ""},
		"no credentials": {
			&smithy.OperationError{ServiceID: "Auto Scaling", Err: fmt.Errorf("get identity: %w", errors.New("get credentials: no EC2 IMDS role found"))},
			nodegroup.OutcomeFatal, "aws sso login",
		},
		"no role without the network": {
			credentialRenewalError(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}), nodegroup.OutcomeLater, "no route to host",
		},
		"no role, the connection was lost": {
			credentialRenewalError(&net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}), nodegroup.OutcomeUnclear, "reset",
		},
		"no role, throttled":      {credentialRenewalError(errorWithCode(400, "Throttling", "Rate exceeded")), nodegroup.OutcomeLater, "Rate exceeded"},
		"no role, server's fault": {credentialRenewalError(errorWithCode(503, "ServiceUnavailable", "")), nodegroup.OutcomeUnclear, "ServiceUnavailable"},
		"no role, refused":        {credentialRenewalError(errorWithCode(401, "UnauthorizedException", "Session token not found or invalid")), nodegroup.OutcomeFatal, "aws sso login"},
		"single sign-on ended":    {errorWithoutAnswer(&ssocreds.InvalidTokenError{}), nodegroup.OutcomeFatal, "aws sso login"},
		"signing in takes too long": {
			&smithy.OperationError{ServiceID: "Auto Scaling", Err: fmt.Errorf("get identity: %w", context.DeadlineExceeded)}, nodegroup.OutcomeUnclear, "",
		},
		"a member is missing": {&smithy.OperationError{Err: &smithy.InvalidParamsError{}}, nodegroup.OutcomeFatal, "bug"},
		"a refusal":           {refusedError("it has no template"), nodegroup.OutcomeFatal, "it has no template"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := explainError(`terminating instance "i-1"`, c.err)
			var got *cloud.Error
			if !errors.As(err, &got) || got.Outcome != c.outcome {
				t.Fatalf("got %+v, want outcome %s", got, c.outcome)
			}
			text := err.Error()
			if !strings.HasPrefix(text, `terminating instance "i-1": `) || !strings.Contains(text, c.says) || strings.ContainsAny(text, "\n") || strings.HasSuffix(text, ".") {
				t.Errorf("says %q, want one line with %q", text, c.says)
			}
			if !errors.Is(err, c.err) {
				t.Errorf("%v does not wrap the error of AWS", err)
			}
		})
	}
}

func TestClassifiedErrorsKeepTheirClass(t *testing.T) {
	if err := explainError("x", nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	first := movedError("the desired size is 2 now")
	if err := explainError("x", fmt.Errorf("y: %w", first)); !strings.HasPrefix(err.Error(), "y: ") {
		t.Errorf("an error with an outcome was classified again: %v", err)
	}
}

// TestCredentialErrorsAreShortened checks that the error of the credential chain does not contain its failed requests.
func TestCredentialErrorsAreShortened(t *testing.T) {
	long := errors.New("failed to refresh cached credentials, no EC2 IMDS role found, operation error ec2imds: GetMetadata, request canceled")
	err := shortenCredentialError(long)
	if got, want := err.Error(), "failed to refresh cached credentials, no EC2 IMDS role found; -v 4 shows more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(err, long) {
		t.Error("the shortened error does not wrap the original error")
	}
	if got := shortenCredentialError(errors.New("no profile")).Error(); got != "no profile" {
		t.Errorf("an error without requests is changed to %q", got)
	}
}
