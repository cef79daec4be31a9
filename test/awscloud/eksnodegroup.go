package awscloud

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// NodegroupSpec describes a managed node group to create on a cluster.
type NodegroupSpec struct {
	Cluster, Name   string
	Version         string // Kubernetes version: 1.33; empty: the version of the release or of the cluster
	ReleaseVersion  string // of its AMI: 1.33.2-20260101; empty with a custom AMI
	Image           string // empty: the image of the release or of the custom template
	InstanceType    string
	Labels          map[string]string
	MaxUnavailable  int
	Percentage      int // maxUnavailablePercentage, instead of MaxUnavailable
	Strategy        ekstypes.NodegroupUpdateStrategies
	CustomTemplate  TemplateRef // the customer's own template; its image, if any, is a custom AMI
	Group           GroupSpec   // zones and sizes; name, template and EKS's tags are filled in
	UnhealthyReason string      // a health issue to show; empty: none
}

// nodegroup is a managed node group. Answers share the values to which the pointers in shown point, so these values are
// replaced and never changed in place.
type nodegroup struct {
	spec     NodegroupSpec
	shown    ekstypes.Nodegroup
	group    string // its Auto Scaling group
	template string // id of the launch template that EKS makes for it

	updates  []*nodegroupUpdate // oldest first
	failures []UpdateFailure    // for the next updates
	former   []formerStatus     // earlier statuses, for reads that lag
	before   *groupSize         // the size to which the running or failed update returns
}

// formerStatus is a status that the node group had until a time.
type formerStatus struct {
	until  time.Time
	status ekstypes.NodegroupStatus
}

// groupSize is the size of a group before an update raises it.
type groupSize struct{ max, desired int }

// revision is the version, release and template of the nodes of a managed node group.
type revision struct {
	version, release, image string
	template                TemplateRef       // the customer's; zero without one
	labels                  map[string]string // labels that the customer's template gives nodes
}

// AddManagedNodegroup creates a managed node group with its Auto Scaling group. EKS gives the Auto Scaling group a mixed
// instances policy and a launch template that labels the nodes (EKS E28, E29). The function returns the name of the Auto Scaling
// group.
func (c *Cloud) AddManagedNodegroup(s NodegroupSpec) (string, error) {
	var id string
	var to revision
	err := c.home.update(func(time.Time) (err error) {
		id = c.home.uuid()
		s, to, err = c.home.completeSpec(s)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("adding node group %q: %w", s.Name, err)
	}
	g := s.Group
	g.Name = "eks-" + s.Name + "-" + id
	template := c.AddTemplate("eks-"+id, TemplateVersion{Image: to.image, InstanceType: s.InstanceType, UserData: s.userData(to)})
	g.Mixed = s.mixedPolicy(TemplateRef{ID: template, Version: "1"})
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
	return g.Name, c.home.update(func(now time.Time) error {
		if c.home.nodegroups[s.Cluster] == nil {
			c.home.nodegroups[s.Cluster] = map[string]*nodegroup{}
		}
		c.home.nodegroups[s.Cluster][s.Name] = &nodegroup{
			spec: s, group: g.Name, template: template, shown: c.home.describeNewNodegroup(s, to, g.Name, now),
		}
		return nil
	})
}

// completeSpec returns the spec with its empty fields filled in, and the revision of its nodes.
func (r *region) completeSpec(s NodegroupSpec) (NodegroupSpec, revision, error) {
	cluster, ok := r.clusters[s.Cluster]
	if !ok {
		return s, revision{}, fmt.Errorf("cluster %q is unknown: add it with AddCluster", s.Cluster)
	}
	of, _, _ := splitRelease(s.ReleaseVersion)
	s.Version = cmp.Or(s.Version, of, aws.ToString(cluster.Version))
	to := revision{version: s.Version, release: s.ReleaseVersion, image: cmp.Or(s.Image, r.releases[s.ReleaseVersion])}
	if _, known := r.releases[s.ReleaseVersion]; !known && s.ReleaseVersion != "" && s.Image != "" {
		r.releases[s.ReleaseVersion] = s.Image
	}
	if s.CustomTemplate == (TemplateRef{}) {
		return s, to, nil
	}
	t, v, err := r.templateVersion(*s.CustomTemplate.specification())
	if err != nil {
		return s, revision{}, err
	}
	s.CustomTemplate = TemplateRef{ID: t.id, Name: t.name, Version: strconv.Itoa(v.number)}
	to.template, to.labels = s.CustomTemplate, nodeLabels(v.data.userData)
	if v.data.image != "" {
		to.image, to.release = v.data.image, v.data.image
	}
	return s, to, nil
}

// mixedPolicy returns the mixed instances policy that launches from the template that EKS creates.
func (s NodegroupSpec) mixedPolicy(template TemplateRef) *at.MixedInstancesPolicy {
	return &at.MixedInstancesPolicy{
		LaunchTemplate: &at.LaunchTemplate{
			LaunchTemplateSpecification: template.specification(),
			Overrides:                   []at.LaunchTemplateOverrides{{InstanceType: aws.String(s.InstanceType)}},
		},
		InstancesDistribution: &at.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(0), OnDemandPercentageAboveBaseCapacity: aws.Int32(100)},
	}
}

// identifyingLabels returns the labels by which EKS recognizes the nodes of a revision (EKS E28, E29).
func (s NodegroupSpec) identifyingLabels(to revision) map[string]string {
	marks := map[string]string{
		"eks.amazonaws.com/nodegroup":       s.Name,
		"eks.amazonaws.com/nodegroup-image": to.image,
	}
	if to.template != (TemplateRef{}) {
		marks["eks.amazonaws.com/sourceLaunchTemplateId"] = to.template.ID
		marks["eks.amazonaws.com/sourceLaunchTemplateVersion"] = to.template.Version
	}
	return marks
}

// userData returns user data that gives the Node the labels of EKS, of the node group and of the customer's template.
func (s NodegroupSpec) userData(to revision) string {
	labels := map[string]string{"eks.amazonaws.com/capacityType": "ON_DEMAND"}
	maps.Copy(labels, to.labels)
	maps.Copy(labels, s.Labels)
	maps.Copy(labels, s.identifyingLabels(to))
	var pairs []string
	for _, k := range sortedKeys(labels) {
		pairs = append(pairs, k+"="+labels[k])
	}
	return NodeadmConfig(s.Cluster, pairs...)
}

// NodeadmConfig returns user data for Amazon Linux 2023, with labels (key=value) for the kubelet.
func NodeadmConfig(cluster string, labels ...string) string {
	return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: " + cluster +
		"\n  kubelet:\n    flags:\n    - \"--node-labels=" + strings.Join(labels, ",") + "\"\n"
}

// describeNewNodegroup returns a new managed node group as EKS describes it.
func (r *region) describeNewNodegroup(s NodegroupSpec, to revision, group string, now time.Time) ekstypes.Nodegroup {
	n := ekstypes.Nodegroup{
		ClusterName:    aws.String(s.Cluster),
		NodegroupName:  aws.String(s.Name),
		NodegroupArn:   aws.String("arn:aws:eks:" + r.opts.Region + ":" + r.opts.Account + ":nodegroup/" + s.Cluster + "/" + s.Name + "/" + r.uuid()),
		Version:        aws.String(to.version),
		ReleaseVersion: aws.String(to.release),
		AmiType:        ekstypes.AMITypesAl2023X8664Standard,
		CapacityType:   ekstypes.CapacityTypesOnDemand,
		InstanceTypes:  []string{s.InstanceType},
		CreatedAt:      aws.Time(now),
		ModifiedAt:     aws.Time(now),
		Labels:         s.Labels,
		Status:         ekstypes.NodegroupStatusActive,
		Health:         &ekstypes.NodegroupHealth{Issues: []ekstypes.Issue{}},
		Resources:      &ekstypes.NodegroupResources{AutoScalingGroups: []ekstypes.AutoScalingGroup{{Name: aws.String(group)}}},
		UpdateConfig:   s.updateConfig(),
		LaunchTemplate: to.template.eksSpecification(),
	}
	for _, z := range s.Group.Zones {
		n.Subnets = append(n.Subnets, subnetID(z))
	}
	if n.LaunchTemplate != nil {
		n.InstanceTypes = nil
	}
	if to.image == to.release {
		n.AmiType = ekstypes.AMITypesCustom
	}
	if s.UnhealthyReason != "" {
		n.Status = ekstypes.NodegroupStatusDegraded
		n.Health.Issues = append(n.Health.Issues, ekstypes.Issue{Code: ekstypes.NodegroupIssueCode(s.UnhealthyReason), Message: aws.String(s.UnhealthyReason)})
	}
	return n
}

// updateConfig returns the update width and strategy of the spec. The default is one node (EKS E05).
func (s NodegroupSpec) updateConfig() *ekstypes.NodegroupUpdateConfig {
	if s.Percentage > 0 {
		return &ekstypes.NodegroupUpdateConfig{MaxUnavailablePercentage: aws.Int32(int32(s.Percentage)), UpdateStrategy: s.Strategy}
	}
	return &ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(int32(max(1, s.MaxUnavailable))), UpdateStrategy: s.Strategy}
}

// eksSpecification returns the reference as EKS shows it, nil if it is empty.
func (t TemplateRef) eksSpecification() *ekstypes.LaunchTemplateSpecification {
	if t == (TemplateRef{}) {
		return nil
	}
	return &ekstypes.LaunchTemplateSpecification{Id: aws.String(t.ID), Name: aws.String(t.Name), Version: aws.String(t.Version)}
}

// nodegroup returns the node group that a request names.
func (r *region) nodegroup(cluster, name string) (*nodegroup, error) {
	if _, ok := r.clusters[cluster]; !ok {
		return nil, notFoundError("cluster", cluster)
	}
	n, ok := r.nodegroups[cluster][name]
	if !ok {
		return nil, notFoundError("node group", name)
	}
	return n, nil
}

// setStatus changes the status and remembers the old one for reads that lag.
func (n *nodegroup) setStatus(status ekstypes.NodegroupStatus, now time.Time) {
	if n.shown.Status != status {
		n.former = append(n.former, formerStatus{now, n.shown.Status})
		n.shown.Status = status
	}
	n.shown.ModifiedAt = aws.Time(now)
}

// statusAt returns the status that the node group had at a time.
func (n *nodegroup) statusAt(then time.Time) ekstypes.NodegroupStatus {
	for _, f := range n.former {
		if f.until.After(then) {
			return f.status
		}
	}
	return n.shown.Status
}

func describeNodegroup(_ context.Context, r *region, q eksRequest) (any, error) {
	n, err := r.nodegroup(q.path["name"], q.path["nodegroupName"])
	if err != nil {
		return nil, err
	}
	shown := n.shown
	shown.Status = n.statusAt(time.Now().Add(-r.opts.EKS.StatusLag))
	if g := r.groups[n.group]; g != nil {
		shown.ScalingConfig = &ekstypes.NodegroupScalingConfig{
			MinSize: aws.Int32(int32(g.min)), MaxSize: aws.Int32(int32(g.max)), DesiredSize: aws.Int32(int32(g.desired)),
		}
	}
	return &eks.DescribeNodegroupOutput{Nodegroup: &shown}, nil
}
