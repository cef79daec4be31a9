package awscloud

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// operation is one action of a service that speaks the query protocol.
type operation struct {
	mutating bool
	decode   func(url.Values) (handler, error)
}

// readOperation returns an operation that calls f while it holds the region's lock. f only reads.
func readOperation[In, Out any](f func(*region, *In) (*Out, error)) operation {
	return operation{decode: func(form url.Values) (handler, error) {
		in := new(In)
		return func(_ context.Context, r *region) (any, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return f(r, in)
		}, decodeQuery(form, in)
	}}
}

// changeOperation returns an operation that calls f in region.update. f changes the region.
func changeOperation[In, Out any](f func(*region, *In, time.Time) (*Out, error)) operation {
	return operation{mutating: true, decode: func(form url.Values) (handler, error) {
		in := new(In)
		return func(_ context.Context, r *region) (any, error) {
			var out *Out
			err := r.update(func(now time.Time) (err error) {
				out, err = f(r, in, now)
				return err
			})
			return out, err
		}, decodeQuery(form, in)
	}}
}

// queryProtocol is the AWS query protocol: parameters in a form, answers in XML.
type queryProtocol struct {
	namespace  string
	operations map[string]operation
}

func (p queryProtocol) parse(_ *http.Request, body []byte) (call, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return call{}, clientError("MalformedQueryString", "The query string is malformed: %v", err)
	}
	c := call{operation: form.Get("Action"), params: firstValues(form)}
	op, ok := p.operations[c.operation]
	if !ok {
		return c, clientError("InvalidAction", "Could not find operation %s for version %s", c.operation, form.Get("Version"))
	}
	c.mutating = op.mutating
	if c.run, err = op.decode(form); err != nil {
		return c, validationError("%v", err)
	}
	return c, nil
}

func (p queryProtocol) result(op, requestID string, out any) (response, error) {
	return response{contentType: "text/xml", body: encodeQuery(op, p.namespace, requestID, out)}, nil
}

func (p queryProtocol) fault(e *apiError, requestID string) response {
	return response{contentType: "text/xml", body: queryFault(e, p.namespace, requestID)}
}

// firstValues returns the first value of each key of a form, without Action and Version.
func firstValues(form url.Values) map[string]string {
	out := map[string]string{}
	for k := range form {
		if k != "Action" && k != "Version" {
			out[k] = form.Get(k)
		}
	}
	return out
}
