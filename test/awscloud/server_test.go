package awscloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// TestProgramWithEnvReachesSimulatedAWS checks that an SDK client with only the environment of Env reaches the stand-in.
func TestProgramWithEnvReachesSimulatedAWS(t *testing.T) {
	c, _ := start(t, shortTimes())
	for _, kv := range c.Env() {
		k, v, _ := strings.Cut(kv, "=")
		t.Setenv(k, v)
	}
	cfg := must(awsconfig.LoadDefaultConfig(t.Context()))(t)
	out := must(sts.NewFromConfig(cfg).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}))(t)
	equal(t, "account and ARN", [2]string{*out.Account, *out.Arn}, [2]string{"123456789012", "arn:aws:iam::123456789012:user/upgrader"})
}

func TestDescribeGroupsReturnsPages(t *testing.T) {
	c, template := start(t, shortTimes())
	for i := range 53 {
		spec := awscloud.GroupSpec{Name: fmt.Sprintf("g%02d", i), Zones: []string{zoneA}, Max: 1, Template: awscloud.TemplateRef{ID: template}}
		if err := c.AddGroup(spec); err != nil {
			t.Fatal(err)
		}
	}
	sizes := func(records *int32) (list []int) {
		in := &as.DescribeAutoScalingGroupsInput{MaxRecords: records}
		for p := as.NewDescribeAutoScalingGroupsPaginator(scaling(c), in); p.HasMorePages(); {
			list = append(list, len(must(p.NextPage(t.Context()))(t).AutoScalingGroups))
		}
		return list
	}
	equal(t, "pages", sizes(nil), []int{50, 3})
	equal(t, "pages of 20", sizes(aws.Int32(20)), []int{20, 20, 13})
	equal(t, "pages of 100", sizes(aws.Int32(100)), []int{53})
	_, err := scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{NextToken: aws.String("x")})
	if e := (*at.InvalidNextToken)(nil); !errors.As(err, &e) {
		t.Errorf("got %v, want InvalidNextToken", err)
	}
	_, err = scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{MaxRecords: aws.Int32(101)})
	wantCode(t, err, "ValidationError")
	_, err = scaling(c).DescribeAutoScalingInstances(t.Context(), &as.DescribeAutoScalingInstancesInput{InstanceIds: make([]string, 51)})
	equal(t, "too many ids", wantCode(t, err, "ValidationError"), "The number of instance ids that may be passed in is limited to 50")
}

func TestDescribeGroupsFindsGroupsByNameAndTag(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, nil)
	addGroup(t, c, template, nil, func(s *awscloud.GroupSpec) { s.Name, s.Tags = "h", map[string]string{"team": "red"} })
	names := func(in as.DescribeAutoScalingGroupsInput) (list []string) {
		for _, g := range must(scaling(c).DescribeAutoScalingGroups(t.Context(), &in))(t).AutoScalingGroups {
			list = append(list, *g.AutoScalingGroupName)
		}
		return list
	}
	filter := func(name, value string) []at.Filter {
		return []at.Filter{{Name: aws.String(name), Values: []string{value}}}
	}
	for name, tc := range map[string]struct {
		in   as.DescribeAutoScalingGroupsInput
		want []string
	}{
		"all":                             {as.DescribeAutoScalingGroupsInput{}, []string{"g", "h"}},
		"by name, unknown names dropped":  {as.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"h", "x"}}, []string{"h"}},
		"by tag":                          {as.DescribeAutoScalingGroupsInput{Filters: filter("tag:team", "red")}, []string{"h"}},
		"by the value of another tag":     {as.DescribeAutoScalingGroupsInput{Filters: filter("tag:team", "owned")}, nil},
		"by key":                          {as.DescribeAutoScalingGroupsInput{Filters: filter("tag-key", "team")}, []string{"h"}},
		"by value":                        {as.DescribeAutoScalingGroupsInput{Filters: filter("tag-value", "owned")}, []string{"g"}},
		"by two filters that both matter": {as.DescribeAutoScalingGroupsInput{Filters: append(filter("tag-key", "team"), filter("tag-value", "owned")...)}, nil},
	} {
		t.Run(name, func(t *testing.T) { equal(t, "names", names(tc.in), tc.want) })
	}
	out := must(scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"g"}, IncludeInstances: aws.Bool(false)}))(t)
	equal(t, "instances left out", len(out.AutoScalingGroups[0].Instances), 0)
	_, err := scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{Filters: filter("colour", "red")})
	wantCode(t, err, "ValidationError")
}

func TestGroupsOfOneRegionAreNotInAnother(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, nil)
	cfg := config(c)
	cfg.Region = "eu-west-1"
	groups := must(as.NewFromConfig(cfg).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{}))(t)
	machines := must(ec2.NewFromConfig(cfg).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}))(t)
	equal(t, "groups and instances there", [2]int{len(groups.AutoScalingGroups), len(machines.Reservations)}, [2]int{})
	equal(t, "region in the log", c.Requests()[0].Region, "eu-west-1")
}

func TestDescribeCallsShowChangesAfterALag(t *testing.T) {
	o := shortTimes()
	o.DescribeLag = 300 * time.Millisecond
	c, template := start(t, o)
	addGroup(t, c, template, []int{1}, nil)
	seen := func() int32 {
		out := must(scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{}))(t)
		if len(out.AutoScalingGroups) == 0 {
			return -1
		}
		return *out.AutoScalingGroups[0].DesiredCapacity
	}
	await(t, c, "the group to show", func(awscloud.GroupStatus) bool { return seen() == 1 })
	before := time.Now()
	if err := c.SetDesired("g", 3); err != nil {
		t.Fatal(err)
	}
	equal(t, "desired, in truth", status(t, c).Desired, 3)
	await(t, c, "the change to show", func(awscloud.GroupStatus) bool { return seen() == 3 })
	if took := time.Since(before); took < o.DescribeLag {
		t.Errorf("the change shows after %v, want %v", took, o.DescribeLag)
	}
}

func TestInjectedFaultsAreReturnedInOrder(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, nil)
	call := func() error {
		_, err := scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{})
		return err
	}
	c.InjectFault(awscloud.Fault{Service: "ec2", Code: "RequestLimitExceeded"})
	c.InjectFault(awscloud.Fault{Operation: "DescribeAutoScalingGroups", Times: 2, Code: "Throttling"})
	c.InjectFault(awscloud.Fault{Operation: "DescribeAutoScalingGroups", Code: "InternalFailure"})
	equal(t, "first", wantCode(t, call(), "Throttling"), "Rate exceeded")
	wantCode(t, call(), "Throttling")
	wantCode(t, call(), "InternalFailure")
	if err := call(); err != nil {
		t.Errorf("after the faults: %v", err)
	}
	_, err := compute(c).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	equal(t, "of EC2", wantCode(t, err, "RequestLimitExceeded"), "Request limit exceeded.")
	var statuses []int
	for _, r := range c.Requests() {
		statuses = append(statuses, r.Status)
	}
	equal(t, "statuses", statuses, []int{400, 400, 500, 200, 503})
	c.InjectFault(awscloud.Fault{Times: -1, Code: "Throttling"})
	for range 3 {
		wantCode(t, call(), "Throttling")
	}
	c.ClearFaults()
	if err := call(); err != nil {
		t.Errorf("after ClearFaults: %v", err)
	}
}

func TestInjectedScalingActivityInProgressIsATypedError(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, nil)
	c.InjectFault(awscloud.Fault{Operation: "TerminateInstanceInAutoScalingGroup", Code: "ScalingActivityInProgress"})
	in := &as.TerminateInstanceInAutoScalingGroupInput{InstanceId: aws.String(status(t, c).Instances[0].ID), ShouldDecrementDesiredCapacity: aws.Bool(true)}
	_, err := scaling(c).TerminateInstanceInAutoScalingGroup(t.Context(), in)
	if e := (*at.ScalingActivityInProgressFault)(nil); !errors.As(err, &e) {
		t.Errorf("got %v, want the typed fault", err)
	}
	equal(t, "desired", status(t, c).Desired, 1)
}

// TestSDKRepeatsCallAfterDroppedConnection checks that the SDK repeats a call whose connection was closed after the change.
func TestSDKRepeatsCallAfterDroppedConnection(t *testing.T) {
	c, template := start(t, shortTimes())
	// The hook keeps the instance in the group until the repeated call.
	addGroup(t, c, template, []int{1, 1, 1}, func(s *awscloud.GroupSpec) { s.TerminatingHook = time.Hour })
	cfg := config(c)
	cfg.RetryMaxAttempts = 0 // it would override the retryer
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 2, time.Millisecond })
	}
	client := as.NewFromConfig(cfg)
	c.InjectFault(awscloud.Fault{Operation: "LaunchInstances", AfterEffect: true})
	must(client.LaunchInstances(t.Context(), inputToLaunchIn(zoneA, 1, "t")))(t)
	equal(t, "desired after a repeated launch with a token", status(t, c).Desired, 4)

	c.InjectFault(awscloud.Fault{Operation: "TerminateInstanceInAutoScalingGroup", AfterEffect: true})
	must(client.TerminateInstanceInAutoScalingGroup(t.Context(), &as.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: aws.String(status(t, c).Instances[0].ID), ShouldDecrementDesiredCapacity: aws.Bool(true),
	}))(t)
	equal(t, "desired after a repeated termination", status(t, c).Desired, 2)

	c.InjectFault(awscloud.Fault{Operation: "SetDesiredCapacity", AfterEffect: true, Code: "InternalFailure"})
	_, err := scaling(c).SetDesiredCapacity(t.Context(), &as.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(5)})
	wantCode(t, err, "InternalFailure")
	equal(t, "desired after an error that came late", status(t, c).Desired, 5)

	c.InjectFault(awscloud.Fault{Operation: "SetDesiredCapacity"})
	if _, err := scaling(c).SetDesiredCapacity(t.Context(), &as.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(6)}); err == nil {
		t.Error("a dropped request was answered")
	}
	equal(t, "desired after a request that was lost", status(t, c).Desired, 5)
}

func TestServerRecordsAndLogsEachRequest(t *testing.T) {
	var lines bytes.Buffer
	o := shortTimes()
	o.Log = &lines
	c, template := start(t, o)
	addGroup(t, c, template, []int{1}, nil)
	must(scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"g"}}))(t)
	version := &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: aws.String(template), LaunchTemplateData: &et.RequestLaunchTemplateData{ImageId: aws.String("ami-new")}, DryRun: aws.Bool(true)}
	_, err := compute(c).CreateLaunchTemplateVersion(t.Context(), version)
	wantCode(t, err, "DryRunOperation")
	version.DryRun = nil
	must(compute(c).CreateLaunchTemplateVersion(t.Context(), version))(t)
	_, err = scaling(c).SetDesiredCapacity(t.Context(), &as.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(99)})
	wantCode(t, err, "ValidationError")
	_, err = ssm.NewFromConfig(config(c)).GetParameters(t.Context(), &ssm.GetParametersInput{Names: []string{"/a", "/b"}})
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	requests := c.Requests()
	for _, r := range requests {
		got = append(got, fmt.Sprintf("%s %s %v %d%s", r.Service, r.Operation, r.Mutating, r.Status, r.Code))
	}
	equal(t, "requests", got, []string{
		"autoscaling DescribeAutoScalingGroups false 200",
		"ec2 CreateLaunchTemplateVersion false 412DryRunOperation",
		"ec2 CreateLaunchTemplateVersion true 200",
		"autoscaling SetDesiredCapacity true 400ValidationError",
		"ssm GetParameters false 200",
	})
	equal(t, "parameters", requests[0].Params, map[string]string{"AutoScalingGroupNames.member.1": "g"})
	equal(t, "parameters in JSON", requests[4].Params, map[string]string{"Names.1": "/a", "Names.2": "/b"})
	if !strings.Contains(requests[0].UserAgent, "aws-sdk-go-v2") {
		t.Errorf("got user agent %q", requests[0].UserAgent)
	}
	var last awscloud.Request
	written := bytes.Split(bytes.TrimSpace(lines.Bytes()), []byte("\n"))
	if err := json.Unmarshal(written[len(written)-1], &last); err != nil || len(written) != 5 || last.Operation != "GetParameters" {
		t.Errorf("got %d lines, the last %+v, %v", len(written), last, err)
	}
}

func TestEachServiceRejectsInvalidAndExpiredCredentials(t *testing.T) {
	c, _ := start(t, shortTimes())
	cfg := config(c)
	calls := map[string]func(context.Context) error{
		"sts": func(ctx context.Context) error {
			_, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
			return err
		},
		"autoscaling": func(ctx context.Context) error {
			_, err := as.NewFromConfig(cfg).DescribeAutoScalingGroups(ctx, &as.DescribeAutoScalingGroupsInput{})
			return err
		},
		"ec2": func(ctx context.Context) error {
			_, err := ec2.NewFromConfig(cfg).DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
			return err
		},
		"eks": func(ctx context.Context) error {
			_, err := eks.NewFromConfig(cfg).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("shop")})
			return err
		},
		"ssm": func(ctx context.Context) error {
			_, err := ssm.NewFromConfig(cfg).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/a")})
			return err
		},
	}
	for service, want := range map[string][2]string{
		"sts":         {"InvalidClientTokenId", "ExpiredToken"},
		"autoscaling": {"InvalidClientTokenId", "ExpiredToken"},
		"ec2":         {"AuthFailure", "RequestExpired"},
		"eks":         {"UnrecognizedClientException", "ExpiredTokenException"},
		"ssm":         {"UnrecognizedClientException", "ExpiredTokenException"},
	} {
		t.Run(service, func(t *testing.T) {
			c.RejectCredentials(awscloud.CredentialsInvalid)
			wantCode(t, calls[service](t.Context()), want[0])
			c.RejectCredentials(awscloud.CredentialsExpired)
			wantCode(t, calls[service](t.Context()), want[1])
		})
	}
	c.RejectCredentials(awscloud.CredentialsFine)
	if err := calls["sts"](t.Context()); err != nil {
		t.Errorf("with good credentials: %v", err)
	}
}

func TestRequestsNeedASignature(t *testing.T) {
	c, _ := start(t, shortTimes())
	res := must(http.Post(c.URL(), "application/x-www-form-urlencoded", strings.NewReader("Action=GetCallerIdentity&Version=2011-06-15")))(t)
	defer res.Body.Close()
	equal(t, "status", res.StatusCode, http.StatusForbidden)
	equal(t, "code", c.Requests()[0].Code, "MissingAuthenticationToken")
}

func TestUnknownActionsAreRefused(t *testing.T) {
	c, _ := start(t, shortTimes())
	_, err := scaling(c).DescribePolicies(t.Context(), &as.DescribePoliciesInput{})
	wantCode(t, err, "InvalidAction")
	_, err = compute(c).DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{})
	wantCode(t, err, "InvalidAction")
	_, err = eks.NewFromConfig(config(c)).ListClusters(t.Context(), &eks.ListClustersInput{})
	wantCode(t, err, "UnknownOperationException")
	_, err = ssm.NewFromConfig(config(c)).DescribeParameters(t.Context(), &ssm.DescribeParametersInput{})
	wantCode(t, err, "UnknownOperationException")
}

func TestGetParameterReturnsNewestValue(t *testing.T) {
	c, _ := start(t, shortTimes())
	const name = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
	c.AddParameter(name, "ami-old")
	c.AddParameter(name, "ami-new")
	client := ssm.NewFromConfig(config(c))
	one := must(client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(name)}))(t)
	equal(t, "value and ARN", [2]string{*one.Parameter.Value, *one.Parameter.ARN}, [2]string{"ami-new", "arn:aws:ssm:us-east-1::parameter" + name})
	equal(t, "version", one.Parameter.Version, 2)
	many := must(client.GetParameters(t.Context(), &ssm.GetParametersInput{Names: []string{name, "/none"}}))(t)
	equal(t, "found and not", [2]int{len(many.Parameters), len(many.InvalidParameters)}, [2]int{1, 1})
	_, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/none")})
	if e := (*ssmtypes.ParameterNotFound)(nil); !errors.As(err, &e) {
		t.Errorf("got %v, want ParameterNotFound", err)
	}
	_, err = client.GetParameters(t.Context(), &ssm.GetParametersInput{Names: slices.Repeat([]string{"/a"}, 11)})
	wantCode(t, err, "ValidationException")
}

func TestEKSReturnsAddedNodeGroup(t *testing.T) {
	host := &recorder{}
	o := shortTimes()
	o.Nodes = host
	c, _ := start(t, o)
	own := c.AddTemplate("web", awscloud.TemplateVersion{InstanceType: "m5.large", UserData: "--node-labels=team=web"})
	spec := awscloud.NodegroupSpec{
		CustomTemplate: awscloud.TemplateRef{ID: own, Version: "1"},
		Cluster:        "shop", Name: "web", Version: "1.32", ReleaseVersion: "1.32.1-20260101", Image: "ami-old", InstanceType: "m5.large",
		Labels: map[string]string{"tier": "web"}, MaxUnavailable: 2, Strategy: ekstypes.NodegroupUpdateStrategiesMinimal,
		Group: awscloud.GroupSpec{Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Min: 1, Max: 4},
	}
	if _, err := c.AddManagedNodegroup(spec); err == nil {
		t.Fatal("a node group was added to a cluster that does not exist")
	}
	c.AddCluster("shop", "1.33")
	name := must(c.AddManagedNodegroup(spec))(t)
	if err := c.SetDesired(name, 3); err != nil {
		t.Fatal(err)
	}

	client := eks.NewFromConfig(config(c))
	cluster := must(client.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String("shop")}))(t)
	equal(t, "cluster version", *cluster.Cluster.Version, "1.33")
	list := must(client.ListNodegroups(t.Context(), &eks.ListNodegroupsInput{ClusterName: aws.String("shop")}))(t)
	equal(t, "node groups", list.Nodegroups, []string{"web"})
	n := must(client.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{ClusterName: aws.String("shop"), NodegroupName: aws.String("web")}))(t).Nodegroup
	equal(t, "group", *n.Resources.AutoScalingGroups[0].Name, name)
	equal(t, "sizes", *n.ScalingConfig, ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(4), DesiredSize: aws.Int32(3)})
	equal(t, "template", *n.LaunchTemplate, ekstypes.LaunchTemplateSpecification{Id: aws.String(own), Name: aws.String("web"), Version: aws.String("1")})
	equal(t, "strategy", n.UpdateConfig.UpdateStrategy, ekstypes.NodegroupUpdateStrategiesMinimal)

	group := must(c.Group(name))(t)
	m, _ := host.machine(group.Instances[0].Node)
	equal(t, "labels", m.Labels, map[string]string{
		"eks.amazonaws.com/nodegroup": "web", "eks.amazonaws.com/nodegroup-image": "ami-old", "eks.amazonaws.com/capacityType": "ON_DEMAND",
		"eks.amazonaws.com/sourceLaunchTemplateId": own, "eks.amazonaws.com/sourceLaunchTemplateVersion": "1", "tier": "web", "team": "web",
	})
	for what, err := range map[string]error{
		"cluster": func() error {
			_, err := client.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String("x")})
			return err
		}(),
		"node group": func() error {
			_, err := client.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{ClusterName: aws.String("shop"), NodegroupName: aws.String("x")})
			return err
		}(),
	} {
		if e := (*ekstypes.ResourceNotFoundException)(nil); !errors.As(err, &e) || e.ErrorMessage() != "No "+what+" found for name: x." {
			t.Errorf("unknown %s: got %v", what, err)
		}
	}
}

func TestStopEndsALongCall(t *testing.T) {
	o := shortTimes()
	o.LaunchCall = time.Hour
	c, template := start(t, o)
	addGroup(t, c, template, []int{1}, nil)
	answered := make(chan error, 1)
	go func() {
		_, err := scaling(c).LaunchInstances(context.Background(), inputToLaunchIn(zoneA, 1, "t"))
		answered <- err
	}()
	// When the call has arrived, its token is in use: a call with other parameters is refused.
	await(t, c, "the call", func(awscloud.GroupStatus) bool {
		_, err := scaling(c).LaunchInstances(t.Context(), inputToLaunchIn("us-east-1f", 1, "t"))
		return strings.Contains(err.Error(), "IdempotentParameterMismatch")
	})
	before := time.Now()
	c.Stop()
	if took := time.Since(before); took > 2*time.Second {
		t.Errorf("Stop took %v: it did not end the call", took)
	}
	if err := <-answered; err == nil {
		t.Error("a launch succeeded that takes an hour")
	}
}
