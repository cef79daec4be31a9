package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// newNodegroup returns node group web of cluster shop: Amazon Linux 2023, release 1.33.4-20261101.
func newNodegroup(change ...func(*kt.Nodegroup)) *kt.Nodegroup {
	g := &kt.Nodegroup{
		ClusterName: sdk.String("shop"), NodegroupName: sdk.String("web"), Status: kt.NodegroupStatusActive,
		AmiType: kt.AMITypesAl2023X8664Standard, Version: sdk.String("1.33"), ReleaseVersion: sdk.String("1.33.4-20261101"),
	}
	for _, c := range change {
		c(g)
	}
	return g
}

// usingTemplate makes the node group use version 7 of the user's template workers, lt-0a.
func usingTemplate(g *kt.Nodegroup) {
	g.LaunchTemplate = &kt.LaunchTemplateSpecification{Id: sdk.String("lt-0a"), Name: sdk.String("workers"), Version: sdk.String("7")}
}

// usingCustomAMI makes the node group use a template with its own AMI.
func usingCustomAMI(g *kt.Nodegroup) {
	usingTemplate(g)
	g.AmiType, g.ReleaseVersion, g.Version = kt.AMITypesCustom, sdk.String("ami-1"), nil
}

func TestNodeGroupTargetIsReleaseOrKubernetesVersion(t *testing.T) {
	cases := map[string]struct {
		want managedTarget
		says string
	}{
		"1.33.4-20261101": {want: managedTarget{release: "1.33.4-20261101"}},
		"1.33-2026.11.10": {want: managedTarget{release: "1.33-2026.11.10"}},
		"1.50.0-fcf71a47": {want: managedTarget{release: "1.50.0-fcf71a47"}},
		"1.34":            {want: managedTarget{kubernetes: "1.34"}},
		"v1.34":           {want: managedTarget{kubernetes: "1.34"}},
		"7":               {want: managedTarget{template: "7"}},
		"latest":          {want: managedTarget{template: "$Latest"}},
		"$Default":        {want: managedTarget{template: "$Default"}},
		"ami-0abc":        {says: "EKS accepts no AMI"},
		"newest":          {says: "use a value such as 1.33.4-20261101, 1.34, 7, $Latest or $Default"},
		"1.33.4":          {says: "neither a release"},
		"0":               {says: "neither a release"},
	}
	for text, c := range cases {
		got, err := parseManagedTarget(text)
		if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}

// TestRevisionNamesAreAcceptedAsTarget checks the format of revisions. Records contain it, and --to accepts the names.
func TestRevisionNamesAreAcceptedAsTarget(t *testing.T) {
	both := newNodegroup(usingTemplate)
	byTemplate := ownRevision(both)
	byTemplate.byTemplate = true
	release, both2 := ownRevision(newNodegroup()), ownRevision(both)
	own := ownRevision(newNodegroup(usingCustomAMI))
	own.templateName = ""
	cases := map[string]struct {
		revision                   managedRevision
		id, name, kubernetes, spec string
	}{
		"release": {
			release, "release/1.33.4-20261101", "release:1.33.4-20261101", "v1.33.4",
			`{"cluster":"shop","nodegroup":"web","version":"1.33","releaseVersion":"1.33.4-20261101"}`,
		},
		"release, template kept": {
			both2, "release/1.33.4-20261101", "release:1.33.4-20261101", "v1.33.4",
			`{"cluster":"shop","nodegroup":"web","version":"1.33","releaseVersion":"1.33.4-20261101","launchTemplate":"lt-0a","launchTemplateVersion":7}`,
		},
		"template, release kept": {
			byTemplate, "lt-0a:7", "workers:7", "v1.33.4",
			`{"cluster":"shop","nodegroup":"web","version":"1.33","releaseVersion":"1.33.4-20261101","launchTemplate":"lt-0a","launchTemplateVersion":7}`,
		},
		"template with its own AMI": {
			own, "lt-0a:7", "lt-0a:7", "", `{"cluster":"shop","nodegroup":"web","launchTemplate":"lt-0a","launchTemplateVersion":7}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.revision.describeRevision()
			if got.ID != c.id || got.Name != c.name || got.Kubernetes != c.kubernetes || got.Spec != c.spec {
				t.Errorf("got %+v", got)
			}
			_, to, _ := strings.Cut(got.Name, ":")
			if _, err := parseManagedTarget(to); err != nil {
				t.Errorf("--to does not accept its name: %v", err)
			}
		})
	}
}

func TestUnsupportedTargetsOfNodeGroupsAreRejected(t *testing.T) {
	cases := map[string]struct {
		group *kt.Nodegroup
		to    string
		says  string
	}{
		"release":                       {group: newNodegroup(), to: "1.33.4-20261201"},
		"Kubernetes":                    {group: newNodegroup(usingTemplate), to: "1.34"},
		"version":                       {group: newNodegroup(usingTemplate), to: "8"},
		"version of own AMI":            {group: newNodegroup(usingCustomAMI), to: "8"},
		"release though its own AMI":    {newNodegroup(usingCustomAMI), "1.33.4-20261201", "create a template version with the new AMI"},
		"Kubernetes though its own AMI": {newNodegroup(usingCustomAMI), "1.34", "sets the AMI"},
		"version without a template":    {newNodegroup(), "$Latest", "created without a launch template"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wish, err := parseManagedTarget(c.to)
			if err != nil {
				t.Fatal(err)
			}
			if err := wish.checkSupportedBy(c.group); (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want it to say %q", err, c.says)
			}
		})
	}
}

// TestVersionsThatEKSDoesNotUpgradeToAreRefused: EKS refuses versions that are newer than the control plane (EKS E10), and
// older releases (EKS E11).
func TestVersionsThatEKSDoesNotUpgradeToAreRefused(t *testing.T) {
	cases := map[string]struct{ kubernetes, release, controlPlaneVersions, says string }{
		"newer release":           {"1.33", "1.33.4-20261201", "", ""},
		"same":                    {"1.33", "1.33.4-20261101", "", ""},
		"older release":           {"1.33", "1.33.4-20260901", "", "cannot go back to 1.33.4-20260901"},
		"the control plane's":     {"1.34", "1.34.1-20261101", "1.34", ""},
		"the control plane's, +2": {"1.35", "1.35.1-20261101", "1.35", ""},
		"in between":              {"1.34", "1.34.1-20261101", "1.35", "EKS can upgrade it to Kubernetes 1.35"},
		"older Kubernetes":        {"1.32", "1.32.9-20261201", "1.34", "cannot go back"},
		"newer than the control plane": {
			"1.34", "1.34.1-20261101", "1.33", "the control plane has 1.33: upgrade the control plane first with aws eks update-cluster-version --name shop --kubernetes-version 1.34",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := newNodegroup()
			from := ownRevision(g)
			to := from.withRelease(g.AmiType, c.kubernetes, c.release, "")
			err := checkVersionStep(g.AmiType, &from, &to, c.controlPlaneVersions)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want it to say %q", err, c.says)
			}
		})
	}
}

func TestTemplateNeedsAMIOnlyForCustomAMIType(t *testing.T) {
	r := ownRevision(newNodegroup(usingTemplate))
	if err := r.checkTemplateImage(kt.AMITypesAl2023X8664Standard); err != nil {
		t.Error(err)
	}
	if err := r.checkTemplateImage(kt.AMITypesCustom); err == nil || !strings.Contains(err.Error(), "version 7 of launch template lt-0a has no AMI") {
		t.Errorf("got %v", err)
	}
	r.image = "ami-1"
	if err := r.checkTemplateImage(kt.AMITypesCustom); err != nil {
		t.Error(err)
	}
	if err := r.checkTemplateImage(kt.AMITypesAl2023X8664Standard); err == nil || !strings.Contains(err.Error(), "has AMI ami-1") {
		t.Errorf("got %v", err)
	}
}
