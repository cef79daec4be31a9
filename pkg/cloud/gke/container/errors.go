package container

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/oauth2"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Class is the kind of an error.
type Class string

// All classes.
const (
	// ClassNotFound means that the API does not know the object.
	ClassNotFound Class = "not found"
	// ClassConflict means that the object has changed: its etag is another one.
	ClassConflict Class = "conflict"
	// ClassBusy means that another operation of the cluster is running. The request had no effect.
	ClassBusy Class = "busy"
	// ClassUnauthenticated means that there is no valid access token.
	ClassUnauthenticated Class = "unauthenticated"
	// ClassDenied means that the credentials lack a permission or a scope, or that the API is not enabled. See Error.Reason.
	ClassDenied Class = "denied"
	// ClassThrottled means that too many requests were sent. The request had no effect.
	ClassThrottled Class = "throttled"
	// ClassQuota means that the project's quota of machines, disks or addresses is used up.
	ClassQuota Class = "quota"
	// ClassUnavailable means that there was no answer, or that the server failed.
	ClassUnavailable Class = "unavailable"
	// ClassInvalid means that the API will never accept the request.
	ClassInvalid Class = "invalid"
	// ClassUnexpected means that the answer is not one of the API, for example because a proxy answered.
	ClassUnexpected Class = "unexpected"
)

// The reasons of ClassDenied that are not about a permission.
const (
	ReasonScope           = "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
	ReasonServiceDisabled = "SERVICE_DISABLED"
	ReasonQuotaProject    = "USER_PROJECT_DENIED"
)

// Error is a request that failed. Its text is one line: what was being done, what failed, and the remedy. It contains no token.
type Error struct {
	Class Class
	// Code is the HTTP status of the answer, or 0 without an answer.
	Code int
	// Status is the API's name of the error: "ABORTED". It may be empty.
	Status string
	// Reason is more exact than Status: "SERVICE_DISABLED", "notFound". It may be empty.
	Reason string
	// Message is the API's text in one line. It may be empty.
	Message string
	// Permission is the permission that is missing: "container.clusters.update". It may be empty.
	Permission string
	// Operation is the running operation of ClassBusy. It is empty if the API does not name it.
	Operation string
	// RetryAfter is the time that the server asks to wait, or 0.
	RetryAfter time.Duration

	text string
	// err is an error of the context or of the connection, or nil. Errors of credentials may contain secrets, so they are dropped.
	err error
	// sent means that the server may have the request.
	sent bool
	// temporary means that the same request may succeed soon.
	temporary bool
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap returns the error of the context or of the connection, or nil.
func (e *Error) Unwrap() error { return e.err }

// ClassOf returns the class of an error of a Client, or "" for other errors.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return ""
}

// Outcome returns what the error means for an action that changes the cluster. If the request may have had its effect, it is
// OutcomeUnclear.
func (e *Error) Outcome() nodegroup.Outcome {
	switch e.Class {
	case ClassNotFound, ClassConflict:
		return nodegroup.OutcomeMoved
	case ClassBusy, ClassThrottled:
		return nodegroup.OutcomeLater
	case ClassQuota:
		return nodegroup.OutcomeExhausted
	case ClassUnavailable, ClassUnexpected:
		switch {
		case e.sent:
			return nodegroup.OutcomeUnclear
		case e.Class == ClassUnavailable:
			return nodegroup.OutcomeLater
		}
	}
	return nodegroup.OutcomeFatal
}

// explainFailure returns the error for a request without an answer.
func (c *Client) explainFailure(ctx context.Context, r request, reached *progress, err error) *Error {
	failure := &Error{Class: ClassUnavailable, sent: reached.sent.Load(), temporary: true}
	var cause, remedy string
	var certificate *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		failure.err, failure.temporary = ctx.Err(), false
		cause = "no answer from the GKE API in time"
		if !reached.signed.Load() {
			cause = "no credentials in time"
		}
	case errors.Is(err, errNoToken), errors.Is(err, errOtherHost):
		failure.Class, failure.temporary = ClassUnauthenticated, false
		cause, remedy = causeText(err), c.remedy
	case !reached.signed.Load():
		c.explainCredentials(failure, err)
		cause = failure.text
		if failure.Class == ClassUnauthenticated {
			remedy = c.remedy
		}
	case errors.Is(err, errTooLarge):
		failure.Class, failure.temporary = ClassUnexpected, false
		cause, remedy = "the answer is larger than "+sizeText(c.limits.size), remedyProxy
	case errors.As(err, &certificate):
		failure.Class, failure.temporary, failure.err = ClassUnexpected, false, err
		cause, remedy = causeText(err), remedyProxy
	case errors.Is(err, context.DeadlineExceeded):
		failure.err = err
		cause = "no answer from the GKE API within " + c.limits.answer.String()
	default:
		failure.err = err
		cause = causeText(err)
	}
	failure.text = redact(joinText(r.doing, cause, remedy), reached.secret())
	return failure
}

const remedyProxy = "check HTTPS_PROXY and " + EndpointVariable

// explainCredentials sets the class and the text of an error of the credentials.
func (c *Client) explainCredentials(failure *Error, err error) {
	refused, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case answered && refused.Response != nil && (refused.Response.StatusCode >= 500 || refused.Response.StatusCode == http.StatusTooManyRequests):
		failure.text = "renewing the access token: the token server answered " + strconv.Itoa(refused.Response.StatusCode)
		return
	case answered: // its text may contain the whole answer
		failure.text = "renewing the access token: it was refused"
		if code := oneLine(refused.ErrorCode); code != "" {
			failure.text += " (" + code + ")"
		}
	case isNetworkError(err):
		failure.text = "renewing the access token: " + causeText(err)
		return
	default:
		first, _, _ := strings.Cut(causeOf(err).Error(), "\n") // client-go adds several lines of advice
		failure.text = oneLine(first)
	}
	failure.Class, failure.temporary = ClassUnauthenticated, false
}

// isNetworkError reports whether a server was not reached.
func isNetworkError(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) || errors.As(err, &dns) || errors.Is(err, context.DeadlineExceeded)
}

// explainAnswer returns the error for an answer with another status than 200, or without a JSON object.
func (c *Client) explainAnswer(r request, reached *progress, got response) *Error {
	if parsed, ok := parseAPIError(got.body); ok {
		return c.explainAPIError(r, reached, got, parsed)
	}
	if got.StatusCode/100 == 3 {
		cause := "the server redirected the request, and access tokens are not sent to other addresses"
		if to, err := url.Parse(got.Header.Get("Location")); err == nil && to.Hostname() != "" {
			cause = "the server redirected the request to " + to.Hostname() + ", and access tokens are not sent to other hosts"
		}
		return unexpectedError(r, reached, cause)
	}
	failure := unexpectedError(r, reached, "the server answered HTTP "+strconv.Itoa(got.StatusCode)+" with "+contentText(got.Header)+" that is not from the GKE API")
	failure.Code, failure.RetryAfter = got.StatusCode, parseRetryAfter(got.Header.Get("Retry-After"), c.now())
	switch {
	case got.StatusCode == http.StatusTooManyRequests:
		failure.Class, failure.temporary = ClassThrottled, true
	case got.StatusCode >= 500:
		failure.Class, failure.temporary = ClassUnavailable, isTemporary(got.StatusCode)
	}
	return failure
}

// contentText returns the type of an answer's content.
func contentText(header http.Header) string {
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if regexp.MustCompile(`^[a-z]+/[a-z0-9.+-]{1,60}$`).MatchString(kind) {
		return kind
	}
	return "content"
}

func unexpectedError(r request, reached *progress, cause string) *Error {
	return &Error{Class: ClassUnexpected, sent: true, text: redact(joinText(r.doing, cause, remedyProxy), reached.secret())}
}

// apiError is an error as the API writes it.
type apiError struct {
	Code    int               `json:"code"`
	Status  string            `json:"status"`
	Message string            `json:"message"`
	Details []json.RawMessage `json:"details"`
	Errors  []struct {
		Reason string `json:"reason"`
	} `json:"errors"`
}

// parseAPIError returns the error of an answer. ok is false if the answer has none.
func parseAPIError(body []byte) (parsed apiError, ok bool) {
	var answer struct {
		Error *apiError `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Error == nil {
		return apiError{}, false
	}
	return *answer.Error, answer.Error.Code != 0 || answer.Error.Status != "" || answer.Error.Message != ""
}

// errorDetail is a detail of an API error: google.rpc.ErrorInfo or google.rpc.RetryInfo.
type errorDetail struct {
	Reason     string         `json:"reason"`
	Metadata   map[string]any `json:"metadata"`
	RetryDelay *Duration      `json:"retryDelay"`
}

// summarizeDetails returns all details as one. Details of other kinds and forms are skipped.
func (a apiError) summarizeDetails() (all errorDetail) {
	for _, raw := range a.Details {
		var one errorDetail
		if json.Unmarshal(raw, &one) != nil {
			continue
		}
		if one.Reason != "" && all.Reason == "" {
			all.Reason, all.Metadata = one.Reason, one.Metadata
		}
		if one.RetryDelay != nil {
			all.RetryDelay = one.RetryDelay
		}
	}
	for _, legacy := range a.Errors {
		if all.Reason == "" {
			all.Reason = legacy.Reason
		}
	}
	return all
}

// explainAPIError returns the error for an error answer of the API.
func (c *Client) explainAPIError(r request, reached *progress, got response, parsed apiError) *Error {
	detail := parsed.summarizeDetails()
	secret := reached.secret()
	failure := &Error{
		Code: got.StatusCode, Status: redact(oneLine(parsed.Status), secret), Reason: redact(oneLine(detail.Reason), secret),
		Message: redact(strings.TrimRight(oneLine(parsed.Message), ". "), secret), sent: true,
		RetryAfter: parseRetryAfter(got.Header.Get("Retry-After"), c.now()),
	}
	if got.StatusCode == http.StatusOK { // an error in the body of a success
		failure.Code = parsed.Code
	}
	if detail.RetryDelay != nil && failure.RetryAfter == 0 {
		failure.RetryAfter = max(0, time.Duration(*detail.RetryDelay))
	}
	failure.Class = failure.classify()
	failure.temporary = failure.Class == ClassThrottled || failure.Class == ClassUnavailable && isTemporary(failure.Code)
	if found := permissionPattern().FindString(failure.Message); failure.Class == ClassDenied {
		failure.Permission = found
		if permission, ok := detail.Metadata["permission"].(string); ok && found == "" {
			failure.Permission = permissionPattern().FindString(permission)
		}
	}
	if failure.Class == ClassBusy {
		failure.Operation = operationPattern().FindString(failure.Message)
	}
	name := failure.Status
	if failure.Class == ClassDenied && failure.Reason != "" || name == "" {
		name = failure.Reason
	}
	if name == "" {
		name = "HTTP " + strconv.Itoa(failure.Code)
	}
	cause := name
	if failure.Message != "" {
		cause = failure.Message + " (" + name + ")"
	}
	failure.text = redact(joinText(r.doing, cause, c.remedyFor(failure)), secret)
	return failure
}

var (
	permissionPattern = compileLater(`\bcontainer\.[a-zA-Z]+\.[a-zA-Z]+\b`)
	operationPattern  = compileLater(`\boperation-[0-9a-z-]*[0-9a-z]`)
)

func isTemporary(code int) bool {
	return slices.Contains([]int{http.StatusTooManyRequests, 500, 502, 503, 504}, code)
}

// busyTexts are parts of the messages with which GKE refuses a request while another operation runs. The HTTP status is 400.
// Messages seen: "Cluster is running incompatible operation operation-…", "Operation operation-… is currently upgrading cluster
// c. Please wait and try again once it is done.", "Cluster is being updated", "Master is being updated", "Cluster is currently being
// created, deleted, updated or repaired and cannot be updated".
func busyTexts() []string {
	return []string{"incompatible operation", "is currently upgrading", "is currently creating", "is currently being created", "is being updated", "try again once it is done"}
}

// reasonBusy is the reason of answers while another operation runs.
const reasonBusy = "CLUSTER_ALREADY_HAS_OPERATION"

// classify returns the class of an error answer.
func (e *Error) classify() Class {
	if slices.Contains([]string{"RATE_LIMIT_EXCEEDED", "rateLimitExceeded", "userRateLimitExceeded"}, e.Reason) {
		return ClassThrottled
	}
	if e.isAboutQuota() {
		return ClassQuota
	}
	if class, ok := codeClasses()[e.Code]; ok {
		return class
	}
	if class, ok := statusClasses()[e.Status]; ok {
		return class
	}
	message := strings.ToLower(e.Message)
	switch {
	case e.Code >= 500:
		return ClassUnavailable
	case e.Reason == reasonBusy, slices.ContainsFunc(busyTexts(), func(part string) bool { return strings.Contains(message, part) }):
		return ClassBusy
	case e.Status == "RESOURCE_EXHAUSTED":
		return ClassQuota
	}
	return ClassInvalid
}

// isAboutQuota reports whether a quota of machines, disks or addresses is used up. GKE answers 403 then: "Insufficient regional
// quota to satisfy request: resource …". Answers about a quota project are about permissions.
func (e *Error) isAboutQuota() bool {
	message := strings.ToLower(e.Message)
	switch {
	case !strings.Contains(message, "quota"), e.Reason == ReasonServiceDisabled, e.Reason == ReasonQuotaProject:
		return false
	}
	return e.Code == http.StatusForbidden || strings.Contains(message, "insufficient")
}

// codeClasses maps the HTTP statuses that decide the class.
func codeClasses() map[int]Class {
	return map[int]Class{
		http.StatusUnauthorized: ClassUnauthenticated, http.StatusForbidden: ClassDenied, http.StatusNotFound: ClassNotFound,
		http.StatusConflict: ClassConflict, http.StatusPreconditionFailed: ClassConflict, http.StatusTooManyRequests: ClassThrottled,
	}
}

// statusClasses maps the names of errors that decide the class if the HTTP status does not.
func statusClasses() map[string]Class {
	return map[string]Class{
		"UNAUTHENTICATED": ClassUnauthenticated, "PERMISSION_DENIED": ClassDenied, "NOT_FOUND": ClassNotFound,
		"ABORTED": ClassConflict, "UNAVAILABLE": ClassUnavailable,
	}
}

// remedyFor returns what the user can do about an error answer, or "".
func (c *Client) remedyFor(e *Error) string {
	switch e.Class {
	case ClassUnauthenticated:
		return c.remedy
	case ClassBusy:
		if e.Operation != "" {
			return "wait for " + e.Operation + ", or cancel it with gcloud container operations cancel"
		}
		return "wait for the cluster's running operation, or cancel it with gcloud container operations cancel"
	case ClassQuota:
		return "request a higher quota in the Google Cloud console"
	case ClassDenied:
		switch {
		case e.Reason == ReasonScope || e.Reason == "insufficientPermissions":
			return "use credentials with the scope " + Scope + ": " + c.remedy
		case e.Reason == ReasonServiceDisabled || e.Reason == "accessNotConfigured":
			return "enable the API with gcloud services enable container.googleapis.com, or set the quota project with gcloud auth application-default set-quota-project"
		case e.Reason == ReasonQuotaProject:
			return "set another quota project with gcloud auth application-default set-quota-project"
		case e.Permission != "":
			return "allow these credentials " + e.Permission
		}
		return "allow these credentials the request"
	}
	return ""
}

func joinText(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// causeOf returns an error without the method and URL that clients of net/http add.
func causeOf(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}

func causeText(err error) string { return oneLine(causeOf(err).Error()) }

// oneLine returns a text as one line without control characters, cut at 600 bytes.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	const longest = 600
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

// tokenPattern matches access tokens of Google, signed tokens, and the content of the header Authorization.
var tokenPattern = compileLater(`(?i)\bbearer\s+[^\s"']+|\bya29\.[\w.~+/-]+=*|\beyJ[\w-]+\.[\w-]+\.[\w-]*`)

// redact replaces the token, and all texts that look like one.
func redact(text, token string) string {
	if token != "" {
		text = strings.ReplaceAll(text, token, "[redacted]")
	}
	return tokenPattern().ReplaceAllString(text, "[redacted]")
}
