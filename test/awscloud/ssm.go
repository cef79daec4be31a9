package awscloud

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// parameter is one SSM parameter.
type parameter struct {
	name, value string
	version     int64
	modified    time.Time
}

// ssmProtocol is AWS JSON 1.1. A header contains the operation, and parameters and answers are JSON.
type ssmProtocol struct{}

const ssmContent = "application/x-amz-json-1.1"

// ssmRequest contains the members of GetParameter and GetParameters.
type ssmRequest struct {
	Name           string
	Names          []string
	WithDecryption bool
}

func (ssmProtocol) parse(req *http.Request, body []byte) (call, error) {
	operation := strings.TrimPrefix(req.Header.Get("X-Amz-Target"), "AmazonSSM.")
	c := call{operation: operation, params: flatJSON(body)}
	var in ssmRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return c, clientError("SerializationException", "%v", err)
	}
	run, ok := map[string]func(*region, ssmRequest) (any, error){
		"GetParameter":  (*region).getParameter,
		"GetParameters": (*region).getParameters,
	}[operation]
	if !ok {
		return c, clientError("UnknownOperationException", "")
	}
	c.run = func(_ context.Context, r *region) (any, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return run(r, in)
	}
	return c, nil
}

func (ssmProtocol) result(_, _ string, out any) (response, error) {
	body, err := encodeJSON(out.(serializable))
	return response{contentType: ssmContent, body: body}, err
}

func (ssmProtocol) fault(e *apiError, _ string) response { return jsonFault(e, ssmContent) }

func (r *region) getParameter(in ssmRequest) (any, error) {
	p, ok := r.parameters[in.Name]
	if !ok {
		return nil, clientError("ParameterNotFound", "")
	}
	return &ssm.GetParameterOutput{Parameter: r.describeParameter(p)}, nil
}

func (r *region) getParameters(in ssmRequest) (any, error) {
	if len(in.Names) < 1 || len(in.Names) > 10 {
		return nil, clientError("ValidationException", "1 validation error detected: Value '[%s]' at 'names' failed to satisfy constraint: Member must have length less than or equal to 10", strings.Join(in.Names, ", "))
	}
	out := &ssm.GetParametersOutput{Parameters: []ssmtypes.Parameter{}, InvalidParameters: []string{}}
	for _, name := range in.Names {
		if p, ok := r.parameters[name]; ok {
			out.Parameters = append(out.Parameters, *r.describeParameter(p))
		} else {
			out.InvalidParameters = append(out.InvalidParameters, name)
		}
	}
	return out, nil
}

func (r *region) describeParameter(p parameter) *ssmtypes.Parameter {
	owner := r.opts.Account
	if strings.HasPrefix(p.name, "/aws/service/") {
		owner = "" // public parameters belong to no account
	}
	return &ssmtypes.Parameter{
		ARN:              aws.String("arn:aws:ssm:" + r.opts.Region + ":" + owner + ":parameter" + p.name),
		DataType:         aws.String("text"),
		LastModifiedDate: aws.Time(p.modified),
		Name:             aws.String(p.name),
		Type:             ssmtypes.ParameterTypeString,
		Value:            aws.String(p.value),
		Version:          p.version,
	}
}
