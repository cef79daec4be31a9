package aws_test

import (
	"slices"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// TestAskRights asks EC2 by a dry run, and nothing else (IAM001).
func TestAskRights(t *testing.T) {
	const adds, launches = "ec2:CreateLaunchTemplateVersion", "autoscaling:LaunchInstances"
	cases := map[string]struct {
		to, code, calls string
		// denied and unverified are whether adding a version is.
		denied, unverified bool
	}{
		"to a version":           {"", "", "", false, false},
		"to an image":            {"ami-3", "", "CreateLaunchTemplateVersion", false, false},
		"which is denied":        {"ami-3", "UnauthorizedOperation", "CreateLaunchTemplateVersion", true, false},
		"of which EC2 is silent": {"ami-3", "InvalidLaunchTemplateId.NotFound", "CreateLaunchTemplateVersion", false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, quick())
			s.workers()
			group := s.observe("workers", c.to)
			s.requests()
			if c.code != "" {
				s.Fault(awscloud.Fault{Operation: "CreateLaunchTemplateVersion", Code: c.code})
			}
			r := s.AskRights(t.Context(), &group)
			if slices.Contains(r.Denied, adds) != c.denied || slices.Contains(r.Unverified, adds) != c.unverified || !slices.Contains(r.Unverified, launches) {
				t.Errorf("denied %v, unverified %v", r.Denied, r.Unverified)
			}
			var calls string
			for _, request := range s.requests() {
				calls += request.Operation
				if request.Mutating {
					t.Errorf("asking changes something: %s", request.Operation)
				}
			}
			if calls != c.calls {
				t.Errorf("sent %q, want %q", calls, c.calls)
			}
		})
	}
}
