package aws_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/aws"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestAccountIsReadWithUserAgentOfProgram(t *testing.T) {
	s := start(t, instantOptions())
	got, err := s.Account(t.Context())
	if err != nil || got != "account 123456789012, us-east-1" {
		t.Errorf("got %q, %v", got, err)
	}
	if agent := s.requests()[0].UserAgent; !strings.Contains(agent, "kubectl-nodeupgrade/v0.0.0-test") {
		t.Errorf("user agent %q does not name this program", agent)
	}
}

// TestNoAWSRequestIsSentAfterItsDeadline checks that no request is sent after its deadline, even if the context's timer has not
// fired yet.
func TestNoAWSRequestIsSentAfterItsDeadline(t *testing.T) {
	s := start(t, instantOptions())
	before := len(s.requests())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // time for the pauses between its tries
	defer cancel()
	if _, err := s.Account(build.Unnoticed(ctx, time.Now())); err == nil || len(s.requests()) != before {
		t.Errorf("%d requests were sent, and the error was %v", len(s.requests())-before, err)
	}
}

func TestProviderWithoutCredentialsOrRegionFails(t *testing.T) {
	cases := map[string]struct {
		env  map[string]string
		says []string
	}{
		"no credentials": {map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, []string{"no credentials", "aws sso login"}},
		"no region":      {map[string]string{"AWS_REGION": "", "AWS_DEFAULT_REGION": ""}, []string{"no region", "AWS_REGION"}},
		"no profile":     {map[string]string{"AWS_PROFILE": "elsewhere"}, []string{"elsewhere", "AWS_PROFILE"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			start(t, instantOptions())
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			_, err := aws.New(t.Context(), aws.Options{})
			for _, words := range c.says {
				if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "operation error") {
					t.Errorf("got %v, want one line with %q, without requests", err, words)
				}
			}
		})
	}
}

func TestRegionOfNodesIsUsedWithoutAConfiguredRegion(t *testing.T) {
	start(t, instantOptions())
	t.Setenv("AWS_REGION", "")
	p, err := aws.New(t.Context(), aws.Options{Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Account(t.Context()); err != nil || !strings.HasSuffix(got, "us-east-1") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestGroupsListsAutoScalingAndNodeGroups(t *testing.T) {
	s := start(t, instantOptions())
	id := s.addWorkers()
	other := awscloud.GroupSpec{
		Name: "batch", Zones: []string{"us-east-1a"}, Counts: []int{2}, Min: 0, Max: 4, Template: awscloud.TemplateRef{ID: id, Version: "2"},
		Suspended: []string{"Launch"},
	}
	s.addGroup(other)
	s.AddCluster("prod", "1.33")
	pool, err := s.AddManagedNodegroup(awscloud.NodegroupSpec{
		Cluster: "prod", Name: "pool", ReleaseVersion: release133, Image: "ami-1", InstanceType: "m6i.large",
		Group: awscloud.GroupSpec{Zones: []string{"us-east-1a"}, Counts: []int{2}, Max: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	nodes := append(s.nodes("workers", pool, "batch"),
		node("us-east-1a", "i-0123456789abcdef0"), node("us-west-2a", "i-0123456789abcdef1"), &corev1.Node{})
	s.requests()

	groups, err := s.Groups(t.Context(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range groups {
		got = append(got, fmt.Sprintf("%s/%s/%d/%s", g.Name, g.Kind, len(g.Instances), g.Wanted.Kubernetes))
	}
	if want := []string{"batch/Auto Scaling group/2/v1.32", "pool/EKS managed node group/2/v1.33.2", "workers/Auto Scaling group/3/v1.32"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if g := groups[0]; !strings.Contains(g.Refusal, "Launch is suspended") {
		t.Errorf("batch: refusal %q", g.Refusal)
	}
	if g := groups[1]; g.Managed == nil || g.Instances[0].Outdated {
		t.Errorf("pool: %+v", g)
	}
	if g := groups[2]; g.Refusal != "" || !g.Instances[0].Outdated || g.Observed.IsZero() {
		t.Errorf("workers: %+v", g)
	}
	if got := s.changes(); len(got) > 0 {
		t.Errorf("listing changed something: %v", got)
	}
	if !s.Belongs(&groups[1], nodes[3]) || s.Belongs(&groups[2], nodes[3]) || s.Belongs(&groups[2], nodes[7]) {
		t.Error("a node belongs to the group that lists its instance, and to no other")
	}
}

func TestGroupsOfManyNodesTakeFewRequests(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers(func(g *awscloud.GroupSpec) { g.Counts, g.Max = []int{60, 60, 60}, 200 })
	nodes := s.nodes("workers")
	s.requests()
	if groups, err := s.Groups(t.Context(), nodes); err != nil || len(groups) != 1 || len(groups[0].Instances) != 180 {
		t.Fatalf("got %d groups, %v", len(groups), err)
	}
	want := "DescribeAutoScalingGroups DescribeAutoScalingInstances DescribeImages DescribeInstanceRefreshes DescribeLaunchTemplateVersions"
	if got := s.calls(); got != want {
		t.Errorf("180 nodes of one group take %s, want %s", got, want)
	}
}

func TestNodesOutsideConfiguredRegionAreAnError(t *testing.T) {
	s := start(t, instantOptions())
	_, err := s.Groups(t.Context(), []*corev1.Node{node("eu-west-1a", "i-0123456789abcdef0")})
	if err == nil || !strings.Contains(err.Error(), "set AWS_REGION=eu-west-1") {
		t.Errorf("got %v", err)
	}
}

func TestErrorOfOneGroupDoesNotHideOtherGroups(t *testing.T) {
	s := start(t, instantOptions())
	id := s.addWorkers()
	s.addGroup(awscloud.GroupSpec{Name: "batch", Zones: []string{"us-east-1a"}, Counts: []int{1}, Max: 4, Template: awscloud.TemplateRef{ID: id, Version: "2"}})
	s.InjectFault(awscloud.Fault{Service: "autoscaling", Operation: "DescribeInstanceRefreshes", Code: "AccessDenied"})
	nodes := s.nodes("workers", "batch")
	groups, err := s.Groups(t.Context(), nodes)
	if err != nil || len(groups) != 2 {
		t.Fatalf("got %v, %v", groups, err)
	}
	refused := slices.DeleteFunc(groups, func(g nodegroup.Group) bool { return g.Refusal == "" })
	if len(refused) != 1 || !strings.Contains(refused[0].Refusal, "autoscaling:DescribeInstanceRefreshes") {
		t.Fatalf("got %+v, want one refusal that names the IAM action", refused)
	}
	own := func(n *corev1.Node) bool { return s.Belongs(&refused[0], n) }
	if len(refused[0].Instances) == 0 || !slices.ContainsFunc(nodes, own) || refused[0].IsTargetKnown() {
		t.Errorf("of %+v the nodes are known, and not which of them are outdated", refused[0])
	}
}

// TestObservationOfGroupSendsOnlyListedRequests checks the requests that the package comment lists.
func TestObservationOfGroupSendsOnlyListedRequests(t *testing.T) {
	const always = "DescribeAutoScalingGroups DescribeInstanceRefreshes"
	cases := map[string]struct {
		group        func(s *site, g *awscloud.GroupSpec)
		to           string
		first, later string // besides the requests that are always sent
	}{
		"a number": {first: "DescribeImages DescribeLaunchTemplateVersions"},
		"$Latest": {
			group: func(_ *site, g *awscloud.GroupSpec) { g.Template.Version = "$Latest" },
			first: "DescribeImages DescribeLaunchTemplateVersions DescribeLaunchTemplates", later: "DescribeLaunchTemplates",
		},
		"an SSM parameter": {
			group: func(s *site, g *awscloud.GroupSpec) {
				g.Template = awscloud.TemplateRef{ID: s.AddTemplate("moving", awscloud.TemplateVersion{Image: "resolve:ssm:/image", InstanceType: "m6i.large"}), Version: "1"}
			},
			first: "DescribeImages DescribeInstances DescribeLaunchTemplateVersions DescribeLaunchTemplateVersions", later: "DescribeLaunchTemplateVersions",
		},
		"capacity missing": {
			group: func(_ *site, g *awscloud.GroupSpec) { g.Suspended, g.Desired = []string{"Launch"}, 4 },
			first: "DescribeImages DescribeLaunchTemplateVersions DescribeScalingActivities", later: "DescribeScalingActivities",
		},
		"to a number": {to: "1", first: "DescribeImages DescribeLaunchTemplateVersions"},
		"to an image it has": {
			to: "ami-2", first: "DescribeImages DescribeInstances DescribeLaunchTemplateVersions",
		},
		"to another image, until the group points at it": {
			to: "ami-3", first: "DescribeAutoScalingGroups DescribeImages DescribeInstances DescribeLaunchTemplateVersions", later: "DescribeAutoScalingGroups",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, instantOptions())
			s.AddParameter("/image", "ami-2")
			s.addWorkers(func(g *awscloud.GroupSpec) {
				if c.group != nil {
					c.group(s, g)
				}
			})
			for _, extra := range []string{c.first, c.later, c.later} {
				s.requests()
				s.observe("workers", c.to)
				want := strings.Fields(always + " " + extra)
				slices.Sort(want)
				if got := s.calls(); got != strings.Join(want, " ") {
					t.Errorf("sent %s, want %s", got, strings.Join(want, " "))
				}
			}
		})
	}
}

func TestObserveExplainsMissingGroupAndDeniedAccess(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	_, err := s.Observe(t.Context(), cloud.Ref{Name: "nobody"})
	if !errors.Is(err, cloud.ErrNotFound) || !strings.Contains(err.Error(), `"nobody" in us-east-1`) {
		t.Errorf("a group that does not exist: %v", err)
	}
	s.InjectFault(awscloud.Fault{Service: "ec2", Operation: "DescribeLaunchTemplateVersions", Code: "UnauthorizedOperation"})
	_, err = s.Observe(t.Context(), cloud.Ref{Name: "workers"})
	s.wantOutcome(err, nodegroup.OutcomeFatal, "IAM action ec2:DescribeLaunchTemplateVersions")
	s.RejectCredentials(awscloud.CredentialsExpired)
	_, err = s.Observe(t.Context(), cloud.Ref{Name: "workers"})
	s.wantOutcome(err, nodegroup.OutcomeFatal, "have expired", "aws sso login")
	s.RejectCredentials(awscloud.CredentialsInvalid)
	_, err = s.Account(t.Context())
	s.wantOutcome(err, nodegroup.OutcomeFatal, "check the credentials")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = s.Observe(ctx, cloud.Ref{Name: "workers"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended: %v", err)
	}
}

func TestThrottlingIsWaitedOut(t *testing.T) {
	for _, code := range []string{"RateExceeded", "Throttling"} {
		s := start(t, instantOptions())
		s.addWorkers()
		log := captureLog(t)
		s.InjectFault(awscloud.Fault{Service: "autoscaling", Operation: "DescribeAutoScalingGroups", Code: code})
		if g, err := s.Observe(t.Context(), cloud.Ref{Name: "workers"}); err != nil || len(g.Instances) != 3 {
			t.Errorf("%s: got %d instances, %v", code, len(g.Instances), err)
		}
		if !strings.Contains(log.String(), "retrying request") {
			t.Errorf("%s: the log says %q", code, log.String())
		}
	}
}

// captureLog returns a buffer with the klog messages up to level 1 until the test ends.
func captureLog(t *testing.T) *strings.Builder {
	t.Helper()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	set := func(values map[string]string) {
		for name, value := range values {
			if err := flags.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	var log strings.Builder
	set(map[string]string{"v": "1", "logtostderr": "false", "stderrthreshold": "FATAL"})
	klog.SetOutput(&log)
	t.Cleanup(func() {
		set(map[string]string{"v": "0", "logtostderr": "true"})
		klog.SetOutput(io.Discard)
	})
	return &log
}

// TestAWSSDKPrintsNoWarnings checks that a warning of the SDK goes to the log and not to stderr. Answers without their last
// byte make the SDK log a warning.
func TestAWSSDKPrintsNoWarnings(t *testing.T) {
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) { os.Stderr = was }(os.Stderr)
	os.Stderr = stderr // the SDK chooses its log output when it is configured
	s := start(t, instantOptions())
	there, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(there)
	proxy.ModifyResponse = func(answer *http.Response) error {
		answer.Header.Set("Content-Length", strconv.FormatInt(answer.ContentLength+1, 10))
		return nil
	}
	short := httptest.NewServer(proxy)
	defer short.Close()
	t.Setenv("AWS_ENDPOINT_URL", short.URL)
	p, err := aws.New(t.Context(), aws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := captureLog(t)
	if _, err := p.Account(t.Context()); err != nil || !strings.Contains(log.String(), "AWS SDK: WARN failed to discard") {
		t.Errorf("got %v, and the log says %q, want the warning", err, log)
	}
	if got, err := os.ReadFile(stderr.Name()); err != nil || len(got) > 0 {
		t.Errorf("got %q on stderr, %v", got, err)
	}
}

func TestObserveRefusesUnusableTargets(t *testing.T) {
	cases := map[string]struct{ to, says string }{
		"version that does not exist": {"9", "version 9"},
		"image that does not exist":   {"ami-9", "no image ami-9"},
		"image of other machines":     {"ami-arm", "arm64"},
		"no target at all":            {"v1.33", "neither a launch template version nor an AMI"},
		"image that others would get": {"ami-3", "Auto Scaling group rival"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, instantOptions())
			id := s.addWorkers()
			s.addGroup(awscloud.GroupSpec{Name: "rival", Zones: []string{"us-east-1a"}, Max: 1, Template: awscloud.TemplateRef{ID: id, Version: "$Latest"}})
			if g := s.observe("workers", c.to); !strings.Contains(g.Refusal, c.says) || g.Name != "workers" || g.Max != 6 {
				t.Errorf("got refusal %q of %s, want it to say %q", g.Refusal, g.Name, c.says)
			}
		})
	}
}

func TestInstanceRefreshIsRefused(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers(func(g *awscloud.GroupSpec) {
		g.Refreshes = []at.InstanceRefresh{{Status: "InProgress"}, {Status: "Successful"}}
	})
	if g := s.observe("workers", ""); !strings.Contains(g.Refusal, "instance refresh is active") {
		t.Errorf("got refusal %q", g.Refusal)
	}
}

func TestLaunchFailureIsReported(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	for _, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		s.LimitCapacity(zone, 0)
	}
	s.wantOutcome(s.do(nodegroup.AddCapacity{Zone: "us-east-1a", N: 1, Token: "t"}), nodegroup.OutcomeExhausted)
	if f := s.observe("workers", "").LaunchFailure; f.Message != "" {
		t.Errorf("got failure %+v, but no capacity is missing", f)
	}
	if err := s.SetDesired("workers", 4); err != nil {
		t.Fatal(err)
	}
	if f := s.observe("workers", "").LaunchFailure; !strings.Contains(f.Message, "m6i.large capacity") || f.At.IsZero() {
		t.Errorf("got failure %+v", f)
	}
}

func TestNewImageInSSMParameterChangesWantedRevision(t *testing.T) {
	cases := map[string]struct {
		hidden time.Duration
		why    string
	}{
		"EC2 tells the image":      {why: "image ami-1, wanted ami-2"},
		"EC2 does not know it yet": {hidden: 2 * time.Hour},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := instantOptions()
			o.NewInstanceHidden = c.hidden
			s := start(t, o)
			s.AddParameter("/image", "ami-1")
			id := s.AddTemplate("workers", awscloud.TemplateVersion{Image: "resolve:ssm:/image", InstanceType: "m6i.large"})
			s.addGroup(awscloud.GroupSpec{Name: "workers", Zones: []string{"us-east-1a"}, Counts: []int{1}, Max: 4, Template: awscloud.TemplateRef{ID: id, Version: "1"}})
			before := s.observe("workers", "")
			s.AddParameter("/image", "ami-2")
			after := s.observe("workers", "")
			if before.Wanted.ID == after.Wanted.ID || after.Wanted.Image != "ami-2" || after.Wanted.Kubernetes != "v1.32" {
				t.Errorf("the revision was %+v and is %+v", before.Wanted, after.Wanted)
			}
			if before.Instances[0].Outdated || after.Instances[0].Why != c.why {
				t.Errorf("outdated %v before, and then %q, want %q", before.Instances[0].Outdated, after.Instances[0].Why, c.why)
			}
		})
	}
}

func TestInstanceWithReplacedRootVolumeIsOutdated(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers(func(g *awscloud.GroupSpec) { g.InitialVersion = 2 })
	if err := s.ReplaceRootVolume(s.status().Instances[0].ID, "ami-3"); err != nil {
		t.Fatal(err)
	}
	outdated := slices.DeleteFunc(s.observe("workers", "").Instances, func(i nodegroup.Instance) bool { return !i.Outdated })
	if len(outdated) != 1 || outdated[0].Why != "image ami-3, wanted ami-2" {
		t.Errorf("got %+v", outdated)
	}
}

func TestNodeOfTerminatedInstanceStaysInGroup(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	nodes := s.nodes("workers")
	g := s.observe("workers", "")
	s.mustDo(nodegroup.Terminate{Instance: g.Instances[0].ID, Shrink: true})
	if err := s.WaitForGroup(t.Context(), "workers", func(g awscloud.GroupStatus) bool { return len(g.Instances) == 2 }); err != nil {
		t.Fatal(err)
	}
	g = s.observe("workers", "")
	for _, n := range nodes {
		if !s.Belongs(&g, n) || !s.Outdated(&g, n) {
			t.Errorf("%s: belongs %v, outdated %v", n.Spec.ProviderID, s.Belongs(&g, n), s.Outdated(&g, n))
		}
	}
	if stranger := node("us-east-1a", "i-0123456789abcdef0"); s.Belongs(&g, stranger) {
		t.Error("a node whose instance was never seen belongs to the group")
	}
}
