package awscloud

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
)

// Fault describes how the next calls of an operation fail.
type Fault struct {
	Service   string // autoscaling, ec2, eks, elasticloadbalancing, iam, ssm, sts; empty: any
	Operation string // empty: any
	Times     int    // number of calls that fail; 0 means one, a negative number means all until ClearFaults

	Code    string // error code of the answer; empty: the connection is closed without an answer
	Status  int    // HTTP status; 0: the status that AWS sends with the code
	Message string // empty: the message that AWS sends with the code

	// AfterEffect makes the call take effect before it fails: the change is made, but the client gets an error.
	AfterEffect bool
}

func (f Fault) matches(service, operation string) bool {
	return (f.Service == "" || f.Service == service) && (f.Operation == "" || f.Operation == operation)
}

// answer returns the error that the client gets.
func (f Fault) answer() *apiError {
	status, message := usualStatusAndMessage(f.Code)
	return &apiError{Code: f.Code, Message: cmp.Or(f.Message, message), Status: cmp.Or(f.Status, status)}
}

// usualStatusAndMessage returns the status and the message that AWS sends with a code.
func usualStatusAndMessage(code string) (status int, message string) {
	switch code {
	case "Throttling", "ThrottlingException", "RateExceeded":
		return http.StatusBadRequest, "Rate exceeded"
	case "RequestLimitExceeded":
		return http.StatusServiceUnavailable, "Request limit exceeded."
	case "ServiceUnavailable", "Unavailable":
		return http.StatusServiceUnavailable, "The service is unavailable. Please try again shortly."
	case "InternalFailure", "InternalError":
		return http.StatusInternalServerError, "An internal error has occurred."
	case "ResourceContention":
		return http.StatusInternalServerError, "You already have a pending update to an Amazon EC2 Auto Scaling resource."
	case "ScalingActivityInProgress":
		return http.StatusBadRequest, "Scaling activity 0ea5f0da-97c6-1d64-5127-43e061c16819 is in progress and blocks this action"
	case "AccessDenied", "UnauthorizedOperation":
		return http.StatusForbidden, "You are not authorized to perform this operation."
	}
	return http.StatusBadRequest, "The request failed."
}

// faultPlan stores the pending faults, in the order in which they were added.
type faultPlan struct {
	mu      sync.Mutex // guards the fields below
	pending []Fault
	problem CredentialProblem
}

// takeFault returns the planned fault for a call and counts its use. ok is false if no fault is planned.
func (p *faultPlan) takeFault(service, operation string) (f Fault, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.pending, func(f Fault) bool { return f.matches(service, operation) })
	if i < 0 {
		return Fault{}, false
	}
	f = p.pending[i]
	switch {
	case f.Times == 1 || f.Times == 0:
		p.pending = slices.Delete(p.pending, i, i+1)
	case f.Times > 1:
		p.pending[i].Times--
	}
	return f, true
}

// InjectFault makes the next calls that match f fail. Faults for the same operation are used in the order in which they were
// added.
func (c *Cloud) InjectFault(f Fault) {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.pending = append(c.faults.pending, f)
}

// ClearFaults removes all faults that are still pending.
func (c *Cloud) ClearFaults() {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.pending = nil
}

// CredentialProblem is the reason why AWS rejects the credentials of a request.
type CredentialProblem int

// The possible problems of credentials.
const (
	CredentialsFine    CredentialProblem = iota
	CredentialsInvalid                   // the key is unknown
	CredentialsExpired                   // the session has ended
)

// RejectCredentials makes every service reject all credentials from now on, or accept them again.
func (c *Cloud) RejectCredentials(p CredentialProblem) {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.problem = p
}

// credentialError returns the service's error for rejected credentials, or nil if credentials are accepted. The codes differ by
// service.
func (p *faultPlan) credentialError(service string) *apiError {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.problem == CredentialsFine {
		return nil
	}
	expired := p.problem == CredentialsExpired
	pick := func(code, expiredCode string, status int) *apiError {
		if expired {
			return &apiError{Code: expiredCode, Message: "The security token included in the request is expired", Status: status}
		}
		return &apiError{Code: code, Message: "The security token included in the request is invalid.", Status: status}
	}
	switch service {
	case "ec2":
		if expired {
			return clientError("RequestExpired", "Request has expired.")
		}
		return &apiError{Code: "AuthFailure", Message: "AWS was not able to validate the provided access credentials", Status: http.StatusUnauthorized}
	case "eks":
		return pick("UnrecognizedClientException", "ExpiredTokenException", http.StatusForbidden)
	case "ssm":
		return pick("UnrecognizedClientException", "ExpiredTokenException", http.StatusBadRequest)
	default:
		return pick("InvalidClientTokenId", "ExpiredToken", http.StatusForbidden)
	}
}
