package awscloud

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxBody is the maximum size of a request. The largest real one, a launch template, is below 64 KiB.
const maxBody = 1 << 20

// call is a decoded request with the function that carries it out.
type call struct {
	operation string
	mutating  bool
	params    map[string]string // as the client sent them
	run       handler
}

// handler carries out a request on a region. It gets the stand-in's context, so it continues when the client disconnects.
type handler func(context.Context, *region) (any, error)

// protocol is one of AWS's wire protocols, for one service.
type protocol interface {
	// parse decodes a request. If it fails, the returned call contains the operation if that is known.
	parse(req *http.Request, body []byte) (call, error)
	// result encodes the output of a call.
	result(operation, requestID string, out any) (response, error)
	// fault encodes an error.
	fault(e *apiError, requestID string) response
}

// response is an encoded answer.
type response struct {
	contentType string
	errorType   string // the error code for the header of the JSON protocols; else ""
	body        []byte
}

// services returns the protocol of each service, by the service's name in signatures.
func services() map[string]protocol {
	return map[string]protocol{
		"autoscaling":          queryProtocol{"http://autoscaling.amazonaws.com/doc/2011-01-01/", autoscalingOperations()},
		"sts":                  queryProtocol{"https://sts.amazonaws.com/doc/2011-06-15/", stsOperations()},
		"iam":                  queryProtocol{"https://iam.amazonaws.com/doc/2010-05-08/", iamOperations()},
		"elasticloadbalancing": queryProtocol{"http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/", elbOperations()},
		"ec2":                  ec2Protocol{ec2Operations()},
		"eks":                  eksProtocol{},
		"ssm":                  ssmProtocol{},
	}
}

// routes returns the handler for the requests of all services. Service and region of a request are read from the credential
// scope of its signature. With the real services, the host name contains them.
func (c *Cloud) routes() http.Handler {
	protocols := services()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := &exchange{cloud: c, w: w, id: c.newRequestID(), protocol: protocols["sts"]}
		x.rec = Request{Time: time.Now(), UserAgent: req.UserAgent()}
		service, place, ok := credentialScope(req.Header.Get("Authorization"))
		if !ok {
			x.refuse(&apiError{Code: "MissingAuthenticationToken", Message: "Request is missing Authentication Token", Status: http.StatusForbidden})
			return
		}
		x.rec.Service, x.rec.Region, x.key = service, place, accessKeyOf(req.Header.Get("Authorization"))
		if p, ok := protocols[service]; ok {
			x.protocol = p
			x.serve(req)
			return
		}
		x.refuse(notModelledError("the service %q", service))
	})
}

// exchange is one request that is being answered.
type exchange struct {
	cloud    *Cloud
	w        http.ResponseWriter
	protocol protocol
	id       string // the request ID
	key      string // the access key that signed it
	rec      Request
}

// serve carries out a request and applies the fault that InjectFault has planned for it.
func (x *exchange) serve(req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(x.w, req.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away in the middle of its request
	}
	// smithy-go 1.28.8 closes the connection if an answer arrives before it has sent the whole request (WriteTo of a closed
	// request body returns io.EOF). Real servers are never that fast, so wait.
	_ = sleep(x.cloud.ctx, x.cloud.opts.Latency)
	todo, err := x.protocol.parse(req, body)
	x.rec.Operation, x.rec.Mutating, x.rec.Params = todo.operation, todo.mutating, todo.params
	if e := x.cloud.faults.credentialError(x.rec.Service); e != nil {
		x.refuse(e)
		return
	}
	if err != nil {
		x.finish(nil, err)
		return
	}
	if e := x.cloud.callers.authorize(x.key, x.rec, todo, x.cloud.resourceNames(x.rec.Region)); e != nil {
		x.refuse(e)
		return
	}
	fault, faulty := x.cloud.faults.takeFault(x.rec.Service, x.rec.Operation)
	var out any
	if !faulty || fault.AfterEffect {
		ctx := withCaller(x.cloud.ctx, x.cloud.callers, x.cloud.callers.callerOf(x.key))
		out, err = todo.run(ctx, x.cloud.regionFor(x.rec.Region))
	}
	switch {
	case faulty && fault.Code == "":
		x.cloud.log.add(x.rec)
		panic(http.ErrAbortHandler) // closes the connection without an answer
	case faulty:
		x.refuse(fault.answer())
	default:
		x.finish(out, err)
	}
}

// finish sends the result or the error of the call.
func (x *exchange) finish(out any, err error) {
	var res response
	if err == nil {
		res, err = x.protocol.result(x.rec.Operation, x.id, out)
	}
	if err == nil {
		x.write(http.StatusOK, "", res)
		return
	}
	x.refuse(asAPIError(err))
}

func (x *exchange) refuse(e *apiError) { x.write(e.Status, e.Code, x.protocol.fault(e, x.id)) }

func (x *exchange) write(status int, code string, res response) {
	x.rec.Status, x.rec.Code = status, code
	x.cloud.log.add(x.rec)
	x.w.Header().Set("Content-Type", res.contentType)
	x.w.Header().Set("X-Amzn-Requestid", x.id)
	if res.errorType != "" {
		x.w.Header().Set("X-Amzn-Errortype", res.errorType)
	}
	x.w.WriteHeader(status)
	_, _ = x.w.Write(res.body) // a client that has disconnected needs no answer
}

func (c *Cloud) newRequestID() string {
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	return c.home.uuid()
}

// regionFor returns the stand-in's region. For any other name it returns an empty region.
func (c *Cloud) regionFor(name string) *region {
	if name == c.opts.Region {
		return c.home
	}
	return newRegion(c.opts, newHostQueue(nil, 0), time.Now())
}

// credentialScope reads service and region from the Authorization header, without verifying its signature: "AWS4-HMAC-SHA256
// Credential=AKID/20261121/us-east-1/autoscaling/aws4_request, …".
func credentialScope(authorization string) (service, region string, ok bool) {
	rest, ok := strings.CutPrefix(authorization, "AWS4-HMAC-SHA256 Credential=")
	if !ok {
		return "", "", false
	}
	scope, _, _ := strings.Cut(rest, ",")
	parts := strings.Split(strings.TrimSpace(scope), "/")
	if len(parts) != 5 || parts[4] != "aws4_request" || parts[2] == "" {
		return "", "", false
	}
	return parts[3], parts[2], true
}
