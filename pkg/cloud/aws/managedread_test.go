package aws_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/aws"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// The releases in these tests. Node group web starts with the first.
const (
	release133  = "1.33.2-20260901"
	release133b = "1.33.4-20261101"
	release134  = "1.34.1-20261101"
)

// managedSite is a site with cluster shop of Kubernetes 1.34 and its node group web.
type managedSite struct {
	*site
	asg string
}

// startManaged starts a stand-in with node group web: three nodes of release133 in two zones.
func startManaged(t *testing.T, change ...func(*site, *awscloud.NodegroupSpec)) *managedSite {
	t.Helper()
	o := instantOptions()
	o.EKS = awscloud.EKSOptions{Setup: time.Millisecond, Settle: time.Millisecond}
	s := &managedSite{site: start(t, o)}
	for _, r := range [][2]string{{release133, "ami-133"}, {release133b, "ami-133b"}, {release134, "ami-134"}} {
		if err := s.PublishRelease(r[0], r[1]); err != nil {
			t.Fatal(err)
		}
	}
	s.AddCluster("shop", "1.34")
	spec := awscloud.NodegroupSpec{
		Cluster: "shop", Name: "web", ReleaseVersion: release133, InstanceType: "m6i.large",
		Group: awscloud.GroupSpec{Zones: []string{"us-east-1a", "us-east-1b"}, Counts: []int{2, 1}, Min: 1, Max: 4},
	}
	for _, c := range change {
		c(s.site, &spec)
	}
	var err error
	if s.asg, err = s.AddManagedNodegroup(spec); err != nil {
		t.Fatal(err)
	}
	return s
}

// usingTemplate makes node group web use version 1 of a user's template. The template has one version for each image. With the
// image "", EKS chooses the AMI.
func usingTemplate(images ...string) func(*site, *awscloud.NodegroupSpec) {
	return func(s *site, spec *awscloud.NodegroupSpec) {
		var versions []awscloud.TemplateVersion
		for _, image := range images {
			versions = append(versions, awscloud.TemplateVersion{Image: image, InstanceType: "m6i.large"})
		}
		spec.CustomTemplate = awscloud.TemplateRef{ID: s.AddTemplate("web", versions...), Version: "1"}
		if images[0] != "" {
			spec.ReleaseVersion = ""
		}
	}
}

func (s *managedSite) observeWeb(to string) nodegroup.Group {
	s.t.Helper()
	return s.observe("web", to)
}

// outdated returns the number of outdated instances in the group.
func outdated(g *nodegroup.Group) int {
	n := 0
	for _, i := range g.Instances {
		if i.Outdated {
			n++
		}
	}
	return n
}

// upgrade requests an upgrade of node group web to g's wanted revision.
func (s *managedSite) upgrade(g *nodegroup.Group, token string, force bool) error {
	return s.Do(s.t.Context(), "web", nodegroup.Delegate{To: g.Wanted, Token: token, Force: force})
}

func (s *managedSite) mustUpgrade(g *nodegroup.Group, token string) {
	s.t.Helper()
	if err := s.upgrade(g, token, false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *managedSite) waitForUpdate(ok func(awscloud.UpdateState) bool) awscloud.UpdateState {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	u, err := s.WaitForUpdate(ctx, "shop", "web", ok)
	if err != nil {
		s.t.Fatal(err)
	}
	return u
}

// withControlPlane135 gives the control plane Kubernetes 1.35, two versions ahead of the node group.
func withControlPlane135(s *site, _ *awscloud.NodegroupSpec) {
	s.AddCluster("shop", "1.35")
	if err := s.PublishRelease("1.35.1-20261101", "ami-135"); err != nil {
		s.t.Fatal(err)
	}
}

// TestWantedRevisionOfNodeGroupFollowsTarget checks the wanted revision for each target. It is never newer than the control plane (EKS
// E10) and never older than the present revision (EKS E11).
func TestWantedRevisionOfNodeGroupFollowsTarget(t *testing.T) {
	cases := map[string]struct {
		group      func(*site, *awscloud.NodegroupSpec)
		to         string
		wanted     string // name, AMI and Kubernetes version
		outdated   int
		refusal    string
		labelValue string // the template version in the labels of current nodes
		absent     bool   // the target is known not to exist
		unverified string // why it is not known whether the target exists
	}{
		"newest":              {wanted: "release:1.33.4-20261101 ami-133b v1.33.4", outdated: 3},
		"its own":             {to: release133, wanted: "release:1.33.2-20260901 ami-133 v1.33.2"},
		"a release":           {to: release133b, wanted: "release:1.33.4-20261101 ami-133b v1.33.4", outdated: 3},
		"its Kubernetes":      {to: "1.33", wanted: "release:1.33.4-20261101 ami-133b v1.33.4", outdated: 3},
		"the next Kubernetes": {to: "1.34", wanted: "release:1.34.1-20261101 ami-134 v1.34.1", outdated: 3},
		"release of the next": {to: release134, wanted: "release:1.34.1-20261101 ami-134 v1.34.1", outdated: 3},
		"release without parameter": {
			to: "1.33.3-20261001", wanted: "release:1.33.3-20261001  v1.33.3", outdated: 3,
			unverified: "whether release 1.33.3-20261001 exists is unknown",
		},
		"parameters denied": {
			group: func(s *site, _ *awscloud.NodegroupSpec) {
				s.InjectFault(awscloud.Fault{Service: "ssm", Operation: "GetParameters", Times: -1, Code: "AccessDeniedException", Status: 403, Message: "User: u is not authorized to perform: ssm:GetParameters"})
			},
			to: release133b, wanted: "release:1.33.4-20261101  v1.33.4", outdated: 3, unverified: "ssm:GetParameters",
		},
		"another release of the day": {to: "1.33.3-20261101", absent: true, refusal: "there is no release 1.33.3-20261101: the release of 20261101 is 1.33.4-20261101"},
		"its own is the newest": {
			group: func(_ *site, g *awscloud.NodegroupSpec) {
				g.ReleaseVersion, g.Image = "1.33.5-20261201", "ami-1"
			},
			wanted: "release:1.33.5-20261201  v1.33.5",
		},
		"template kept": {
			group: usingTemplate("", ""), wanted: "release:1.33.4-20261101 ami-133b v1.33.4", outdated: 3,
		},
		"release kept": {
			group: usingTemplate("", ""), to: "$Latest", wanted: "web:2 ami-133 v1.33.2", labelValue: "2",
		},
		"own AMI":                 {group: usingTemplate("ami-1", "ami-2"), wanted: "web:1 ami-1 v1.31", labelValue: "1"},
		"own AMI, newer":          {group: usingTemplate("ami-1", "ami-2"), to: "2", wanted: "web:2 ami-2 v1.32", outdated: 3, labelValue: "2"},
		"own AMI, $Latest":        {group: usingTemplate("ami-1", "ami-2"), to: "latest", wanted: "web:2 ami-2 v1.32", outdated: 3, labelValue: "2"},
		"own AMI, same image":     {group: usingTemplate("ami-1", "ami-1"), to: "2", wanted: "web:2 ami-1 v1.31", labelValue: "2"},
		"no such version":         {group: usingTemplate("ami-1"), to: "9", absent: true, refusal: "version 9"},
		"version without AMI":     {group: usingTemplate("ami-1", ""), to: "2", refusal: "has no AMI"},
		"version with AMI":        {group: usingTemplate("", "ami-1"), to: "2", refusal: "has AMI ami-1"},
		"no such release":         {to: "1.33.9-20270101", absent: true, refusal: "there is no release 1.33.9-20270101: the newest one of Kubernetes 1.33 is 1.33.4-20261101"},
		"no such Kubernetes":      {to: "1.35", absent: true, refusal: "there is no release of Kubernetes 1.35"},
		"newer than the cluster":  {to: "1.35.1-20261101", refusal: "the control plane has 1.34: upgrade the control plane first"},
		"Kubernetes in between":   {group: withControlPlane135, to: "1.34", refusal: "EKS can upgrade it to Kubernetes 1.35, the control plane's version, or to a newer release of 1.33"},
		"two Kubernetes on":       {group: withControlPlane135, to: "1.35", wanted: "release:1.35.1-20261101 ami-135 v1.35.1", outdated: 3},
		"older Kubernetes":        {to: "1.32.1-20261101", refusal: "cannot go back"},
		"older release":           {to: "1.33.1-20260801", refusal: "cannot go back to 1.33.1-20260801"},
		"a version, no template":  {to: "2", refusal: "created without a launch template"},
		"a release, its own AMI":  {group: usingTemplate("ami-1"), to: release133b, refusal: "create a template version with the new AMI"},
		"an AMI":                  {to: "ami-1", refusal: "EKS accepts no AMI"},
		"something else entirely": {to: "newest", absent: true, refusal: "neither a release"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := startManaged(t, func(s *site, g *awscloud.NodegroupSpec) {
				if c.group != nil {
					c.group(s, g)
				}
			})
			g := s.observeWeb(c.to)
			if g.Managed == nil || g.Name != "web" || len(g.Instances) != 3 {
				t.Fatalf("got %+v", g)
			}
			if !strings.Contains(g.Refusal, c.refusal) || g.AbsentTarget != c.absent {
				t.Errorf("refusal %q, absent %t, want %q, %t", g.Refusal, g.AbsentTarget, c.refusal, c.absent)
			}
			if unread := strings.Join(g.Unread, "; "); !strings.Contains(unread, c.unverified) || (unread == "") != (c.unverified == "") {
				t.Errorf("unread %q, want %q", unread, c.unverified)
			}
			if c.refusal != "" {
				if g.Wanted.ID != g.Pointed.ID {
					t.Errorf("it is refused, but the wanted revision is %+v", g.Wanted)
				}
				return
			}
			got := fmt.Sprintf("%s %s %s", g.Wanted.Name, g.Wanted.Image, g.Wanted.Kubernetes)
			if got != c.wanted || outdated(&g) != c.outdated {
				t.Errorf("got %s, %d outdated, want %s, %d", got, outdated(&g), c.wanted, c.outdated)
			}
			if got := g.CurrentLabels["eks.amazonaws.com/sourceLaunchTemplateVersion"]; got != c.labelValue {
				t.Errorf("current nodes have version %q of the template, want %q (EKS E29)", got, c.labelValue)
			}
			if again := s.observeWeb(g.Wanted.Name[strings.LastIndex(g.Wanted.Name, ":")+1:]); c.labelValue != "" && again.Wanted != g.Wanted || again.Wanted.ID != g.Wanted.ID && c.labelValue == "" {
				t.Errorf("with the revision name as --to got %+v, want %+v", again.Wanted, g.Wanted)
			}
		})
	}
}

// TestObserveFindsEKSUpdateThatDifferentProcessStarted starts two updates from a second client, one after the other.
func TestObserveFindsEKSUpdateThatDifferentProcessStarted(t *testing.T) {
	s := startManaged(t)
	elsewhere, err := aws.New(t.Context(), aws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, to := range []string{"1.33", "1.34"} {
		g := s.observeWeb(to)
		s.BlockDrains()
		if err := elsewhere.Do(t.Context(), "web", nodegroup.Delegate{To: g.Wanted, Token: to}); err != nil {
			t.Fatal(err)
		}
		running := s.observeWeb(to).Managed.Operation
		if running.State != nodegroup.OperationRunning || ids[running.ID] || running.To.ID != g.Wanted.ID {
			t.Errorf("update to %s: got %+v", to, running)
		}
		ids[running.ID] = true
		s.UnblockDrains()
		s.waitForUpdate(awscloud.UpdateState.Ended)
		if over := s.observeWeb(to).Managed.Operation; over.ID != running.ID || over.State != nodegroup.OperationSucceeded {
			t.Errorf("update to %s: got %+v", to, over)
		}
	}
	s.failIfChanged()
}

// failIfChanged fails the test if a request was sent that changes something.
func (s *managedSite) failIfChanged() {
	s.t.Helper()
	for _, operation := range s.changes() {
		if operation != "UpdateNodegroupVersion" {
			s.t.Errorf("%s was sent", operation)
		}
	}
}

// TestObservationOfNodeGroupSendsOnlyListedRequests checks the requests that the package comment lists.
func TestObservationOfNodeGroupSendsOnlyListedRequests(t *testing.T) {
	s := startManaged(t)
	look := func(to, want string) {
		t.Helper()
		s.requests()
		s.observeWeb(to)
		if got := s.calls(); got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
	const (
		always = "DescribeAutoScalingGroups"
		first  = "DescribeAutoScalingGroups DescribeImages DescribeInstances DescribeNodegroup"
	)
	look("", always+" "+first+" GetParameters ListUpdates")
	look("", always+" DescribeNodegroup ListUpdates")
	look("1.34", always+" DescribeCluster DescribeImages DescribeNodegroup GetParameters ListUpdates")
	look("1.34", always+" DescribeNodegroup ListUpdates")
	g := s.observeWeb("")
	s.BlockDrains()
	s.mustUpgrade(&g, "run")
	s.waitForUpdate(func(u awscloud.UpdateState) bool { return len(u.Draining) > 0 })
	s.observeWeb("")
	look("", always+" DescribeNodegroup DescribeUpdate")
	s.UnblockDrains()
	s.waitForUpdate(awscloud.UpdateState.Ended)
	s.observeWeb("")
	look("", always+" DescribeNodegroup ListUpdates")
}

// TestUserWithoutListUpdatesCanPlan checks that a user without permission to list updates can plan while no update is running.
// Unread must name what is unknown.
func TestUserWithoutListUpdatesCanPlan(t *testing.T) {
	s := startManaged(t)
	s.InjectFault(awscloud.Fault{Service: "eks", Operation: "ListUpdates", Code: "AccessDeniedException", Times: 3})
	group, err := s.Observe(t.Context(), cloud.Ref{Name: "web"})
	if err != nil || len(group.Instances) != 3 || group.Managed == nil || group.Managed.Operation.ID != "" {
		t.Errorf("got %+v, %v", group, err)
	}
	if len(group.Unread) != 1 || !strings.HasPrefix(group.Unread[0], "how its last update ended is not known: ") || !strings.Contains(group.Unread[0], "eks:ListUpdates") {
		t.Errorf("unread %q", group.Unread)
	}
	g := s.observeWeb("")
	s.BlockDrains() // otherwise the update may end before it is observed
	defer s.UnblockDrains()
	s.mustUpgrade(&g, "run/1")
	s.InjectFault(awscloud.Fault{Service: "eks", Operation: "DescribeUpdate", Code: "AccessDeniedException", Times: -1})
	if _, err := s.Observe(t.Context(), cloud.Ref{Name: "web"}); err == nil || !strings.Contains(err.Error(), "eks:DescribeUpdate") {
		t.Errorf("while an update is under way: %v, want an error that names the action", err)
	}
}

// TestUserWithoutListUpdatesSeesEndOfOwnUpdate checks that a user without permission to list updates sees the end of the update that this
// Provider started.
func TestUserWithoutListUpdatesSeesEndOfOwnUpdate(t *testing.T) {
	s := startManaged(t)
	g := s.observeWeb("")
	s.InjectFault(awscloud.Fault{Service: "eks", Operation: "ListUpdates", Code: "AccessDeniedException", Times: -1})
	s.BlockDrains() // otherwise the update may end before it is observed
	s.mustUpgrade(&g, "run/1")
	s.observeWeb("")
	s.UnblockDrains()
	s.waitForUpdate(awscloud.UpdateState.Ended)
	if group := s.observeWeb(""); group.Managed.Operation.State != nodegroup.OperationSucceeded {
		t.Errorf("the update is %+v, want one that succeeded", group.Managed.Operation)
	}
}

// TestImagesThatCannotBeReadAreReported checks that a group is described even if the user may not read its images. Unread must
// name what is unknown.
func TestImagesThatCannotBeReadAreReported(t *testing.T) {
	s := startManaged(t)
	s.addWorkers(func(*awscloud.GroupSpec) {})
	s.InjectFault(awscloud.Fault{Service: "ec2", Operation: "DescribeImages", Code: "UnauthorizedOperation", Times: -1})
	for _, name := range []string{"web", "workers"} {
		group, err := s.Observe(t.Context(), cloud.Ref{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if len(group.Unread) != 1 || !strings.HasPrefix(group.Unread[0], "the Kubernetes version of its images is unknown: ") || !strings.Contains(group.Unread[0], "ec2:DescribeImages") {
			t.Errorf("%s: unread %q", name, group.Unread)
		}
	}
}

// TestDeniedNodeGroupsAreListed checks that a node group that may not be read is listed with a Refusal. The Refusal names the
// denied action and the resource.
func TestDeniedNodeGroupsAreListed(t *testing.T) {
	for operation, service := range map[string]string{"DescribeNodegroup": "eks", "GetParameters": "ssm"} {
		t.Run(operation, func(t *testing.T) {
			s := startManaged(t)
			nodes := s.nodes(s.asg)
			action := service + ":" + operation
			s.InjectFault(awscloud.Fault{Service: service, Operation: operation, Times: -1, Code: "AccessDeniedException", Status: 403, Message: "User: u is not authorized to perform: " + action + " on resource: arn:aws:x:y because no"})
			groups, err := s.Groups(t.Context(), nodes)
			if err != nil || len(groups) != 1 || groups[0].Name != "web" || groups[0].Managed == nil {
				t.Fatalf("got %+v, %v", groups, err)
			}
			if want := "allow these credentials the IAM action " + action + " on arn:aws:x:y"; !strings.HasSuffix(groups[0].Refusal, want) {
				t.Errorf("got %q, want %q", groups[0].Refusal, want)
			}
			_, err = s.Observe(t.Context(), cloud.Ref{Name: "web"})
			s.wantOutcome(err, nodegroup.OutcomeFatal, action)
		})
	}
}

// TestClusterDecidesWhichNodeGroupOfSameNameIsUsed: the provider uses the node group of the cluster whose nodes were listed, or of
// the cluster that the user named.
func TestClusterDecidesWhichNodeGroupOfSameNameIsUsed(t *testing.T) {
	s := startManaged(t)
	s.AddCluster("bank", "1.34")
	other, err := s.AddManagedNodegroup(awscloud.NodegroupSpec{
		Cluster: "bank", Name: "web", ReleaseVersion: release133, InstanceType: "m6i.large",
		Group: awscloud.GroupSpec{Zones: []string{"us-east-1a"}, Counts: []int{1}, Min: 1, Max: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Observe(t.Context(), cloud.Ref{Name: "web"})
	s.wantOutcome(err, nodegroup.OutcomeFatal, "clusters bank and shop have a node group of that name: name your cluster with --cluster-name")
	named, err := aws.New(t.Context(), aws.Options{ClusterName: "bank"})
	if err != nil {
		t.Fatal(err)
	}
	if g, err := named.Observe(t.Context(), cloud.Ref{Name: "web"}); err != nil || len(g.Instances) != 1 {
		t.Errorf("got %d instances, %v, want the one of bank", len(g.Instances), err)
	}
	if _, err := named.Groups(t.Context(), s.nodes(other)); err != nil {
		t.Error(err)
	}
	const shop = "--cluster-name=bank: that is not the cloud's name of this cluster: its nodes belong to EKS cluster shop: remove the flag, or check --context"
	if _, err := named.Groups(t.Context(), s.nodes(s.asg)); !errors.Is(err, cloud.ErrOtherCluster) || err.Error() != shop {
		t.Errorf("got %v", err)
	}
	if _, err := s.Groups(t.Context(), s.nodes(s.asg)); err != nil {
		t.Fatal(err)
	}
	if g := s.observeWeb(""); len(g.Instances) != 3 {
		t.Errorf("got %d instances, want those of shop", len(g.Instances))
	}
	for _, name := range []string{s.asg, other} {
		if g := s.observe(name, ""); g.Name != "web" {
			t.Errorf("%s: got %s", name, g.Name)
		}
	}
}

// TestSurveyFindsLaunchesOfNodeGroup reads the history of its Auto Scaling group.
func TestSurveyFindsLaunchesOfNodeGroup(t *testing.T) {
	s := startManaged(t)
	g := s.observeWeb("")
	h, err := s.Survey(t.Context(), &g)
	if err != nil || len(h.Launched) != 3 {
		t.Errorf("got %+v, %v", h, err)
	}
}

// TestAMILabelDecidesIfNodeWithoutInstanceIsOutdated checks the label that EKS sets (EKS E28).
func TestAMILabelDecidesIfNodeWithoutInstanceIsOutdated(t *testing.T) {
	s := startManaged(t)
	g := s.observeWeb("")
	for ami, want := range map[string]bool{"ami-133": true, "ami-133b": false, "": true} {
		n := node("us-east-1a", "i-0123456789abcdef0")
		if ami != "" {
			n.Labels = map[string]string{"eks.amazonaws.com/nodegroup-image": ami}
		}
		if got := s.Outdated(&g, n); got != want {
			t.Errorf("a node of %q is outdated: %v", ami, got)
		}
	}
}
