package awscloud_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// startCustom starts a stand-in with a node group on version 1 of a customer's launch template. The template has one version
// for each image. The second result is the template's id.
func startCustom(t *testing.T, release string, images ...string) (*managed, string) {
	t.Helper()
	c, _ := start(t, shortTimes())
	c.AddCluster("shop", "1.33")
	var versions []awscloud.TemplateVersion
	for _, image := range images {
		versions = append(versions, awscloud.TemplateVersion{Image: image, InstanceType: "m5.large"})
	}
	if err := c.PublishRelease(release132, "ami-132"); err != nil {
		t.Fatal(err)
	}
	if err := c.PublishRelease(release133, "ami-133"); err != nil {
		t.Fatal(err)
	}
	own := c.AddTemplate("own", versions...)
	c.AddTemplate("other", versions...)
	group := must(c.AddManagedNodegroup(awscloud.NodegroupSpec{
		Cluster: "shop", Name: "web", ReleaseVersion: release, InstanceType: "m5.large", CustomTemplate: awscloud.TemplateRef{ID: own, Version: "1"},
		Strategy: ekstypes.NodegroupUpdateStrategiesMinimal,
		Group:    awscloud.GroupSpec{Zones: []string{zoneA}, Counts: []int{1}, Min: 1, Max: 1},
	}))(t)
	return &managed{Cloud: c, t: t, eks: eks.NewFromConfig(config(c)), group: group}, own
}

// toVersion requests a version of the customer's template.
func toVersion(version string) func(*eks.UpdateNodegroupVersionInput) {
	return func(in *eks.UpdateNodegroupVersionInput) {
		in.Version = nil
		in.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Name: aws.String("own"), Version: aws.String(version)}
	}
}

func TestCustomImageIsUpdatedByTemplateVersion(t *testing.T) {
	m, own := startCustom(t, "", "ami-old", "ami-new")
	equal(t, "AMI type", m.nodegroup().AmiType, ekstypes.AMITypesCustom)
	equal(t, "release", *m.nodegroup().ReleaseVersion, "ami-old")
	u := must(m.requestUpdate(toVersion("2")))(t)
	m.waitForUpdate(awscloud.UpdateState.Ended)
	u = m.update(*u.Id)
	equal(t, "status", u.Status, ekstypes.UpdateStatusSuccessful)
	params := map[ekstypes.UpdateParamType]string{}
	for _, p := range u.Params {
		params[p.Type] = *p.Value
	}
	equal(t, "parameters", params, map[ekstypes.UpdateParamType]string{
		"Version": "1.33", "ReleaseVersion": "ami-new", "LaunchTemplateName": "own", "LaunchTemplateVersion": "2",
	})
	n := m.nodegroup()
	equal(t, "template", *n.LaunchTemplate, ekstypes.LaunchTemplateSpecification{Id: aws.String(own), Name: aws.String("own"), Version: aws.String("2")})
	equal(t, "release", *n.ReleaseVersion, "ami-new")
	equal(t, "image", must(m.Group(m.group))(t).Instances[0].Image, "ami-new")
}

func TestTemplateWithoutImageIsUpdatedByRelease(t *testing.T) {
	m, _ := startCustom(t, release132, "", "")
	equal(t, "AMI type", m.nodegroup().AmiType, ekstypes.AMITypesAl2023X8664Standard)
	must(m.requestUpdate(func(in *eks.UpdateNodegroupVersionInput) { toVersion("2")(in); in.Version = aws.String("1.33") }))(t)
	m.waitForUpdate(awscloud.UpdateState.Ended)
	n := m.nodegroup()
	equal(t, "release and template version", [2]string{*n.ReleaseVersion, *n.LaunchTemplate.Version}, [2]string{release133, "2"})
}

func TestUpdateThatDoesNotFitTemplateIsRefused(t *testing.T) {
	type in = *eks.UpdateNodegroupVersionInput
	custom := []string{"ami-old", "ami-new", ""}
	for name, test := range map[string]struct {
		change func(in)
		says   string
	}{
		"no template": {func(i in) { i.Version = nil }, "Launch template details can't be null for Custom ami type node group"},
		"a version": {
			func(i in) { toVersion("2")(i); i.Version = aws.String("1.33") },
			"You cannot specify the field kubernetesVersion when using custom AMIs.",
		},
		"a release": {
			func(i in) { toVersion("2")(i); i.ReleaseVersion = aws.String(release133) },
			"You cannot specify the field releaseVersion when using custom AMIs.",
		},
		"another template":                    {func(i in) { toVersion("2")(i); i.LaunchTemplate.Name = aws.String("other") }, "was created with"},
		"an unknown version":                  {toVersion("9"), "Could not find the specified version 9"},
		"a template version without an image": {toVersion("3"), "AMI type CUSTOM"},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := startCustom(t, "", custom...)
			_, err := m.requestUpdate(test.change)
			if says := wantCode(t, err, "InvalidParameterException"); !strings.Contains(says, test.says) {
				t.Errorf("got %q, want %q in it", says, test.says)
			}
		})
	}
}
