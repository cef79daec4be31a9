package stage

import (
	"cmp"
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// EKSCluster is the cluster that managed node groups of a stage belong to, of version 1.36.
const EKSCluster = "prod"

// EKS releases of the two images of a stage.
const (
	OldRelease = "1.35.4-20260101"
	NewRelease = "1.36.1-20261101"
)

// ManagedGroup describes a managed node group whose nodes are of the old release, 1.35, while the
// control plane is at 1.36.
type ManagedGroup struct {
	Name string
	// Zones and Counts say where its nodes are.
	Zones  []string
	Counts []int
	// Max is its maximum size; 0 for the number of its nodes.
	Max int
	// MaxUnavailable is how many nodes EKS replaces at a time; 0 for one.
	MaxUnavailable int
	// Strategy is EKS's own; "" for DEFAULT.
	Strategy ekstypes.NodegroupUpdateStrategies
	// Current has the nodes on the new release from the start.
	Current bool
	// More, unless nil, may change what the group is created from.
	More func(*awscloud.NodegroupSpec)
}

// AddManagedGroup creates the EKS cluster, its releases and a managed node group, whose nodes have
// the label pool=NAME beside those of EKS. It returns the name of the Auto Scaling group.
func (s *Stage) AddManagedGroup(g ManagedGroup) (string, error) {
	s.Cloud.AddCluster(EKSCluster, "1.36")
	for release, image := range map[string]string{OldRelease: OldImage, NewRelease: NewImage} {
		if err := s.Cloud.PublishRelease(release, image); err != nil {
			return "", fmt.Errorf("creating managed node group %q: %w", g.Name, err)
		}
	}
	size := 0
	for _, n := range g.Counts {
		size += n
	}
	spec := awscloud.NodegroupSpec{
		Cluster: EKSCluster, Name: g.Name, ReleaseVersion: OldRelease, InstanceType: "m7i.large",
		Labels: map[string]string{"pool": g.Name}, MaxUnavailable: g.MaxUnavailable,
		Strategy: cmp.Or(g.Strategy, ekstypes.NodegroupUpdateStrategiesDefault),
		Group:    awscloud.GroupSpec{Zones: g.Zones, Counts: g.Counts, Min: 1, Max: max(g.Max, size)},
	}
	if g.Current {
		spec.ReleaseVersion = NewRelease
	}
	if g.More != nil {
		g.More(&spec)
	}
	group, err := s.Cloud.AddManagedNodegroup(spec)
	if err != nil {
		return "", fmt.Errorf("creating managed node group %q: %w", g.Name, err)
	}
	return group, nil
}

// EKS is what anyone else uses who has EKS change node groups.
func (s *Stage) EKS() *eks.Client {
	return eks.New(eks.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Cloud.URL()), Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
	})
}

// FurnishManaged is Furnish for a managed node group. It returns the name of its Auto Scaling group.
func (s *Stage) FurnishManaged(ctx context.Context, g ManagedGroup, workloads []Workload) (string, error) {
	name, err := s.AddManagedGroup(g)
	if err != nil {
		return "", err
	}
	return name, s.populate(ctx, g.Name, g.Counts, workloads)
}
