package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/credentials/ssocreds"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// apiError is an error of AWS with a readable text. It wraps the original error.
type apiError struct {
	text string
	err  error
}

func (a *apiError) Error() string { return a.text }
func (a *apiError) Unwrap() error { return a.err }

// explainError converts an error of the SDK to a *cloud.Error. The text is one line: what was being done, what AWS answered,
// and the remedy. explainError returns nil for nil, and a *cloud.Error unchanged.
func explainError(doing string, err error) error {
	if _, sorted := errors.AsType[*cloud.Error](err); err == nil || sorted {
		return err
	}
	outcome, cause, remedy := classifyError(err)
	text := doing + ": " + cause
	if remedy != "" {
		text += ": " + remedy
	}
	return &cloud.Error{Outcome: outcome, Err: &apiError{text: text, err: err}}
}

// movedError returns the error for an action that does not fit the group any more, because the group has changed since the
// decision.
func movedError(format string, args ...any) error {
	return &cloud.Error{Outcome: nodegroup.OutcomeMoved, Err: fmt.Errorf(format, args...)}
}

// fatalError returns the error for an action that can never succeed.
func fatalError(format string, args ...any) error {
	return &cloud.Error{Outcome: nodegroup.OutcomeFatal, Err: fmt.Errorf(format, args...)}
}

// classifyError returns the outcome of an error, its cause in words, and the remedy, "" if the user
// can only wait.
func classifyError(err error) (outcome nodegroup.Outcome, cause, remedy string) {
	var api smithy.APIError
	var no refusedError
	switch {
	case errors.As(err, &no):
		return nodegroup.OutcomeFatal, no.Error(), ""
	case lacksCredentials(err):
		return nodegroup.OutcomeFatal, "no AWS credentials found (" + causeText(err) + ")", remedySignIn
	case errors.As(err, &api):
		return classifyAPIError(api, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nodegroup.OutcomeUnclear, "no answer from AWS in time", ""
	case wasNeverSent(err):
		return nodegroup.OutcomeLater, causeText(err), ""
	case isInvalidInput(err):
		return nodegroup.OutcomeFatal, causeText(err), "report this as a bug"
	default:
		return nodegroup.OutcomeUnclear, causeText(err), ""
	}
}

const remedySignIn = "sign in with aws sso login or aws configure, or set AWS_PROFILE"

// lacksCredentials reports whether the request could not be signed because there are no valid credentials. The SDK has no error
// type for this case (service auth.go: "get identity: %w"). Some credentials are renewed by a request of their own. If that
// request fails because of the network or the server, lacksCredentials returns false.
func lacksCredentials(err error) bool {
	if _, ended := errors.AsType[*ssocreds.InvalidTokenError](err); ended {
		return true
	}
	if op, ok := errors.AsType[*smithy.OperationError](err); !ok || !strings.HasPrefix(op.Err.Error(), "get identity: ") {
		return false
	}
	if _, network := errors.AsType[*net.OpError](err); network || wasNeverSent(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	api, answered := errors.AsType[smithy.APIError](err)
	if !answered {
		return true
	}
	outcome, _, _ := classifyAPIError(api, err)
	return outcome == nodegroup.OutcomeFatal
}

// wasNeverSent reports whether the request did not reach a server, because the host name was not found or the connection
// failed.
func wasNeverSent(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	return errors.As(err, &dns) || errors.As(err, &op) && op.Op == "dial"
}

func isInvalidInput(err error) bool {
	var params *smithy.InvalidParamsError
	var serial *smithy.SerializationError
	return errors.As(err, &params) || errors.As(err, &serial)
}

// causeText returns the cause of an error as one line, without the SDK's text around it.
func causeText(err error) string {
	if network, ok := errors.AsType[*net.OpError](err); ok {
		err = network
	} else if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		err = op.Err
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// answerRule maps an answer of AWS to an outcome. The rule matches an answer if codes contains its code and its message, in
// lower case, contains says. If codes is empty, the rule matches any code.
type answerRule struct {
	codes   []string
	says    string
	outcome nodegroup.Outcome
	remedy  string
}

func (r answerRule) matchesAnswer(code, message string) bool {
	return (len(r.codes) == 0 || slices.Contains(r.codes, code)) && strings.Contains(strings.ToLower(message), r.says)
}

// answerRules are tried in order; the first match decides. Codes: the errors listed by the API
// references of EC2 Auto Scaling, EC2, EKS and STS, and the common errors of the query protocol.
func answerRules() []answerRule {
	return []answerRule{
		{codes: throttleCodes(), outcome: nodegroup.OutcomeLater},
		// AWS refuses these requests while another operation is running. The request had no effect. The status is HTTP 400 or
		// 500, so the SDK retries only some of these requests.
		{codes: []string{"ScalingActivityInProgress", "ResourceContention", "IdempotentCallInProgress", "ConcurrentTagAccess"}, outcome: nodegroup.OutcomeLater},
		{
			codes:   expiredCredentialCodes(),
			outcome: nodegroup.OutcomeFatal, remedy: "the credentials have expired: " + remedySignIn,
		},
		{
			codes: []string{
				"InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure", "SignatureDoesNotMatch", "IncompleteSignature",
				"InvalidAccessKeyId", "MissingAuthenticationToken", "OptInRequired",
			},
			outcome: nodegroup.OutcomeFatal, remedy: "check the credentials, the region and this machine's clock: " + remedySignIn,
		},
		// Real messages: "Instance Id not found - No managed instance found for instance ID i-…"
		// (keikoproj/upgrade-manager#25), "The instance i-… is not part of Auto Scaling group …"
		// (reproio/ecs_deploy#56), "AutoScalingGroup name not found - …".
		{codes: []string{"InvalidInstanceID.NotFound"}, outcome: nodegroup.OutcomeMoved},
		{codes: []string{"ValidationError"}, says: "no managed instance found", outcome: nodegroup.OutcomeMoved},
		{codes: []string{"ValidationError"}, says: "instance id not found", outcome: nodegroup.OutcomeMoved},
		{codes: []string{"ValidationError"}, says: "is not part of auto scaling group", outcome: nodegroup.OutcomeMoved},
		{codes: []string{"ValidationError"}, says: "autoscalinggroup name not found", outcome: nodegroup.OutcomeMoved},
		// The maximum was lowered since the launch was decided on.
		{codes: []string{"ValidationError"}, says: "above max value", outcome: nodegroup.OutcomeMoved},
		// The termination would shrink the group below its minimum. Package upgrade requests it again without shrinking.
		{codes: []string{"ValidationError"}, says: "group's min size", outcome: nodegroup.OutcomeExhausted},
		// EC2 may take a moment to know a version that was just created.
		{says: "could not find the specified version", outcome: nodegroup.OutcomeLater},
		// Another update of the node group is running, or the node group was deleted. The next observation shows which of the
		// two is true. Real message: "Nodegroup cannot be updated as it is currently not in Active State".
		{codes: []string{"ResourceInUseException", "ResourceNotFoundException"}, outcome: nodegroup.OutcomeMoved},
		{codes: []string{"InvalidRequestException"}, says: "not in active state", outcome: nodegroup.OutcomeMoved},
		{codes: exhaustedCodes(), outcome: nodegroup.OutcomeExhausted},
		{
			codes: []string{"InstanceRefreshInProgress"}, outcome: nodegroup.OutcomeFatal,
			remedy: "wait for the instance refresh, or cancel it with aws autoscaling cancel-instance-refresh",
		},
		{
			codes: []string{"IdempotentParameterMismatch", "IdempotentParameterMismatchException"}, outcome: nodegroup.OutcomeFatal,
			remedy: "another request was sent with the same token: start the upgrade again",
		},
		{codes: []string{"InternalFailure", "InternalError", "ServiceUnavailable", "Unavailable", "RequestTimeout"}, outcome: nodegroup.OutcomeUnclear},
	}
}

// expiredCredentialCodes lists the codes for an expired session of the credentials. RequestExpired is EC2's.
func expiredCredentialCodes() []string {
	return []string{"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
}

// throttleCodes lists the codes for requests above the rate limit. The documentation of EC2 Auto
// Scaling has RateExceeded, and the SDK's own list does not (aws/retry/standard.go).
func throttleCodes() []string {
	return []string{
		rateExceeded, "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded", "RequestThrottled",
		"RequestThrottledException", "TooManyRequestsException", "EC2ThrottledException", "SlowDown",
	}
}

const rateExceeded = "RateExceeded"

// exhaustedCodes lists the codes for a lack of machines or quota (EC2 API, error codes).
func exhaustedCodes() []string {
	return []string{
		"InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity", "InsufficientCapacity",
		"InsufficientCapacityOnHost", "ReservationCapacityExceeded", "UnfulfillableCapacity", "InstanceLimitExceeded", "VcpuLimitExceeded",
		"MaxSpotInstanceCountExceeded", "SpotMaxPriceTooLow", "InsufficientFreeAddressesInSubnet", "InsufficientAddressCapacity",
		"AddressLimitExceeded", "NetworkInterfaceLimitExceeded", "VolumeLimitExceeded", "MaxIOPSLimitExceeded",
	}
}

// classifyAPIError returns the outcome of an error answer from AWS, its cause in words and the remedy. If no rule matches, a
// client error is fatal and a server error is unclear.
func classifyAPIError(api smithy.APIError, err error) (outcome nodegroup.Outcome, cause, remedy string) {
	code, message := api.ErrorCode(), strings.Join(strings.Fields(api.ErrorMessage()), " ")
	cause = strings.TrimRight(message, ". ") + " (" + code + ")"
	if message == "" {
		cause = code
	}
	if isDeniedCode(code) {
		return nodegroup.OutcomeFatal, cause, "allow these credentials the IAM action " + deniedIAMAction(message, err)
	}
	for _, r := range answerRules() {
		if r.matchesAnswer(code, message) {
			return r.outcome, cause, r.remedy
		}
	}
	if isServerFault(api, err) {
		return nodegroup.OutcomeUnclear, cause, ""
	}
	return nodegroup.OutcomeFatal, cause, ""
}

func isDeniedCode(code string) bool {
	return code == "AccessDenied" || code == "AccessDeniedException" || code == "UnauthorizedOperation"
}

func isServerFault(api smithy.APIError, err error) bool {
	var response interface{ HTTPStatusCode() int }
	return api.ErrorFault() == smithy.FaultServer || errors.As(err, &response) && response.HTTPStatusCode() >= 500
}

// deniedActionPattern matches action and resource in "User: arn:… is not authorized to perform: ec2:RunInstances on resource:
// arn:… because …". The action may differ from the request. For example, pointing a group at a template needs ec2:RunInstances.
var deniedActionPattern = cloud.CompileLater(`not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)(?: on resource: (arn:\S+))?`)

// deniedIAMAction returns the IAM action that was denied, with the resource if AWS names the resource.
func deniedIAMAction(message string, err error) string {
	if found := deniedActionPattern().FindStringSubmatch(message); found != nil && found[2] != "" {
		return found[1] + " on " + found[2]
	} else if found != nil {
		return found[1]
	}
	if strings.Contains(message, "not authorized to use launch template") {
		// Auto Scaling's message names no action (its user guide, "Control Amazon EC2 launch
		// template usage in Auto Scaling groups").
		return "ec2:RunInstances and the actions that its launch template needs"
	}
	op, ok := errors.AsType[*smithy.OperationError](err)
	if !ok {
		return "that was denied"
	}
	service := strings.TrimSuffix(strings.ToLower(strings.ReplaceAll(op.ServiceID, " ", "")), "v2") // IAM's name of Elastic Load Balancing has no version
	return service + ":" + op.OperationName
}
