package aws_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// startWithTargetGroups starts a site with three target groups. Group workers registers its instances in own. Objects of the
// cluster name web and pods.
func startWithTargetGroups(t *testing.T, o awscloud.Options) (s *site, own, web, pods string) {
	s = start(t, o)
	own = s.AddTargetGroup(awscloud.TargetGroupSpec{Name: "own", DeregistrationDelay: 80 * time.Millisecond, ShownDeregistrationDelay: 300 * time.Second})
	web = s.AddTargetGroup(awscloud.TargetGroupSpec{Name: "web", DeregistrationDelay: time.Hour})
	pods = s.AddTargetGroup(awscloud.TargetGroupSpec{Name: "pods", IP: true, DeregistrationDelay: 80 * time.Millisecond, ShownDeregistrationDelay: 30 * time.Second})
	s.addWorkers(func(spec *awscloud.GroupSpec) { spec.TargetGroupARNs = []string{own} })
	s.waitForTargets(own, 3)
	return s, own, web, pods
}

// waitForTargets waits until n targets are registered in the target group.
func (s *site) waitForTargets(arn string, n int) {
	s.t.Helper()
	if err := s.WaitForGroup(s.t.Context(), "workers", func(awscloud.GroupStatus) bool { return len(s.Cloud.Targets(arn)) == n }); err != nil {
		s.t.Fatal(err)
	}
}

// TestTargetGroupsAreFoundWithTheirDelays checks that the target groups of the Auto Scaling group and the bound target groups
// are found with their delays. Each delay is read once.
func TestTargetGroupsAreFoundWithTheirDelays(t *testing.T) {
	s, own, web, pods := startWithTargetGroups(t, instantOptions())
	foreign := s.AddTargetGroup(awscloud.TargetGroupSpec{Name: "theirs", Account: "999999999999"})
	group := s.observe("workers", "")
	s.requests()
	found, err := s.TargetGroups(t.Context(), &group, []string{pods, web, foreign, own, strings.Replace(web, "web", "gone", 1)})
	if err != nil {
		t.Fatal(err)
	}
	want := []nodegroup.TargetGroup{
		{ID: own, Name: "own", Delay: 5 * time.Minute, Bound: true}, {ID: pods, Name: "pods", Delay: 30 * time.Second, Bound: true}, {ID: web, Name: "web", Delay: time.Hour, Bound: true},
	}
	if !slices.Equal(found.Groups, want) {
		t.Errorf("got %+v, want %+v", found.Groups, want)
	}
	if !slices.Equal(found.Skipped, []string{"theirs of account 999999999999"}) || found.Denied != nil {
		t.Errorf("skipped %q, denied %q", found.Skipped, found.Denied)
	}
	const health, attributes = "DescribeTargetHealth", "DescribeTargetGroupAttributes"
	if got, want := s.calls(), strings.Join([]string{"DescribeAutoScalingGroups", attributes, attributes, attributes, attributes, health, health, health}, " "); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	if found, err = s.TargetGroups(t.Context(), &group, nil); err != nil || len(found.Groups) != 1 || found.Groups[0].Bound {
		t.Errorf("of the Auto Scaling group alone: %+v, %v", found, err)
	}
	if got := s.calls(); strings.Contains(got, attributes) {
		t.Errorf("a delay is read again: %s", got)
	}
}

// TestDeniedReadsOfTargetGroupsAreReported checks that the result names the denied action and contains no target group.
func TestDeniedReadsOfTargetGroupsAreReported(t *testing.T) {
	for _, operation := range []string{"DescribeTargetGroupAttributes", "DescribeTargetHealth"} {
		t.Run(operation, func(t *testing.T) {
			s, _, web, _ := startWithTargetGroups(t, instantOptions())
			group := s.observe("workers", "")
			s.InjectFault(awscloud.Fault{Service: "elasticloadbalancing", Operation: operation, Code: "AccessDenied", Times: -1})
			found, err := s.TargetGroups(t.Context(), &group, []string{web})
			if err != nil || len(found.Groups) > 0 || !slices.Equal(found.Denied, []string{"elasticloadbalancing:" + operation}) {
				t.Errorf("got %+v, error %v", found, err)
			}
			s.ClearFaults()
			s.InjectFault(awscloud.Fault{Service: "elasticloadbalancing", Operation: operation, Code: "ValidationError", Times: -1})
			_, err = s.TargetGroups(t.Context(), &group, []string{web})
			s.wantOutcome(err, nodegroup.OutcomeFatal, "target group", "ValidationError")
		})
	}
}

// TestOnlyTargetGroupsWithGivenTargetsAreRead checks that only target groups with one of the IDs are read, while that target is
// registered, draining and gone.
func TestOnlyTargetGroupsWithGivenTargetsAreRead(t *testing.T) {
	s, _, web, pods := startWithTargetGroups(t, instantOptions())
	group := s.observe("workers", "")
	instance := group.Instances[0].ID
	for arn, id := range map[string]string{web: instance, pods: "10.0.0.7"} {
		if err := s.RegisterTarget(arn, id); err != nil {
			t.Fatal(err)
		}
	}
	found, err := s.TargetGroups(t.Context(), &group, []string{pods, web})
	if err != nil {
		t.Fatal(err)
	}
	s.requests()
	look := func(ids ...string) string {
		t.Helper()
		all, err := s.Provider.Targets(t.Context(), found.Groups, ids)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, target := range all {
			if slices.Contains(ids, target.ID) {
				lines = append(lines, fmt.Sprintf("%s %s %t", target.Group.Name, target.ID, target.Draining))
			}
		}
		slices.Sort(lines)
		return strings.Join(lines, ", ")
	}
	wants := func(when, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	wants("a registered address", look("10.0.0.7"), "pods 10.0.0.7 false")
	wants("what is asked for it", s.calls(), "DescribeTargetHealth")
	wants("a registered machine", look("10.0.0.8", instance), fmt.Sprintf("own %s false, web %s false", instance, instance))
	wants("what is asked for that", s.calls(), "DescribeTargetHealth DescribeTargetHealth")
	for arn, id := range map[string]string{web: instance, pods: "10.0.0.7"} {
		if err := s.DeregisterTarget(arn, id); err != nil {
			t.Fatal(err)
		}
	}
	wants("they are taken out", look("10.0.0.7", instance), fmt.Sprintf("own %s false, pods 10.0.0.7 true, web %s true", instance, instance))
	drained := func(awscloud.GroupStatus) bool {
		return look("10.0.0.7", instance) == fmt.Sprintf("own %s false, web %s true", instance, instance)
	}
	if err := s.WaitForGroup(t.Context(), "workers", drained); err != nil {
		t.Fatal(err)
	}
	s.mustDo(nodegroup.Terminate{Instance: instance, Shrink: true})
	if got, want := look(instance), fmt.Sprintf("own %s true", instance); !strings.Contains(got, want) {
		t.Errorf("the machine is terminated: got %q, want %q in it", got, want)
	}
}

// TestTrafficSourcesOfTypeELBv2AreTargetGroups checks that traffic sources of type elbv2 count as target groups, and that other
// traffic sources do not.
func TestTrafficSourcesOfTypeELBv2AreTargetGroups(t *testing.T) {
	s, own, web, _ := startWithTargetGroups(t, instantOptions())
	s.addGroup(awscloud.GroupSpec{
		Name: "others", Zones: []string{"us-east-1a"}, Min: 1, Max: 2, Desired: 1, Template: awscloud.TemplateRef{Name: "workers", Version: "2"},
		TrafficSources: []at.TrafficSourceIdentifier{{Identifier: sdk.String(web), Type: sdk.String("elbv2")}, {Identifier: sdk.String("arn:aws:vpc-lattice:x"), Type: sdk.String("vpc-lattice")}},
	})
	found, err := s.TargetGroups(t.Context(), &nodegroup.Group{Name: "others"}, []string{own})
	if err != nil || len(found.Groups) != 2 || found.Groups[1].ID != web || found.Groups[1].Bound || !found.Groups[0].Bound {
		t.Errorf("got %+v, error %v", found, err)
	}
}

// TestTerminationWaitsUntilTargetsAreDrained checks that the stand-in terminates a machine only after its targets have drained,
// as Auto Scaling does.
func TestTerminationWaitsUntilTargetsAreDrained(t *testing.T) {
	o := instantOptions()
	s, own, _, _ := startWithTargetGroups(t, o)
	instance := s.observe("workers", "").Instances[0].ID
	began := time.Now()
	s.mustDo(nodegroup.Terminate{Instance: instance, Shrink: true})
	if slices.Contains(s.Cloud.Targets(own), instance) {
		t.Error("the machine still gets requests")
	}
	gone := func(g awscloud.GroupStatus) bool {
		return !slices.ContainsFunc(g.Instances, func(i awscloud.InstanceStatus) bool { return i.ID == instance })
	}
	if err := s.WaitForGroup(t.Context(), "workers", gone); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 80*time.Millisecond {
		t.Errorf("the machine was gone after %s, while its target drained", took)
	}
}
