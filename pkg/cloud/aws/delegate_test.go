package aws_test

import (
	"slices"
	"strings"
	"testing"

	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/aws"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// TestEKSUpdateReplacesAllOutdatedNodes follows an upgrade from its request to its end.
func TestEKSUpdateReplacesAllOutdatedNodes(t *testing.T) {
	for name, change := range map[string]func(*site, *awscloud.NodegroupSpec){
		"release":           func(*site, *awscloud.NodegroupSpec) {},
		"release, template": usingTemplate("", ""),
		"template":          usingTemplate("ami-1", "ami-2"),
	} {
		t.Run(name, func(t *testing.T) {
			s := startManaged(t, change)
			to := map[bool]string{true: "2"}[name == "template"]
			g := s.observeWeb(to)
			if op := g.Managed.Operation; op.ID != "" {
				t.Fatalf("there is an operation already: %+v", op)
			}
			s.BlockDrains()
			s.mustUpgrade(&g, "run/1")
			s.waitForUpdate(func(u awscloud.UpdateState) bool { return len(u.Draining) > 0 })
			now := s.observeWeb(to)
			op := now.Managed.Operation
			if op.State != nodegroup.OperationRunning || op.Kind != "VersionUpdate" || op.To != now.Wanted || op.Force {
				t.Errorf("got %+v, want it to go to %+v", op, now.Wanted)
			}
			if n := outdated(&now); n != 3 || len(now.Instances) <= 3 {
				t.Errorf("%d of %d are outdated, want 3 old ones and new ones", n, len(now.Instances))
			}
			s.UnblockDrains()
			s.waitForUpdate(awscloud.UpdateState.Ended)
			end := s.observeWeb(to)
			if op := end.Managed.Operation; op.State != nodegroup.OperationSucceeded || op.To.ID != end.Wanted.ID || outdated(&end) != 0 || end.Pointed.ID != end.Wanted.ID {
				t.Errorf("got %+v, %d outdated, %+v", op, outdated(&end), end.Pointed)
			}
		})
	}
}

// TestFailedUpgradeIsExplained checks that a failure is reported with its cause, and that the next
// request starts a new update (EKS E31, E42, E52).
func TestFailedUpgradeIsExplained(t *testing.T) {
	s := startManaged(t)
	g := s.observeWeb("")
	if err := s.FailUpdate("shop", "web", awscloud.UpdateFailure{
		Phase: awscloud.PhaseUpgrade, Code: kt.ErrorCodePodEvictionFailure, Message: "Reached max retries", ResourceIDs: []string{"ip-1"},
	}); err != nil {
		t.Fatal(err)
	}
	s.mustUpgrade(&g, "run/1")
	s.waitForUpdate(awscloud.UpdateState.Ended)
	now := s.observeWeb("")
	op := now.Managed.Operation
	if op.State != nodegroup.OperationFailed || op.Code != "PodEvictionFailure" || op.Cause != nodegroup.DrainFailed || !strings.Contains(op.Failure, "(ip-1)") || !slices.Equal(op.Resources, []string{"ip-1"}) {
		t.Errorf("got %+v", op)
	}
	if err := s.upgrade(&now, "run/2", true); err != nil {
		t.Fatal(err)
	}
	second := s.observeWeb("").Managed.Operation
	if second.ID == op.ID || !second.Force {
		t.Errorf("got %+v after %s, want a new one, with force", second, op.ID)
	}
	s.waitForUpdate(awscloud.UpdateState.Ended)
	if end := s.observeWeb(""); end.Managed.Operation.State != nodegroup.OperationSucceeded || outdated(&end) != 0 {
		t.Errorf("got %+v", end)
	}
}

// TestObserveFindsUpdateAgainAfterEKSForgotIt checks that Observe returns the newest update that EKS reports, even if EKS stops
// reporting an update and reports it again later.
func TestObserveFindsUpdateAgainAfterEKSForgotIt(t *testing.T) {
	s := startManaged(t)
	s.BlockDrains()
	g := s.observeWeb("")
	s.mustUpgrade(&g, "run/1")
	op := s.observeWeb("").Managed.Operation
	for _, lost := range []bool{true, false} {
		if err := s.HideUpdate("shop", "web", lost); err != nil {
			t.Fatal(err)
		}
		if got := s.observeWeb("").Managed.Operation; (got.ID == "") != lost || !lost && got.ID != op.ID {
			t.Errorf("lost %t: got %+v, was %+v", lost, got, op)
		}
	}
	s.InjectFault(awscloud.Fault{Service: "eks", Operation: "DescribeUpdate", Code: "ResourceNotFoundException", Status: 404, Times: 2})
	if got := s.observeWeb("").Managed.Operation; got.ID != "" {
		t.Errorf("it is listed and not described: got %+v", got)
	}
	if got := s.observeWeb("").Managed.Operation; got.ID != op.ID {
		t.Errorf("got %+v, want %s", got, op.ID)
	}
}

// TestRejectedEKSUpdatesAreClassified checks the outcome of each refusal of an update by EKS.
func TestRejectedEKSUpdatesAreClassified(t *testing.T) {
	const denial = "User: arn:aws:iam::1:user/u is not authorized to perform: eks:UpdateNodegroupVersion on resource: arn:aws:eks:us-east-1:1:nodegroup/shop/web/0 because no identity-based policy allows it"
	cases := map[string]struct {
		fault   awscloud.Fault
		outcome nodegroup.Outcome
		says    []string
	}{
		"in use":   {awscloud.Fault{Code: "ResourceInUseException", Status: 409}, nodegroup.OutcomeMoved, nil},
		"gone":     {awscloud.Fault{Code: "ResourceNotFoundException", Status: 404}, nodegroup.OutcomeMoved, nil},
		"updating": {awscloud.Fault{Code: "InvalidRequestException", Message: "Nodegroup cannot be updated as it is currently not in Active State"}, nodegroup.OutcomeMoved, nil},
		"bad":      {awscloud.Fault{Code: "InvalidParameterException", Message: "Requested release version 1 is not valid for kubernetes version 1.33."}, nodegroup.OutcomeFatal, []string{"is not valid for kubernetes version 1.33", "pass another release or template version with --to"}},
		"token":    {awscloud.Fault{Code: "InvalidRequestException", Message: "The client request token was used before with other parameters."}, nodegroup.OutcomeFatal, []string{"start the upgrade again"}},
		"denied":   {awscloud.Fault{Code: "AccessDeniedException", Status: 403, Message: denial}, nodegroup.OutcomeFatal, []string{"allow these credentials the IAM action eks:UpdateNodegroupVersion on arn:aws:eks:us-east-1:1:nodegroup/shop/web/0"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := startManaged(t)
			g := s.observeWeb("")
			c.fault.Service, c.fault.Operation = "eks", "UpdateNodegroupVersion"
			s.InjectFault(c.fault)
			s.wantOutcome(s.upgrade(&g, "run", false), c.outcome, append(c.says, "starting EKS's upgrade of node group \"web\" to release:1.33.4-20261101")...)
		})
	}
	s := startManaged(t)
	s.wantOutcome(s.Do(t.Context(), "web", nodegroup.Delegate{To: nodegroup.Revision{Spec: "{}"}}), nodegroup.OutcomeFatal, "has no node group")
	s.wantOutcome(s.Do(t.Context(), "web", nodegroup.Delegate{}), nodegroup.OutcomeFatal, "reading the recorded revision")
}

// TestRepeatedUpdateRequestStartsOneUpdate checks that a repeated request starts only one update.
func TestRepeatedUpdateRequestStartsOneUpdate(t *testing.T) {
	s := startManaged(t)
	s.BlockDrains()
	g := s.observeWeb("")
	s.InjectFault(awscloud.Fault{Service: "eks", Operation: "UpdateNodegroupVersion", AfterEffect: true})
	s.mustUpgrade(&g, "run") // the SDK repeats it
	s.mustUpgrade(&g, "run")
	op := s.observeWeb("").Managed.Operation
	fresh, err := aws.New(t.Context(), aws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := fresh.Observe(t.Context(), cloud.Ref{Name: "web"})
	if err != nil || op.ID == "" || again.Managed.Operation.ID != op.ID {
		t.Errorf("got %+v and %+v, %v", op, again.Managed, err)
	}
	s.wantOutcome(s.upgrade(&g, "another", false), nodegroup.OutcomeMoved)
}
