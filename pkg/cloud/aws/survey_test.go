package aws_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// TestSurveyReadsLaunchAndTerminationTimes checks a survey of a group from which one machine was terminated.
func TestSurveyReadsLaunchAndTerminationTimes(t *testing.T) {
	o := instantOptions()
	o.Terminate = 300 * time.Millisecond
	s := start(t, o)
	s.addWorkers()
	before := s.observe("workers", "")
	s.mustDo(nodegroup.Terminate{Instance: before.Instances[0].ID, Shrink: true})
	err := s.WaitForGroup(t.Context(), "workers", func(g awscloud.GroupStatus) bool { return len(g.Instances) == len(before.Instances)-1 })
	if err != nil {
		t.Fatal(err)
	}
	group := s.observe("workers", "")
	zone := group.Instances[0].Zone
	s.SetFreeAddresses(zone, 7)
	s.requests()
	h, err := s.Survey(t.Context(), &group)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.calls(); got != "DescribeInstances DescribeScalingActivities DescribeSubnets" {
		t.Errorf("sent %s", got)
	}
	if len(h.Terminations) != 1 || h.Terminations[0] < o.Terminate || h.Terminations[0] > o.Terminate+10*time.Second {
		t.Errorf("terminations took %v, want one of %s or a little more", h.Terminations, o.Terminate)
	}
	for _, i := range group.Instances {
		if ago := time.Since(h.Launched[i.ID]); ago < 30*time.Minute || ago > 2*time.Hour {
			t.Errorf("instance %s was launched %s ago, want an hour", i.ID, ago)
		}
	}
	if len(h.Launched) != len(group.Instances) {
		t.Errorf("launches of %d instances are known, want %d", len(h.Launched), len(group.Instances))
	}
	has := func(subnet nodegroup.Subnet) bool {
		return subnet.Zone == zone && subnet.Free == 7 && subnet.CIDR.IsValid()
	}
	if len(h.Subnets) != len(group.Instances) || !slices.ContainsFunc(h.Subnets, has) {
		t.Errorf("got subnets %v, want one for each instance and 7 free addresses in zone %s", h.Subnets, zone)
	}
}

// TestSurveyNamesDeniedReads checks that a survey returns the facts that the user may read, and that its error names the denied
// action.
func TestSurveyNamesDeniedReads(t *testing.T) {
	cases := map[string]struct {
		operation, service string
		launched           bool
	}{
		"activities": {"DescribeScalingActivities", "autoscaling", true},
		"instances":  {"DescribeInstances", "ec2", false},
		"subnets":    {"DescribeSubnets", "ec2", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, instantOptions())
			s.addWorkers()
			group := s.observe("workers", "")
			s.InjectFault(awscloud.Fault{Service: c.service, Operation: c.operation, Code: "UnauthorizedOperation"})
			h, err := s.Survey(t.Context(), &group)
			s.wantOutcome(err, nodegroup.OutcomeFatal, c.operation)
			if (len(h.Launched) > 0) != c.launched || len(h.Terminations) > 0 {
				t.Errorf("read %+v", h)
			}
		})
	}
}

func TestSurveyOfEmptyGroupSendsNoRequests(t *testing.T) {
	s := start(t, instantOptions())
	if h, err := s.Survey(t.Context(), &nodegroup.Group{Name: "workers"}); err != nil || len(h.Launched)+len(h.Terminations) > 0 || s.calls() != "" {
		t.Errorf("read %+v, error %v", h, err)
	}
}
