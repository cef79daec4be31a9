package awscloud

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ec2Operation is one action of EC2. EC2's query protocol has other names than the SDK's structs, and lists of <item>. So
// requests and answers of EC2 are decoded and encoded by hand.
type ec2Operation struct {
	mutating bool
	takes    []string // accepted parameters, without the numbers of list elements
	run      func(*region, ec2Form, time.Time) (ec2Answer, error)
}

func ec2Operations() map[string]ec2Operation {
	common := []string{"DryRun", "Filter", "MaxResults", "NextToken", "IncludeManagedResources"}
	reads := func(run func(*region, ec2Form, time.Time) (ec2Answer, error), takes ...string) ec2Operation {
		return ec2Operation{takes: append(slices.Clone(common), takes...), run: run}
	}
	return map[string]ec2Operation{
		"DescribeInstances":       reads((*region).describeInstances, "InstanceId"),
		"DescribeImages":          reads((*region).describeImages, "ImageId", "Owner", "IncludeDeprecated", "IncludeDisabled"),
		"DescribeSubnets":         reads((*region).describeSubnets),
		"DescribeLaunchTemplates": reads((*region).describeTemplates, "LaunchTemplateId", "LaunchTemplateName"),
		"DescribeLaunchTemplateVersions": reads((*region).describeTemplateVersions,
			"LaunchTemplateId", "LaunchTemplateName", "LaunchTemplateVersion", "MinVersion", "MaxVersion", "ResolveAlias"),
		"CreateLaunchTemplateVersion": {mutating: true, run: (*region).createTemplateVersion, takes: []string{
			"DryRun", "LaunchTemplateId", "LaunchTemplateName", "LaunchTemplateData", "ClientToken", "SourceVersion",
			"VersionDescription", "ResolveAlias",
		}},
	}
}

type ec2Protocol struct{ operations map[string]ec2Operation }

func (p ec2Protocol) parse(_ *http.Request, body []byte) (call, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return call{}, clientError("MalformedQueryString", "The query string is malformed: %v", err)
	}
	form := ec2Form(firstValues(values))
	c := call{operation: values.Get("Action"), params: form}
	op, ok := p.operations[c.operation]
	if !ok {
		return c, clientError("InvalidAction", "The action %s is not valid for this web service.", c.operation)
	}
	dry := form["DryRun"] == "true"
	c.mutating = op.mutating && !dry
	for _, key := range sortedKeys(form) {
		if head, _, _ := strings.Cut(key, "."); !slices.Contains(op.takes, head) {
			return c, clientError("UnknownParameter", "The parameter %s is not recognized", key)
		}
	}
	c.run = func(_ context.Context, r *region) (out any, err error) {
		err = r.update(func(now time.Time) error {
			out, err = op.run(r, form, now)
			if err == nil && dry {
				err = dryRunError()
			}
			return err
		})
		return out, err
	}
	return c, nil
}

// dryRunError returns EC2's answer to a request with DryRun that would succeed.
func dryRunError() *apiError {
	return &apiError{Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set.", Status: http.StatusPreconditionFailed}
}

// ec2Answer is the answer to an operation: one element, and a token if there is another page.
type ec2Answer struct {
	RequestID string `xml:"requestId"`
	Content   any    // has its own element name
	NextToken string `xml:"nextToken,omitempty"`
}

func (p ec2Protocol) result(op, requestID string, out any) (response, error) {
	answer := out.(ec2Answer)
	answer.RequestID = requestID
	var b bytes.Buffer
	root := xml.StartElement{Name: xml.Name{Space: "http://ec2.amazonaws.com/doc/2016-11-15/", Local: op + "Response"}}
	if err := xml.NewEncoder(&b).EncodeElement(answer, root); err != nil {
		return response{}, fmt.Errorf("encoding the answer to %s: %w", op, err)
	}
	return response{contentType: "text/xml;charset=UTF-8", body: b.Bytes()}, nil
}

func (p ec2Protocol) fault(e *apiError, requestID string) response {
	body := fmt.Sprintf(`<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>%s</RequestID></Response>`,
		escapeXML(e.Code), escapeXML(e.Message), requestID)
	return response{contentType: "text/xml;charset=UTF-8", body: []byte(body)}
}

// ec2Form contains the parameters of a request: Name, Name.1, Filter.1.Value.2.
type ec2Form map[string]string

// list returns the values of Name.1, Name.2 and so on.
func (f ec2Form) list(name string) []string {
	var out []string
	for i := 1; ; i++ {
		v, ok := f[name+"."+strconv.Itoa(i)]
		if !ok {
			return out
		}
		out = append(out, v)
	}
}

// number returns an integer parameter, 0 if it is missing.
func (f ec2Form) number(name string) (int, error) {
	text, ok := f[name]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, clientError("InvalidParameterValue", "Value (%s) for parameter %s is invalid.", text, name)
	}
	return n, nil
}

// ec2Filter is one filter with a name and values. It matches if one value matches.
type ec2Filter struct {
	name   string
	values []string
}

func (f ec2Form) filters() []ec2Filter {
	var out []ec2Filter
	for i := 1; ; i++ {
		prefix := "Filter." + strconv.Itoa(i)
		name, ok := f[prefix+".Name"]
		if !ok {
			return out
		}
		out = append(out, ec2Filter{name, f.list(prefix + ".Value")})
	}
}

// matchesFilters reports whether the attributes and tags of a resource match all filters. The filters "tag:K" and "tag-key"
// match tags. A filter on an unknown attribute is an error.
func matchesFilters(filters []ec2Filter, attributes, tags map[string]string) (bool, error) {
	for _, f := range filters {
		if f.name == "tag-key" || strings.HasPrefix(f.name, "tag:") {
			if !matchesTagFilter(tags, f.name, f.values) {
				return false, nil
			}
			continue
		}
		have, ok := attributes[f.name]
		if !ok {
			return false, clientError("InvalidParameterValue", "The filter '%s' is invalid", f.name)
		}
		if !slices.Contains(f.values, have) {
			return false, nil
		}
	}
	return true, nil
}

// ec2Page returns the requested page of all, with at most MaxResults elements, and the token of the next page. MaxResults must
// be from least to most. Without MaxResults the page contains everything.
func ec2Page[T any](all []T, form ec2Form, least, most int) (found []T, next string, err error) {
	size, err := form.number("MaxResults")
	switch {
	case err != nil:
		return nil, "", err
	case form["MaxResults"] != "" && (size < least || size > most):
		return nil, "", clientError("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.", size, least, most)
	case size == 0:
		size = max(1, len(all))
	}
	from := 0
	if token := form["NextToken"]; token != "" {
		if _, err := fmt.Sscanf(token, "next-%d", &from); err != nil || from < 0 || from > len(all) {
			return nil, "", clientError("InvalidNextToken", "The token '%s' is invalid", token)
		}
	}
	to := min(len(all), from+size)
	if to < len(all) {
		return all[from:to], fmt.Sprintf("next-%d", to), nil
	}
	return all[from:to], "", nil
}
