package awscloud

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// eksProtocol is REST with JSON: the operation in method and path.
type eksProtocol struct{}

const eksContent = "application/json"

func (eksProtocol) parse(req *http.Request, _ []byte) (call, error) {
	path := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	query := req.URL.Query()
	c := call{operation: req.Method + " " + req.URL.Path, mutating: req.Method != http.MethodGet, params: map[string]string{}}
	for k := range query {
		c.params[k] = query.Get(k)
	}
	if c.mutating || path[0] != "clusters" || len(path) < 2 || len(path) > 4 || len(path) > 2 && path[2] != "node-groups" {
		return c, &apiError{Code: "UnknownOperationException", Message: "the stand-in does not model " + c.operation, Status: http.StatusNotFound}
	}
	c.params["name"] = path[1]
	var run func(*region) (any, error)
	switch len(path) {
	case 2:
		c.operation = "DescribeCluster"
		run = func(r *region) (any, error) { return r.describeCluster(path[1]) }
	case 3:
		c.operation = "ListNodegroups"
		run = func(r *region) (any, error) {
			return r.listNodegroups(path[1], query.Get("maxResults"), query.Get("nextToken"))
		}
	default:
		c.operation, c.params["nodegroupName"] = "DescribeNodegroup", path[3]
		run = func(r *region) (any, error) { return r.describeNodegroup(path[1], path[3]) }
	}
	c.run = func(_ context.Context, r *region) (any, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return run(r)
	}
	return c, nil
}

func (eksProtocol) result(_, _ string, out any) (response, error) {
	body, err := encodeJSON(out.(serializable))
	return response{contentType: eksContent, body: body}, err
}

func (eksProtocol) fault(e *apiError, _ string) response { return jsonFault(e, eksContent) }

func notFound(what, name string) *apiError {
	return &apiError{Code: "ResourceNotFoundException", Message: "No " + what + " found for name: " + name + ".", Status: http.StatusNotFound}
}

func (r *region) describeCluster(name string) (*eks.DescribeClusterOutput, error) {
	c, ok := r.clusters[name]
	if !ok {
		return nil, notFound("cluster", name)
	}
	return &eks.DescribeClusterOutput{Cluster: &c}, nil
}

func (r *region) listNodegroups(cluster, size, token string) (*eks.ListNodegroupsOutput, error) {
	if _, ok := r.clusters[cluster]; !ok {
		return nil, notFound("cluster", cluster)
	}
	n, err := strconv.Atoi(cmp.Or(size, "100"))
	if err != nil || n < 1 || n > 100 {
		return nil, refuse("InvalidParameterException", "maxResults needs to be between 1 and 100.")
	}
	var from *string
	if token != "" {
		from = &token
	}
	records := int32(n)
	names, next, err := page(sortedKeys(r.nodegroups[cluster]), from, &records, 100, 100)
	if err != nil {
		return nil, refuse("InvalidParameterException", "nextToken is invalid.")
	}
	return &eks.ListNodegroupsOutput{Nodegroups: names, NextToken: next}, nil
}

func (r *region) describeNodegroup(cluster, name string) (*eks.DescribeNodegroupOutput, error) {
	if _, ok := r.clusters[cluster]; !ok {
		return nil, notFound("cluster", cluster)
	}
	n, ok := r.nodegroups[cluster][name]
	if !ok {
		return nil, notFound("node group", name)
	}
	if g := r.groups[aws.ToString(n.Resources.AutoScalingGroups[0].Name)]; g != nil {
		n.ScalingConfig = &ekstypes.NodegroupScalingConfig{
			MinSize: aws.Int32(int32(g.min)), MaxSize: aws.Int32(int32(g.max)), DesiredSize: aws.Int32(int32(g.desired)),
		}
	}
	return &eks.DescribeNodegroupOutput{Nodegroup: &n}, nil
}

// AddCluster creates an EKS cluster of a Kubernetes version, 1.33.
func (c *Cloud) AddCluster(name, version string) {
	_ = c.home.do(func(now time.Time) error {
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

// NodegroupSpec describes a managed node group to create on a cluster.
type NodegroupSpec struct {
	Cluster, Name   string
	Version         string // Kubernetes version: 1.33
	ReleaseVersion  string // of its AMI: 1.33.2-20260101
	Image           string
	InstanceType    string
	Labels          map[string]string
	MaxUnavailable  int
	Strategy        ekstypes.NodegroupUpdateStrategies
	CustomTemplate  TemplateRef // the user's own launch template, by id and number; empty: one that EKS makes
	Group           GroupSpec   // zones and sizes; name, template and EKS's tags are filled in
	UnhealthyReason string      // a health issue to show; empty: none
}

// AddManagedNodegroup creates a managed node group with its Auto Scaling group: EKS gives that a mixed instances policy
// and a launch template that labels the nodes (EKS E28, E29). It returns the name of the Auto Scaling group.
func (c *Cloud) AddManagedNodegroup(s NodegroupSpec) (string, error) {
	var id string
	err := c.home.do(func(time.Time) error {
		id = c.home.uuid()
		if _, ok := c.home.clusters[s.Cluster]; !ok {
			return fmt.Errorf("adding node group %q: cluster %q is unknown: add it with AddCluster", s.Name, s.Cluster)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	g := s.Group
	g.Name = "eks-" + s.Name + "-" + id
	template := c.AddTemplate("eks-"+id, TemplateVersion{Image: s.Image, InstanceType: s.InstanceType, UserData: s.userData()})
	g.Mixed = &at.MixedInstancesPolicy{
		LaunchTemplate: &at.LaunchTemplate{
			LaunchTemplateSpecification: TemplateRef{ID: template, Version: "1"}.spec(),
			Overrides:                   []at.LaunchTemplateOverrides{{InstanceType: aws.String(s.InstanceType)}},
		},
		InstancesDistribution: &at.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(0), OnDemandPercentageAboveBaseCapacity: aws.Int32(100)},
	}
	g.Tags = map[string]string{
		"eks:cluster-name":                       s.Cluster,
		"eks:nodegroup-name":                     s.Name,
		"kubernetes.io/cluster/" + s.Cluster:     "owned",
		"k8s.io/cluster-autoscaler/enabled":      "true",
		"k8s.io/cluster-autoscaler/" + s.Cluster: "owned",
	}
	maps.Copy(g.Tags, s.Group.Tags)
	if err := c.AddGroup(g); err != nil {
		return "", err
	}
	return g.Name, c.home.do(func(now time.Time) error {
		if c.home.nodegroups[s.Cluster] == nil {
			c.home.nodegroups[s.Cluster] = map[string]ekstypes.Nodegroup{}
		}
		c.home.nodegroups[s.Cluster][s.Name] = c.home.nodegroup(s, g.Name, now)
		return nil
	})
}

// userData starts the kubelet with the labels of EKS and of the node group.
func (s NodegroupSpec) userData() string {
	labels := map[string]string{
		"eks.amazonaws.com/nodegroup":       s.Name,
		"eks.amazonaws.com/nodegroup-image": s.Image,
		"eks.amazonaws.com/capacityType":    "ON_DEMAND",
	}
	if s.CustomTemplate != (TemplateRef{}) {
		labels["eks.amazonaws.com/sourceLaunchTemplateId"] = s.CustomTemplate.ID
		labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = s.CustomTemplate.Version
	}
	maps.Copy(labels, s.Labels)
	var pairs []string
	for _, k := range sortedKeys(labels) {
		pairs = append(pairs, k+"="+labels[k])
	}
	return NodeadmConfig(s.Cluster, pairs...)
}

// NodeadmConfig is user data as Amazon Linux 2023 takes it, with the labels, key=value, for the kubelet.
func NodeadmConfig(cluster string, labels ...string) string {
	return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: " + cluster +
		"\n  kubelet:\n    flags:\n    - \"--node-labels=" + strings.Join(labels, ",") + "\"\n"
}

// nodegroup is a managed node group as EKS describes it.
func (r *region) nodegroup(s NodegroupSpec, group string, now time.Time) ekstypes.Nodegroup {
	n := ekstypes.Nodegroup{
		ClusterName:    aws.String(s.Cluster),
		NodegroupName:  aws.String(s.Name),
		NodegroupArn:   aws.String("arn:aws:eks:" + r.opts.Region + ":" + r.opts.Account + ":nodegroup/" + s.Cluster + "/" + s.Name + "/" + r.uuid()),
		Version:        aws.String(s.Version),
		ReleaseVersion: aws.String(s.ReleaseVersion),
		AmiType:        ekstypes.AMITypesAl2023X8664Standard,
		CapacityType:   ekstypes.CapacityTypesOnDemand,
		InstanceTypes:  []string{s.InstanceType},
		CreatedAt:      aws.Time(now),
		ModifiedAt:     aws.Time(now),
		Labels:         s.Labels,
		Status:         ekstypes.NodegroupStatusActive,
		Health:         &ekstypes.NodegroupHealth{Issues: []ekstypes.Issue{}},
		Resources:      &ekstypes.NodegroupResources{AutoScalingGroups: []ekstypes.AutoScalingGroup{{Name: aws.String(group)}}},
		UpdateConfig:   &ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(int32(max(1, s.MaxUnavailable))), UpdateStrategy: s.Strategy},
	}
	for _, z := range s.Group.Zones {
		n.Subnets = append(n.Subnets, subnet(z))
	}
	if s.CustomTemplate != (TemplateRef{}) {
		n.AmiType, n.InstanceTypes = ekstypes.AMITypesCustom, nil
		n.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Id: aws.String(s.CustomTemplate.ID), Version: aws.String(s.CustomTemplate.Version)}
	}
	if s.UnhealthyReason != "" {
		n.Status = ekstypes.NodegroupStatusDegraded
		n.Health.Issues = append(n.Health.Issues, ekstypes.Issue{Code: ekstypes.NodegroupIssueCode(s.UnhealthyReason), Message: aws.String(s.UnhealthyReason)})
	}
	return n
}
