package hostile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// maxBody is the maximum size of a request, as in the stand-in.
	maxBody = 1 << 20
	// latency is the delay of a false answer. smithy-go closes a connection if an answer arrives before it has sent the whole
	// request.
	latency = 2 * time.Millisecond
)

// AWS starts a front before the AWS stand-in at the address. It runs until the context ends or Close. Predicates on its requests
// may use FormValue, because forms are already parsed. It returns an error if the address is invalid.
func AWS(ctx context.Context, address string, plan Plan) (*Front, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cloud to stand before: %w", err)
	}
	f := open(api{variable: "AWS_ENDPOINT_URL", key: operationOf, write: Changes, watch: func(*http.Request) bool { return false }, answer: answerFault}, target,
		&http.Transport{DisableCompression: true}, plan)
	f.server.Start()
	f.URL = f.server.URL
	context.AfterFunc(ctx, f.Close)
	return f, nil
}

// operationOf returns the operation and parses the form.
func operationOf(r *http.Request) (string, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return "", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Form = r.URL.Query()
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		if r.Form, err = url.ParseQuery(string(body)); err != nil {
			return "", err
		}
	}
	return Operation(r), nil
}

// Operation returns the operation of a request to AWS: "LaunchInstances", or verb and path if the service has no other names.
func Operation(r *http.Request) string {
	if action := r.FormValue("Action"); action != "" {
		return action
	}
	if _, operation, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok { // AmazonSSM.GetParameter
		return operation
	}
	return r.Method + " " + r.URL.Path
}

// Changes reports whether a request to AWS may change something. It depends on the operation's name: AWS has no other sign.
func Changes(r *http.Request) bool {
	if dry, err := strconv.ParseBool(r.FormValue("DryRun")); err == nil && dry {
		return false
	}
	for _, reads := range []string{"Describe", "Get", "List", "Search", http.MethodGet + " "} {
		if strings.HasPrefix(Operation(r), reads) {
			return false
		}
	}
	return true
}

// answerFault answers with the error of the service in the signature. AWS throttles with status 400.
func answerFault(w http.ResponseWriter, r *http.Request, h Harm) {
	pause(r.Context(), latency)
	called := service(r)
	code, status := faultOf(h.Status)
	if h.Status == SessionEnded {
		code, status = endedOf(called)
	}
	if h.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(h.RetryAfter/time.Second)))
	}
	const words = "Said by a hostile front."
	var body string
	switch called {
	case "ec2":
		w.Header().Set("Content-Type", "text/xml")
		body = fmt.Sprintf("<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>0</RequestID></Response>", code, words)
	case "eks", "ssm":
		w.Header().Set("Content-Type", "application/json")
		body = fmt.Sprintf(`{"__type":%q,"message":%q}`, code, words)
	default:
		w.Header().Set("Content-Type", "text/xml")
		body = fmt.Sprintf("<ErrorResponse><Error><Code>%s</Code><Message>%s</Message></Error><RequestId>0</RequestId></ErrorResponse>", code, words)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a client that has disconnected needs no answer
}

// faultOf returns AWS's error code for a status in the plan, and the status that AWS sends with this code.
func faultOf(wanted int) (code string, status int) {
	switch wanted {
	case http.StatusTooManyRequests:
		return "Throttling", http.StatusBadRequest
	case http.StatusUnauthorized:
		return "InvalidClientTokenId", http.StatusForbidden
	case http.StatusForbidden:
		return "AccessDenied", wanted
	case http.StatusConflict:
		return "ScalingActivityInProgress", http.StatusBadRequest
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "ServiceUnavailable", wanted
	default:
		return "InternalFailure", wanted
	}
}

// SessionEnded is the status of a Harm that is AWS's error for credentials whose session has ended. HTTP has no such status.
const SessionEnded = 419

// endedOf returns a service's error for such credentials: each service has its own code.
func endedOf(service string) (code string, status int) {
	switch service {
	case "ec2":
		return "RequestExpired", http.StatusBadRequest
	case "eks":
		return "ExpiredTokenException", http.StatusForbidden
	case "ssm":
		return "ExpiredTokenException", http.StatusBadRequest
	default:
		return "ExpiredToken", http.StatusForbidden
	}
}

// service returns the service in a request's signature: "… Credential=AKID/20261121/us-east-1/ec2/aws4_request, …".
func service(r *http.Request) string {
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	parts := strings.Split(scope, "/")
	if len(parts) < 5 {
		return ""
	}
	return parts[3]
}
