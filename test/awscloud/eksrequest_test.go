package awscloud_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// The releases of the tests; the group starts with the oldest.
const (
	release132  = "1.32.1-20260101"
	release132b = "1.32.2-20261101"
	release133  = "1.33.4-20261101"
)

// managed is a cluster "shop" of version 1.33 with the node group "web".
type managed struct {
	*awscloud.Cloud
	t     *testing.T
	eks   *eks.Client
	group string // the Auto Scaling group
}

// startManaged starts a stand-in with a node group of three nodes in two zones. A test can change its spec with change.
func startManaged(t *testing.T, o awscloud.EKSOptions, change func(*awscloud.NodegroupSpec)) *managed {
	t.Helper()
	times := shortTimes()
	times.EKS = o
	times.EKS.Setup, times.EKS.Settle = 5*time.Millisecond, 5*time.Millisecond
	c, _ := start(t, times)
	for _, r := range [][2]string{{release132, "ami-132"}, {release132b, "ami-132b"}, {release133, "ami-133"}} {
		if err := c.PublishRelease(r[0], r[1]); err != nil {
			t.Fatal(err)
		}
	}
	c.AddCluster("shop", "1.33")
	spec := awscloud.NodegroupSpec{
		Cluster: "shop", Name: "web", ReleaseVersion: release132, InstanceType: "m5.large",
		Group: awscloud.GroupSpec{Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}, Min: 1, Max: 4, Suspended: []string{"AZRebalance"}},
	}
	if change != nil {
		change(&spec)
	}
	return &managed{Cloud: c, t: t, eks: eks.NewFromConfig(config(c)), group: must(c.AddManagedNodegroup(spec))(t)}
}

// requestUpdate requests an update of the node group to the release of 1.33. A test can change the request with change.
func (m *managed) requestUpdate(change func(*eks.UpdateNodegroupVersionInput)) (*ekstypes.Update, error) {
	in := &eks.UpdateNodegroupVersionInput{ClusterName: aws.String("shop"), NodegroupName: aws.String("web"), Version: aws.String("1.33")}
	if change != nil {
		change(in)
	}
	out, err := m.eks.UpdateNodegroupVersion(m.t.Context(), in)
	if err != nil {
		return nil, err
	}
	return out.Update, nil
}

func (m *managed) update(id string) *ekstypes.Update {
	m.t.Helper()
	return must(m.eks.DescribeUpdate(m.t.Context(), &eks.DescribeUpdateInput{
		Name: aws.String("shop"), NodegroupName: aws.String("web"), UpdateId: aws.String(id),
	}))(m.t).Update
}

func (m *managed) nodegroup() *ekstypes.Nodegroup {
	m.t.Helper()
	return must(m.eks.DescribeNodegroup(m.t.Context(), &eks.DescribeNodegroupInput{
		ClusterName: aws.String("shop"), NodegroupName: aws.String("web"),
	}))(m.t).Nodegroup
}

// waitForUpdate waits until ok returns true for the newest update.
func (m *managed) waitForUpdate(ok func(awscloud.UpdateState) bool) awscloud.UpdateState {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	return must(m.WaitForUpdate(ctx, "shop", "web", ok))(m.t)
}

// startHeldUpdate is startManaged and starts an update that does not end. The token of the update is a.
func startHeldUpdate(t *testing.T, o awscloud.EKSOptions) (m *managed, first *ekstypes.Update) {
	t.Helper()
	o.DrainLimit = time.Hour
	m = startManaged(t, o, nil)
	m.BlockDrains()
	return m, must(m.requestUpdate(token("a")))(t)
}

func token(token string) func(*eks.UpdateNodegroupVersionInput) {
	return func(in *eks.UpdateNodegroupVersionInput) { in.ClientRequestToken = aws.String(token) }
}

func TestPublishedReleasesAreSSMParameters(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{}, nil)
	client := ssm.NewFromConfig(config(m.Cloud))
	const base = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/"
	for name, want := range map[string]string{
		"recommended/image_id":        "ami-133",
		"recommended/release_version": release133,
		"recommended": `{"schema_version":"2","image_id":"ami-133",` +
			`"image_name":"amazon-eks-node-al2023-x86_64-standard-1.33-v20261101","release_version":"1.33.4-20261101"}`,
		"amazon-eks-node-al2023-x86_64-standard-1.33-v20261101/image_id": "ami-133",
	} {
		got := must(client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(base + name)}))(t)
		equal(t, name, *got.Parameter.Value, want)
	}
	if err := m.PublishRelease("1.33.4", "ami-x"); err == nil {
		t.Error("a release without a date was published")
	}
}

// TestUpdateToUnsuitableVersionIsRefused checks that EKS refuses versions that are newer than the control plane (EKS E10), older than the
// node group, or unknown.
func TestUpdateToUnsuitableVersionIsRefused(t *testing.T) {
	type in = *eks.UpdateNodegroupVersionInput
	template := &ekstypes.LaunchTemplateSpecification{Name: aws.String("web")}
	for name, test := range map[string]struct {
		group  func(*awscloud.NodegroupSpec)
		o      awscloud.EKSOptions
		change func(in)
		says   string
	}{
		"newer than the control plane": {
			change: func(i in) { i.Version = aws.String("1.34") },
			says:   "Nodegroup Kubernetes version should be equal to Cluster kubernetes version 1.33 or NodeGroup kubernetes version 1.32",
		},
		"older": {
			group:  func(s *awscloud.NodegroupSpec) { s.ReleaseVersion = release133 },
			change: func(i in) { i.Version = aws.String("1.32") },
			says:   "should be equal to",
		},
		"an older release": {
			group:  func(s *awscloud.NodegroupSpec) { s.ReleaseVersion = release132b },
			change: func(i in) { i.Version, i.ReleaseVersion = nil, aws.String(release132) },
			says:   "cannot be rolled back",
		},
		"a skip, where it is refused": {
			group: func(s *awscloud.NodegroupSpec) {
				s.Version, s.ReleaseVersion, s.Image = "1.31", "1.31.9-20250101", "ami-132"
			},
			o: awscloud.EKSOptions{RefuseSkip: true}, change: func(in) {}, says: "only one minor version at a time",
		},
		"an unknown release": {
			change: func(i in) { i.ReleaseVersion = aws.String("1.33.9-20270101") },
			says:   "Requested release version 1.33.9-20270101 is not valid for kubernetes version 1.33.",
		},
		"a release of another version": {
			change: func(i in) { i.Version, i.ReleaseVersion = nil, aws.String(release133) },
			says:   "Requested release version 1.33.4-20261101 is not valid for kubernetes version 1.32.",
		},
		"a template for a group without": {change: func(i in) { i.LaunchTemplate = template }, says: "created without one"},
	} {
		t.Run(name, func(t *testing.T) {
			m := startManaged(t, test.o, test.group)
			_, err := m.requestUpdate(test.change)
			if says := wantCode(t, err, "InvalidParameterException"); !strings.Contains(says, test.says) {
				t.Errorf("got %q, want %q in it", says, test.says)
			}
			equal(t, "status", m.nodegroup().Status, ekstypes.NodegroupStatusActive)
		})
	}
}

func TestSecondUpdateRequestJoinsOrIsRefused(t *testing.T) {
	t.Run("the same token is the same update", func(t *testing.T) {
		m, first := startHeldUpdate(t, awscloud.EKSOptions{})
		again := must(m.requestUpdate(token("a")))(t)
		equal(t, "id", *again.Id, *first.Id)
		equal(t, "updates", len(m.listUpdateIDs()), 1)
		_, err := m.requestUpdate(func(in *eks.UpdateNodegroupVersionInput) { token("a")(in); in.Force = true })
		wantCode(t, err, "InvalidRequestException")
	})
	t.Run("the same token after a lost answer", func(t *testing.T) {
		m := startManaged(t, awscloud.EKSOptions{DrainLimit: time.Hour}, nil)
		m.BlockDrains()
		m.InjectFault(awscloud.Fault{Service: "eks", Operation: "UpdateNodegroupVersion", AfterEffect: true})
		m.InjectFault(awscloud.Fault{Service: "eks", Operation: "UpdateNodegroupVersion", Code: "ThrottlingException"})
		if _, err := m.requestUpdate(token("a")); err == nil {
			t.Error("the answer was not lost")
		}
		_, err := m.requestUpdate(token("a"))
		wantCode(t, err, "ThrottlingException")
		equal(t, "updates", m.listUpdateIDs(), []string{*must(m.requestUpdate(token("a")))(t).Id})
	})
	t.Run("another token is refused", func(t *testing.T) {
		m, first := startHeldUpdate(t, awscloud.EKSOptions{})
		_, err := m.requestUpdate(token("b"))
		if says := wantCode(t, err, "ResourceInUseException"); !strings.Contains(says, *first.Id) {
			t.Errorf("%q does not name update %s", says, *first.Id)
		}
	})
	t.Run("another token joins, where it does", func(t *testing.T) {
		m, first := startHeldUpdate(t, awscloud.EKSOptions{JoinRunning: true})
		equal(t, "id", *must(m.requestUpdate(token("b")))(t).Id, *first.Id)
	})
}

// listUpdateIDs returns the ids of the updates, page by page.
func (m *managed) listUpdateIDs() []string {
	m.t.Helper()
	var ids []string
	pages := eks.NewListUpdatesPaginator(m.eks, &eks.ListUpdatesInput{
		Name: aws.String("shop"), NodegroupName: aws.String("web"), MaxResults: aws.Int32(1),
	})
	for pages.HasMorePages() {
		ids = append(ids, must(pages.NextPage(m.t.Context()))(m.t).UpdateIds...)
	}
	return ids
}

func TestListUpdatesReturnsUpdatesInConfiguredOrder(t *testing.T) {
	for _, oldestFirst := range []bool{false, true} {
		m := startManaged(t, awscloud.EKSOptions{ListOldestFirst: oldestFirst}, nil)
		var want []string
		for range 3 {
			want = append(want, *must(m.requestUpdate(nil))(t).Id)
			m.waitForUpdate(awscloud.UpdateState.Ended)
		}
		if !oldestFirst {
			slices.Reverse(want)
		}
		equal(t, "updates", m.listUpdateIDs(), want)
		cluster := must(m.eks.ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: aws.String("shop")}))(t)
		equal(t, "updates of the cluster itself", len(cluster.UpdateIds), 0)
	}
}

func TestDescribeUpdateRequiresTheNodegroup(t *testing.T) {
	m, first := startHeldUpdate(t, awscloud.EKSOptions{})
	id := first.Id
	for _, in := range []eks.DescribeUpdateInput{
		{Name: aws.String("shop"), UpdateId: id},
		{Name: aws.String("shop"), NodegroupName: aws.String("web"), UpdateId: aws.String("x")},
		{Name: aws.String("shop"), NodegroupName: aws.String("x"), UpdateId: id},
		{Name: aws.String("x"), NodegroupName: aws.String("web"), UpdateId: id},
	} {
		_, err := m.eks.DescribeUpdate(t.Context(), &in)
		wantCode(t, err, "ResourceNotFoundException")
	}
}

func TestUpdateConfigIsValidatedAndStored(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{}, nil)
	change := func(c ekstypes.NodegroupUpdateConfig) error {
		_, err := m.eks.UpdateNodegroupConfig(t.Context(), &eks.UpdateNodegroupConfigInput{
			ClusterName: aws.String("shop"), NodegroupName: aws.String("web"), UpdateConfig: &c,
		})
		return err
	}
	equal(t, "width where nothing is said (EKS E05)", *m.nodegroup().UpdateConfig.MaxUnavailable, 1)
	for _, c := range []ekstypes.NodegroupUpdateConfig{
		{MaxUnavailable: aws.Int32(101)},
		{MaxUnavailablePercentage: aws.Int32(101)}, // EKS E06, E07
		{MaxUnavailable: aws.Int32(1), MaxUnavailablePercentage: aws.Int32(1)},
		{UpdateStrategy: "MAXIMAL"},
	} {
		wantCode(t, change(c), "InvalidParameterException")
	}
	if err := change(ekstypes.NodegroupUpdateConfig{MaxUnavailablePercentage: aws.Int32(50), UpdateStrategy: ekstypes.NodegroupUpdateStrategiesMinimal}); err != nil {
		t.Fatal(err)
	}
	done := m.waitForUpdate(awscloud.UpdateState.Ended)
	equal(t, "kind and end", [2]string{string(done.Type), string(done.Status)}, [2]string{"ConfigUpdate", "Successful"})
	equal(t, "configuration", *m.nodegroup().UpdateConfig, ekstypes.NodegroupUpdateConfig{
		MaxUnavailablePercentage: aws.Int32(50), UpdateStrategy: ekstypes.NodegroupUpdateStrategiesMinimal,
	})
	_, err := m.eks.UpdateNodegroupConfig(t.Context(), &eks.UpdateNodegroupConfigInput{
		ClusterName: aws.String("shop"), NodegroupName: aws.String("web"), ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: aws.Int32(1)},
	})
	wantCode(t, err, "NotModelled")
}
