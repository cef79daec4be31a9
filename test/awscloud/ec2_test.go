package awscloud_test

import (
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

func instances(out *ec2.DescribeInstancesOutput) (list []et.Instance) {
	for _, r := range out.Reservations {
		list = append(list, r.Instances...)
	}
	return list
}

func TestDescribeInstancesReturnsOnlyRequestedInstance(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1}, nil)
	s := status(t, c)
	out := must(compute(c).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{s.Instances[1].ID}}))(t)
	list := instances(out)
	if len(list) != 1 {
		t.Fatalf("got %d instances, want 1", len(list))
	}
	i := list[0]
	equal(t, "id, image, node, zone, type",
		[5]string{*i.InstanceId, *i.ImageId, *i.PrivateDnsName, *i.Placement.AvailabilityZone, string(i.InstanceType)},
		[5]string{s.Instances[1].ID, "ami-old", s.Instances[1].Node, zoneB, "m5.large"})
	equal(t, "state", *i.State, et.InstanceState{Code: aws.Int32(16), Name: et.InstanceStateNameRunning})
	equal(t, "zone id", *i.Placement.AvailabilityZoneId, "use1-az2")
	if i.LaunchTime == nil || time.Since(*i.LaunchTime) < time.Minute {
		t.Errorf("got launch time %v, want one long ago", i.LaunchTime)
	}
	tags := map[string]string{}
	for _, g := range i.Tags {
		tags[*g.Key] = *g.Value
	}
	equal(t, "tags", tags, map[string]string{
		"aws:autoscaling:groupName": "g", "aws:ec2launchtemplate:id": template, "aws:ec2launchtemplate:version": "1", "kubernetes.io/cluster/shop": "owned",
	})
}

func TestDescribeInstancesFiltersAndPages(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{4, 3}, nil)
	in := &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), Filters: []et.Filter{
		{Name: aws.String("tag:aws:autoscaling:groupName"), Values: []string{"g", "h"}},
		{Name: aws.String("instance-state-name"), Values: []string{"running"}},
	}}
	var pages []int
	for p := ec2.NewDescribeInstancesPaginator(compute(c), in); p.HasMorePages(); {
		pages = append(pages, len(instances(must(p.NextPage(t.Context()))(t))))
	}
	equal(t, "pages", pages, []int{5, 2})
	none := must(compute(c).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
		Filters: []et.Filter{{Name: aws.String("availability-zone"), Values: []string{zoneC}}},
	}))(t)
	equal(t, "in the empty zone", len(instances(none)), 0)
}

func TestDescribeInstancesRefusesInvalidRequests(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, nil)
	known, unknown := status(t, c).Instances[0].ID, "i-0123456789abcdef0"
	for name, tc := range map[string]struct {
		in            ec2.DescribeInstancesInput
		code, message string
	}{
		"an unknown id":       {ec2.DescribeInstancesInput{InstanceIds: []string{known, unknown}}, "InvalidInstanceID.NotFound", "The instance ID '" + unknown + "' does not exist"},
		"several of them":     {ec2.DescribeInstancesInput{InstanceIds: []string{"i-12345678", unknown}}, "InvalidInstanceID.NotFound", "The instance IDs 'i-12345678, " + unknown + "' do not exist"},
		"no id at all":        {ec2.DescribeInstancesInput{InstanceIds: []string{"node-1"}}, "InvalidInstanceID.Malformed", `Invalid id: "node-1"`},
		"ids with a page":     {ec2.DescribeInstancesInput{InstanceIds: []string{known}, MaxResults: aws.Int32(5)}, "InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults"},
		"an unknown filter":   {ec2.DescribeInstancesInput{Filters: []et.Filter{{Name: aws.String("colour"), Values: []string{"red"}}}}, "InvalidParameterValue", "The filter 'colour' is invalid"},
		"a page too small":    {ec2.DescribeInstancesInput{MaxResults: aws.Int32(4)}, "InvalidParameterValue", "Value ( 4 ) for parameter maxResults is invalid. Expecting a value between 5 and 1000."},
		"a token of nobody's": {ec2.DescribeInstancesInput{NextToken: aws.String("x")}, "InvalidNextToken", "The token 'x' is invalid"},
		"a dry run":           {ec2.DescribeInstancesInput{DryRun: aws.Bool(true)}, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compute(c).DescribeInstances(t.Context(), &tc.in)
			equal(t, "message", wantCode(t, err, tc.code), tc.message)
		})
	}
}

// powerOf returns the state of an instance in EC2.
func powerOf(t *testing.T, c *awscloud.Cloud, id string) (et.InstanceStateName, error) {
	out, err := compute(c).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		return "", err
	}
	return instances(out)[0].State.Name, nil
}

func TestTerminatingInstanceIsShuttingDown(t *testing.T) {
	o := shortTimes()
	o.Terminate = time.Hour
	c, template := start(t, o)
	addGroup(t, c, template, []int{1}, nil)
	equal(t, "state", must(powerOf(t, c, terminateFirst(t, c)))(t), et.InstanceStateNameShuttingDown)
}

func TestTerminatedInstanceStaysVisible(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, nil)
	id := terminateFirst(t, c)
	await(t, c, "its end", inService(0))
	equal(t, "state", must(powerOf(t, c, id))(t), et.InstanceStateNameTerminated)
}

func TestTerminatedInstanceIsForgotten(t *testing.T) {
	o := shortTimes()
	o.TerminatedVisible = 50 * time.Millisecond
	c, template := start(t, o)
	addGroup(t, c, template, []int{1}, nil)
	id := terminateFirst(t, c)
	await(t, c, "its oblivion", func(awscloud.GroupStatus) bool { _, err := powerOf(t, c, id); return err != nil })
	_, err := powerOf(t, c, id)
	wantCode(t, err, "InvalidInstanceID.NotFound")
}

// launchHidden launches an instance that EC2 does not show for a while, and returns its id.
func launchHidden(t *testing.T, hidden time.Duration) (c *awscloud.Cloud, id string) {
	o := shortTimes()
	o.NewInstanceHidden = hidden
	c, template := start(t, o)
	addGroup(t, c, template, []int{1}, nil)
	out := must(scaling(c).LaunchInstances(t.Context(), inputToLaunchIn(zoneA, 1, "t")))(t)
	return c, out.Instances[0].InstanceIds[0]
}

func TestEC2DoesNotShowNewInstanceAtOnce(t *testing.T) {
	c, id := launchHidden(t, time.Hour)
	_, err := powerOf(t, c, id)
	wantCode(t, err, "InvalidInstanceID.NotFound")
	equal(t, "instances without asking for it", len(instances(must(compute(c).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}))(t))), 1)
}

func TestEC2ShowsNewInstanceAfterConfiguredTime(t *testing.T) {
	const hidden = 150 * time.Millisecond
	before := time.Now()
	c, id := launchHidden(t, hidden)
	await(t, c, "EC2 to know it", func(awscloud.GroupStatus) bool { _, err := powerOf(t, c, id); return err == nil })
	if took := time.Since(before); took < hidden {
		t.Errorf("known after %v, want %v", took, hidden)
	}
}

func TestDescribeLaunchTemplatesFindsTemplatesByIDAndName(t *testing.T) {
	c, template := start(t, shortTimes())
	other := c.AddTemplate("other", version("ami-old"))
	if err := c.SetDefaultVersion(template, 2); err != nil {
		t.Fatal(err)
	}
	out := must(compute(c).DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{template}}))(t)
	l := out.LaunchTemplates[0]
	equal(t, "default and latest", [2]int64{*l.DefaultVersionNumber, *l.LatestVersionNumber}, [2]int64{2, 2})
	byName := must(compute(c).DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"other"}}))(t)
	equal(t, "by name", *byName.LaunchTemplates[0].LaunchTemplateId, other)

	_, err := compute(c).DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{"lt-0"}})
	equal(t, "by id", wantCode(t, err, "InvalidLaunchTemplateId.NotFound"), "The specified launch template, with template ID lt-0, does not exist.")
	_, err = compute(c).DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"none"}})
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
}

func TestDescribeLaunchTemplateVersionsFiltersAndPages(t *testing.T) {
	c, template := start(t, shortTimes())
	numbers := func(in *ec2.DescribeLaunchTemplateVersionsInput) (list []int64) {
		in.LaunchTemplateId = aws.String(template)
		for _, v := range must(compute(c).DescribeLaunchTemplateVersions(t.Context(), in))(t).LaunchTemplateVersions {
			list = append(list, *v.VersionNumber)
		}
		return list
	}
	c.AddTemplate("workers", version("ami-new"))
	equal(t, "all, the newest first", numbers(&ec2.DescribeLaunchTemplateVersionsInput{}), []int64{3, 2, 1})
	equal(t, "$Latest and $Default", numbers(&ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"$Latest", "$Default"}}), []int64{3, 1})
	equal(t, "a range", numbers(&ec2.DescribeLaunchTemplateVersionsInput{MinVersion: aws.String("2"), MaxVersion: aws.String("2")}), []int64{2})

	out := must(compute(c).DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("workers"), Versions: []string{"1"}}))(t)
	v := out.LaunchTemplateVersions[0]
	equal(t, "default", *v.DefaultVersion, true)
	equal(t, "image and type", [2]string{*v.LaunchTemplateData.ImageId, string(v.LaunchTemplateData.InstanceType)}, [2]string{"ami-old", "m5.large"})

	_, err := compute(c).DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: aws.String(template), Versions: []string{"9"}})
	equal(t, "an unknown version", wantCode(t, err, "InvalidLaunchTemplateId.VersionNotFound"), "Could not find the specified version 9 for the launch template with ID "+template+".")

	pages := 0
	in := &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: aws.String(template), MaxResults: aws.Int32(1)}
	for p := ec2.NewDescribeLaunchTemplateVersionsPaginator(compute(c), in); p.HasMorePages(); pages++ {
		must(p.NextPage(t.Context()))(t)
	}
	equal(t, "pages", pages, 3)
}

func TestLaunchTemplateAliasFollowsTheParameter(t *testing.T) {
	c, _ := start(t, shortTimes())
	const path = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
	c.AddParameter(path, "ami-new")
	template := c.AddTemplate("alias", version("resolve:ssm:"+path))
	image := func(resolve bool) string {
		out := must(compute(c).DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
			LaunchTemplateId: aws.String(template), Versions: []string{"$Latest"}, ResolveAlias: aws.Bool(resolve),
		}))(t)
		return *out.LaunchTemplateVersions[0].LaunchTemplateData.ImageId
	}
	equal(t, "as it was written", image(false), "resolve:ssm:"+path)
	equal(t, "resolved", image(true), "ami-new")
	c.AddImage("ami-newer", "v1.33.4", "x86_64")
	c.AddParameter(path, "ami-newer")
	equal(t, "resolved later", image(true), "ami-newer")
	addGroup(t, c, template, []int{1}, func(s *awscloud.GroupSpec) { s.Template.Version, s.InitialVersion = "1", 0 })
	equal(t, "launched", status(t, c).Instances[0].Image, "ami-newer")
}

func TestCreateLaunchTemplateVersionIsIdempotent(t *testing.T) {
	c, template := start(t, shortTimes())
	in := &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: aws.String(template), SourceVersion: aws.String("1"), ClientToken: aws.String("token"), VersionDescription: aws.String("upgrade"),
		LaunchTemplateData: &et.RequestLaunchTemplateData{ImageId: aws.String("ami-new")},
	}
	out := must(compute(c).CreateLaunchTemplateVersion(t.Context(), in))(t)
	v := out.LaunchTemplateVersion
	equal(t, "number", *v.VersionNumber, 3)
	equal(t, "description", *v.VersionDescription, "upgrade")
	equal(t, "image", *v.LaunchTemplateData.ImageId, "ami-new")
	equal(t, "type of the source", v.LaunchTemplateData.InstanceType, et.InstanceTypeM5Large)
	data, err := base64.StdEncoding.DecodeString(*v.LaunchTemplateData.UserData)
	if err != nil || string(data) != version("ami-old").UserData {
		t.Errorf("got user data %q, %v, want the source's", data, err)
	}

	again := must(compute(c).CreateLaunchTemplateVersion(t.Context(), in))(t)
	equal(t, "number of the repeated call", *again.LaunchTemplateVersion.VersionNumber, 3)
	in.SourceVersion = aws.String("2")
	_, err = compute(c).CreateLaunchTemplateVersion(t.Context(), in)
	wantCode(t, err, "IdempotentParameterMismatch")
}

func TestCreateLaunchTemplateVersionRefusesInvalidRequests(t *testing.T) {
	c, template := start(t, shortTimes())
	for name, tc := range map[string]struct {
		change func(*ec2.CreateLaunchTemplateVersionInput)
		code   string
	}{
		"a dry run":           {func(in *ec2.CreateLaunchTemplateVersionInput) { in.DryRun = aws.Bool(true) }, "DryRunOperation"},
		"an unknown template": {func(in *ec2.CreateLaunchTemplateVersionInput) { in.LaunchTemplateId = aws.String("lt-0") }, "InvalidLaunchTemplateId.NotFound"},
		"an unknown source":   {func(in *ec2.CreateLaunchTemplateVersionInput) { in.SourceVersion = aws.String("9") }, "InvalidLaunchTemplateId.VersionNotFound"},
		"data that is not modelled": {func(in *ec2.CreateLaunchTemplateVersionInput) {
			in.LaunchTemplateData.EbsOptimized = aws.Bool(true)
		}, "NotModelled"},
	} {
		t.Run(name, func(t *testing.T) {
			in := &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: aws.String(template), LaunchTemplateData: &et.RequestLaunchTemplateData{ImageId: aws.String("ami-new")}}
			tc.change(in)
			_, err := compute(c).CreateLaunchTemplateVersion(t.Context(), in)
			wantCode(t, err, tc.code)
			out := must(compute(c).DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{}))(t)
			equal(t, "latest version", *out.LaunchTemplates[0].LatestVersionNumber, 2)
		})
	}
}

func TestCreateLaunchTemplateVersionKeepsTagsAndGroups(t *testing.T) {
	c, template := start(t, shortTimes())
	data := &et.RequestLaunchTemplateData{
		ImageId: aws.String("ami-new"), KeyName: aws.String("key"), SecurityGroupIds: []string{"sg-1", "sg-2"},
		TagSpecifications: []et.LaunchTemplateTagSpecificationRequest{{
			ResourceType: et.ResourceTypeInstance, Tags: []et.Tag{{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("b"), Value: aws.String("")}},
		}},
	}
	must(compute(c).CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: aws.String(template), LaunchTemplateData: data}))(t)
	out := must(compute(c).CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: aws.String(template), SourceVersion: aws.String("$Latest"), LaunchTemplateData: &et.RequestLaunchTemplateData{ImageId: aws.String("ami-old")},
	}))(t)
	d := out.LaunchTemplateVersion.LaunchTemplateData
	equal(t, "security groups", d.SecurityGroupIds, data.SecurityGroupIds)
	equal(t, "tags", d.TagSpecifications[0].Tags, data.TagSpecifications[0].Tags)
	equal(t, "key", *d.KeyName, "key")
}

func TestDescribeImagesFindsImagesByIDAndOwner(t *testing.T) {
	c, _ := start(t, shortTimes())
	out := must(compute(c).DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{"ami-new"}, Owners: []string{"amazon"}}))(t)
	i := out.Images[0]
	equal(t, "name, architecture, state", [3]string{*i.Name, string(i.Architecture), string(i.State)}, [3]string{"amazon-eks-node-al2023-x86_64-standard-1.33-ami-new", "x86_64", "available"})
	mine := must(compute(c).DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}}))(t)
	equal(t, "of the account itself", len(mine.Images), 0)
	_, err := compute(c).DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{"ami-gone"}})
	equal(t, "message", wantCode(t, err, "InvalidAMIID.NotFound"), "The image id '[ami-gone]' does not exist")
	all := must(compute(c).DescribeImages(t.Context(), &ec2.DescribeImagesInput{Filters: []et.Filter{{Name: aws.String("architecture"), Values: []string{"x86_64"}}}}))(t)
	if !slices.ContainsFunc(all.Images, func(i et.Image) bool { return *i.ImageId == "ami-old" }) || len(all.Images) != 2 {
		t.Errorf("got %d images, want both", len(all.Images))
	}
}
