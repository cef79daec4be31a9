package aws

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/restjson"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// parameterClient sends GetParameters to SSM, the only request of this service that the program needs. It consists of the same
// middleware as the SDK's clients. The SDK's client for SSM is not used, because it builds the schemas of 150 operations when the
// program starts. That took a sixth of the time of "kubectl nodeupgrade --version".
type parameterClient struct {
	// options are the options of a client for Auto Scaling, which the SDK has resolved from the user's configuration. Its
	// EndpointResolverV2 also finds the endpoints of SSM, because the endpoints of both services have the same rules.
	options autoscaling.Options
	// customURL is the endpoint that the user has configured for SSM, or nil.
	customURL *string
	// clockSkew is the time by which the server's clock is ahead, in nanoseconds.
	clockSkew atomic.Int64
}

const (
	parameterService   = "SSM"
	parameterOperation = "GetParameters"
)

func newParameterClient(ctx context.Context, cfg *sdk.Config) *parameterClient {
	return &parameterClient{options: autoscaling.NewFromConfig(*cfg).Options(), customURL: customParameterURL(ctx, cfg)}
}

// customParameterURL returns the endpoint that the user has configured for SSM or for all services. It returns nil if the user
// has not configured any. The SDK's clients do the same in resolveBaseEndpoint.
func customParameterURL(ctx context.Context, cfg *sdk.Config) *string {
	_, forAll := os.LookupEnv("AWS_ENDPOINT_URL")
	_, forSSM := os.LookupEnv("AWS_ENDPOINT_URL_SSM")
	ignored, _, _ := config.GetIgnoreConfiguredEndpoints(ctx, cfg.ConfigSources)
	if forAll && !forSSM || ignored {
		return cfg.BaseEndpoint
	}
	for _, source := range cfg.ConfigSources {
		services, ok := source.(interface {
			GetServiceBaseEndpoint(ctx context.Context, service string) (string, bool, error)
		})
		if !ok {
			continue
		}
		if configured, found, err := services.GetServiceBaseEndpoint(ctx, parameterService); found && err == nil {
			return &configured
		}
	}
	return cfg.BaseEndpoint
}

// getParameters returns the values of parameters by name. It leaves out parameters that do not exist.
func (c *parameterClient) getParameters(ctx context.Context, names []string) (map[string]string, error) {
	stack := middleware.NewStack(parameterOperation, smithyhttp.NewStackRequest)
	var values any
	err := c.addMiddleware(stack)
	if err == nil {
		ctx = awsmiddleware.SetServiceID(middleware.ClearStackValues(ctx), parameterService)
		ctx = middleware.SetLogger(awsmiddleware.SetOperationName(ctx, parameterOperation), c.options.Logger)
		values, _, err = middleware.DecorateHandler(smithyhttp.NewClientHandlerWithOptions(c.options.HTTPClient), stack).Handle(ctx, names)
	}
	if err != nil {
		return nil, &smithy.OperationError{ServiceID: parameterService, OperationName: parameterOperation, Err: err}
	}
	return values.(map[string]string), nil
}

// addMiddleware adds all steps of a request, in the order of the SDK's clients. Some steps have the names of the SDK's steps, so
// that the options' own steps find their place.
func (c *parameterClient) addMiddleware(stack *middleware.Stack) error {
	agent := awsmiddleware.NewRequestUserAgent()
	if c.options.AppID != "" {
		agent.AddSDKAgentKey(awsmiddleware.ApplicationIdentifier, c.options.AppID)
	}
	attempts := retry.NewAttemptMiddleware(c.options.Retryer, smithyhttp.RequestCloner, func(a *retry.Attempt) {
		a.LogAttempts = c.options.ClientLogMode.IsRetries()
		a.ClientSkew, a.DisableClockSkewCorrection = &c.clockSkew, c.options.DisableClockSkewCorrection
	})
	timing := &awsmiddleware.RecordResponseTiming{DisableClockSkewCorrection: c.options.DisableClockSkewCorrection}
	err := errors.Join(
		stack.Serialize.Add(middleware.SerializeMiddlewareFunc("OperationSerializer", c.writeRequest), middleware.After),
		stack.Build.Add(&awsmiddleware.ClientRequestID{}, middleware.After),
		stack.Build.Add(agent, middleware.After),
		stack.Finalize.Add(attempts, middleware.After),
		stack.Finalize.Add(&v4.ComputePayloadSHA256{}, middleware.After),
		stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("ResolveAuthScheme", c.signRequest), middleware.After),
		stack.Deserialize.Add(&awshttp.ResponseErrorWrapper{}, middleware.After),
		stack.Deserialize.Add(&awsmiddleware.RequestIDRetriever{}, middleware.After),
		stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("OperationDeserializer", readResponse), middleware.After),
		stack.Deserialize.Add(timing, middleware.After),
	)
	for _, add := range c.options.APIOptions {
		err = errors.Join(err, add(stack))
	}
	return err
}

// writeRequest writes everything except the signature, as the protocol AWS JSON 1.1 requires.
func (c *parameterClient) writeRequest(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (out middleware.SerializeOutput, metadata middleware.Metadata, err error) {
	endpoint, err := c.findEndpoint(ctx)
	if err != nil {
		return out, metadata, fmt.Errorf("failed to resolve service endpoint, %w", err) // the SDK's text
	}
	body, err := json.Marshal(map[string]any{"Names": in.Parameters})
	if err != nil {
		return out, metadata, &smithy.SerializationError{Err: err}
	}
	request, err := in.Request.(*smithyhttp.Request).SetStream(bytes.NewReader(body))
	if err != nil {
		return out, metadata, &smithy.SerializationError{Err: err}
	}
	request.Method, request.URL = http.MethodPost, endpoint
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	request.Header.Set("X-Amz-Target", "AmazonSSM."+parameterOperation)
	in.Request = request
	return next.HandleSerialize(ctx, in)
}

// findEndpoint returns the URL of SSM for the user's region, FIPS and dual-stack settings.
func (c *parameterClient) findEndpoint(ctx context.Context) (*url.URL, error) {
	use := &c.options.EndpointOptions
	endpoint, err := c.options.EndpointResolverV2.ResolveEndpoint(ctx, autoscaling.EndpointParameters{
		Region:       sdk.String(c.options.Region),
		UseDualStack: sdk.Bool(use.UseDualStackEndpoint == sdk.DualStackEndpointStateEnabled),
		UseFIPS:      sdk.Bool(use.UseFIPSEndpoint == sdk.FIPSEndpointStateEnabled),
		Endpoint:     c.customURL,
	})
	if c.customURL == nil {
		endpoint.URI.Host = strings.Replace(endpoint.URI.Host, "autoscaling", "ssm", 1)
	}
	endpoint.URI.Path = smithyhttp.JoinPath(endpoint.URI.Path, "/")
	return &endpoint.URI, err
}

// signRequest signs one attempt. If the server's clock differs, the next attempt is signed with the server's time.
func (c *parameterClient) signRequest(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
	credentials, err := c.options.Credentials.Retrieve(ctx)
	if err != nil {
		return out, metadata, fmt.Errorf("get identity: get credentials: %w", err)
	}
	request, now := in.Request.(*smithyhttp.Request).Request, time.Now().Add(time.Duration(c.clockSkew.Load()))
	if err := c.options.HTTPSignerV4.SignHTTP(ctx, credentials, request, v4.GetPayloadHash(ctx), "ssm", c.options.Region, now); err != nil {
		return out, metadata, fmt.Errorf("sign request: %w", err)
	}
	out, metadata, err = next.HandleFinalize(ctx, in)
	if skew, known := awsmiddleware.GetAttemptSkew(metadata); known {
		c.clockSkew.Store(int64(skew))
	}
	return out, metadata, err
}

// readResponse converts the server's answer to values by name, or to the error that it contains.
func readResponse(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, metadata, err := next.HandleDeserialize(ctx, in)
	response, answered := out.RawResponse.(*smithyhttp.Response)
	if !answered {
		return out, metadata, err
	}
	defer smithyhttp.CloseResponseBody(ctx, response, false, nil)
	if err != nil {
		return out, metadata, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return out, metadata, &smithy.DeserializationError{Err: err}
	}
	if response.StatusCode < 200 || response.StatusCode >= 300 {
		return out, metadata, readParameterError(response.Header.Get("X-Amzn-ErrorType"), body)
	}
	var result struct {
		Parameters []struct{ Name, Value string }
	}
	if err := json.Unmarshal(body, &result); err != nil {
		return out, metadata, &smithy.DeserializationError{Err: err, Snapshot: body}
	}
	values := map[string]string{}
	for _, p := range result.Parameters {
		values[p.Name] = p.Value
	}
	out.Result = values
	return out, metadata, nil
}

// readParameterError returns the error in an answer. code is the code in the answer's header, "" if the answer's body contains it.
func readParameterError(code string, body []byte) error {
	inBody, message, err := restjson.GetErrorInfo(json.NewDecoder(bytes.NewReader(body)))
	if err != nil {
		return &smithy.DeserializationError{Err: fmt.Errorf("failed to decode response body, %w", err), Snapshot: body}
	}
	return &smithy.GenericAPIError{Code: cmp.Or(restjson.SanitizeErrorCode(code), inBody, "UnknownError"), Message: message}
}
