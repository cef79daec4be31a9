package awscloud

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// eksProtocol is REST with JSON. Method and path of a request identify the operation.
type eksProtocol struct{}

const eksContent = "application/json"

// eksRequest is a decoded request: the names in its path, the query and the body.
type eksRequest struct {
	path  map[string]string
	query url.Values
	body  []byte
}

// eksOperation is one operation of EKS with its method and path. Its handler holds the lock.
type eksOperation struct {
	method, pattern, name string
	run                   func(context.Context, *region, eksRequest) (any, error)
}

func eksOperations() []eksOperation {
	const group = "clusters/{name}/node-groups/{nodegroupName}"
	return []eksOperation{
		{http.MethodGet, "clusters/{name}", "DescribeCluster", describeCluster},
		{http.MethodGet, "clusters/{name}/node-groups", "ListNodegroups", listNodegroups},
		{http.MethodGet, group, "DescribeNodegroup", describeNodegroup},
		{http.MethodPost, group + "/update-version", "UpdateNodegroupVersion", updateNodegroupVersion},
		{http.MethodPost, group + "/update-config", "UpdateNodegroupConfig", updateNodegroupConfig},
		{http.MethodGet, "clusters/{name}/updates", "ListUpdates", listUpdates},
		{http.MethodGet, "clusters/{name}/updates/{updateId}", "DescribeUpdate", describeUpdate},
	}
}

// matchPath returns the names that a path contains in place of the {…} of the pattern. ok is false if the path does not match
// the pattern.
func (o eksOperation) matchPath(method, path string) (names map[string]string, ok bool) {
	want, got := strings.Split(o.pattern, "/"), strings.Split(strings.Trim(path, "/"), "/")
	if method != o.method || len(got) != len(want) {
		return nil, false
	}
	names = map[string]string{}
	for i, w := range want {
		switch name, named := strings.CutPrefix(w, "{"); {
		case named:
			names[strings.TrimSuffix(name, "}")] = got[i]
		case w != got[i]:
			return nil, false
		}
	}
	return names, true
}

func (eksProtocol) parse(req *http.Request, body []byte) (call, error) {
	c := call{operation: req.Method + " " + req.URL.Path, mutating: req.Method != http.MethodGet, params: flatJSON(body)}
	if c.params == nil {
		c.params = map[string]string{}
	}
	query := req.URL.Query()
	for k := range query {
		c.params[k] = query.Get(k)
	}
	for _, o := range eksOperations() {
		names, ok := o.matchPath(req.Method, req.URL.Path)
		if !ok {
			continue
		}
		c.operation = o.name
		maps.Copy(c.params, names)
		c.run = func(ctx context.Context, r *region) (out any, err error) {
			q := eksRequest{names, query, body}
			if !c.mutating {
				r.mu.Lock()
				defer r.mu.Unlock()
				return o.run(ctx, r, q)
			}
			err = r.update(func(time.Time) error {
				out, err = o.run(ctx, r, q)
				return err
			})
			return out, err
		}
		return c, nil
	}
	return c, &apiError{Code: "UnknownOperationException", Message: "the stand-in does not model " + c.operation, Status: http.StatusNotFound}
}

// decode decodes the body into a structure. It refuses members that the structure does not have.
func (q eksRequest) decode(into any) error {
	d := json.NewDecoder(bytes.NewReader(q.body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return notModelledError("%s of a node group's update", field)
		}
		return clientError("SerializationException", "%v", err)
	}
	return nil
}

func (eksProtocol) result(_, _ string, out any) (response, error) {
	body, err := encodeJSON(out.(serializable))
	return response{contentType: eksContent, body: body}, err
}

func (eksProtocol) fault(e *apiError, _ string) response { return jsonFault(e, eksContent) }

func notFoundError(what, name string) *apiError {
	return &apiError{Code: "ResourceNotFoundException", Message: "No " + what + " found for name: " + name + ".", Status: http.StatusNotFound}
}

// invalidParameterError returns an InvalidParameterException, with which EKS refuses nearly all invalid requests.
func invalidParameterError(format string, args ...any) *apiError {
	return clientError("InvalidParameterException", format, args...)
}

func describeCluster(_ context.Context, r *region, q eksRequest) (any, error) {
	c, ok := r.clusters[q.path["name"]]
	if !ok {
		return nil, notFoundError("cluster", q.path["name"])
	}
	return &eks.DescribeClusterOutput{Cluster: &c}, nil
}

func listNodegroups(_ context.Context, r *region, q eksRequest) (any, error) {
	cluster := q.path["name"]
	if _, ok := r.clusters[cluster]; !ok {
		return nil, notFoundError("cluster", cluster)
	}
	names, next, err := q.page(sortedKeys(r.nodegroups[cluster]))
	return &eks.ListNodegroupsOutput{Nodegroups: names, NextToken: next}, err
}

// page returns the page of all that the query asks for, and the token of the next page.
func (q eksRequest) page(all []string) (names []string, next *string, err error) {
	n, err := strconv.Atoi(cmp.Or(q.query.Get("maxResults"), "100"))
	if err != nil || n < 1 || n > 100 {
		return nil, nil, invalidParameterError("maxResults needs to be between 1 and 100.")
	}
	var from *string
	if token := q.query.Get("nextToken"); token != "" {
		from = &token
	}
	records := int32(n)
	names, next, err = page(slices.Clone(all), from, &records, 100, 100)
	if err != nil {
		return nil, nil, invalidParameterError("nextToken is invalid.")
	}
	return names, next, nil
}

// AddCluster creates an EKS cluster of a Kubernetes version such as 1.33.
func (c *Cloud) AddCluster(name, version string) {
	_ = c.home.update(func(now time.Time) error {
		c.home.clusters[name] = ekstypes.Cluster{
			Name:      aws.String(name),
			Version:   aws.String(version),
			Arn:       aws.String("arn:aws:eks:" + c.opts.Region + ":" + c.opts.Account + ":cluster/" + name),
			Status:    ekstypes.ClusterStatusActive,
			CreatedAt: aws.Time(now),
		}
		return nil
	})
}
