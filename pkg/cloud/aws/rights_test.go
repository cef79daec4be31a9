package aws_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// TestPermissionsAreCheckedByDryRunAndIAM checks that a dry run of EC2 is sent. All other actions are unverified if the user
// may not use IAM's simulation (IAM001).
func TestPermissionsAreCheckedByDryRunAndIAM(t *testing.T) {
	const adds, launches = "ec2:CreateLaunchTemplateVersion", "autoscaling:LaunchInstances"
	const asked = "GetCallerIdentity SimulatePrincipalPolicy"
	cases := map[string]struct {
		to, code, calls string
		// denied and unverified are the expected results for adding a template version.
		denied, unverified bool
	}{
		"to a version":           {"", "", asked, false, false},
		"to an image":            {"ami-3", "", "CreateLaunchTemplateVersion " + asked, false, false},
		"which is denied":        {"ami-3", "UnauthorizedOperation", "CreateLaunchTemplateVersion " + asked, true, false},
		"of which EC2 is silent": {"ami-3", "InvalidLaunchTemplateId.NotFound", "CreateLaunchTemplateVersion " + asked, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, instantOptions())
			s.addWorkers()
			group := s.observe("workers", c.to)
			s.setPolicies(awscloud.Caller{}, publishedPolicy(t, readPolicy), publishedPolicy(t, operatePolicy))
			s.requests()
			if c.code != "" {
				s.InjectFault(awscloud.Fault{Operation: "CreateLaunchTemplateVersion", Code: c.code})
			}
			r := s.CheckRights(t.Context(), &group)
			if slices.Contains(r.Denied, adds) != c.denied || slices.Contains(r.Unverified, adds) != c.unverified || !slices.Contains(r.Unverified, launches) {
				t.Errorf("denied %v, unverified %v", r.Denied, r.Unverified)
			}
			var calls []string
			for _, request := range s.requests() {
				calls = append(calls, request.Operation)
				if request.Mutating {
					t.Errorf("asking changes something: %s", request.Operation)
				}
			}
			if calls := strings.Join(calls, " "); calls != c.calls {
				t.Errorf("sent %q, want %q", calls, c.calls)
			}
		})
	}
}

// TestActionsOfARejectedIAMRequestAreUnverified checks that the actions in a request that IAM refuses are unverified, and that
// the other requests are still sent.
func TestActionsOfARejectedIAMRequestAreUnverified(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	group := s.observe("workers", "")
	s.setPolicies(awscloud.Caller{}, publishedPolicy(t, simulatePolicy))
	s.InjectFault(awscloud.Fault{Operation: "SimulatePrincipalPolicy", Code: "InvalidInput"})
	r := s.CheckRights(t.Context(), &group)
	if verdictAbout(r, "autoscaling:LaunchInstances") != "unverified" || !slices.Equal(r.Denied, []string{"ec2:CreateFleet"}) {
		t.Errorf("denied %v, unverified %v", r.Denied, r.Unverified)
	}
}

// TestPermissionToLaunchFromATemplateIsChecked checks ec2:RunInstances. The action is checked if the group must be pointed at
// another version. It is named in the error if Auto Scaling only answers that the template may not be used.
func TestPermissionToLaunchFromATemplateIsChecked(t *testing.T) {
	const launches = "ec2:RunInstances"
	s := start(t, instantOptions())
	s.addWorkers()
	there, other := s.observe("workers", ""), s.observe("workers", "1")
	s.setPolicies(awscloud.Caller{}, publishedPolicy(t, readPolicy), publishedPolicy(t, simulatePolicy), publishedPolicyWithout(t, operatePolicy, launches))
	if r := s.CheckRights(t.Context(), &there); verdictAbout(r, launches) != "" {
		t.Errorf("a group that points there already: denied %v, unverified %v", r.Denied, r.Unverified)
	}
	if r := s.CheckRights(t.Context(), &other); verdictAbout(r, launches) != "denied" {
		t.Errorf("a group that is to point elsewhere: denied %v, unverified %v", r.Denied, r.Unverified)
	}
	err := s.do(nodegroup.SetRevision{To: other.Wanted, Token: "run/1"})
	s.wantOutcome(err, nodegroup.OutcomeFatal, "not authorized to use launch template", "the IAM action "+launches)
}
