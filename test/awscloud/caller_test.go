package awscloud_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	it "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

const user = "arn:aws:iam::123456789012:user/upgrader"

// setPolicies limits the clients of the tests to statements of a policy.
func setPolicies(t *testing.T, c *awscloud.Cloud, who awscloud.Caller, statements ...string) {
	t.Helper()
	who.Policies = [][]byte{[]byte(`{"Version": "2012-10-17", "Statement": [` + strings.Join(statements, ",") + `]}`)}
	if err := c.SetCaller(testKey, who); err != nil {
		t.Fatal(err)
	}
}

// testKey is the access key that the tests' clients sign with.
const testKey = "AKID"

func allowStatement(actions string) string {
	return `{"Effect": "Allow", "Action": ` + actions + `, "Resource": "*"}`
}

// TestRequestsWithoutPermissionAreDenied sends each service a request that no policy allows, and checks the error that the SDK
// returns.
func TestRequestsWithoutPermissionAreDenied(t *testing.T) {
	c, _ := start(t, awscloud.Options{})
	setPolicies(t, c, awscloud.Caller{}, allowStatement(`"sts:*"`))
	cases := map[string]struct {
		code   string
		status int
		send   func() error
	}{
		"autoscaling:DescribeAutoScalingGroups": {"AccessDenied", http.StatusForbidden, func() error {
			_, err := scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{})
			return err
		}},
		"ec2:DescribeInstances": {"UnauthorizedOperation", http.StatusForbidden, func() error {
			_, err := ec2.NewFromConfig(config(c)).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
			return err
		}},
		"ec2:CreateLaunchTemplateVersion": {"UnauthorizedOperation", http.StatusForbidden, func() error {
			_, err := ec2.NewFromConfig(config(c)).CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
				DryRun: aws.Bool(true), LaunchTemplateId: aws.String("lt-0"), LaunchTemplateData: &et.RequestLaunchTemplateData{},
			})
			return err
		}},
		"eks:DescribeCluster": {"AccessDeniedException", http.StatusForbidden, func() error {
			_, err := eks.NewFromConfig(config(c)).DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String("shop")})
			return err
		}},
		"ssm:GetParameters": {"AccessDeniedException", http.StatusBadRequest, func() error {
			_, err := ssm.NewFromConfig(config(c)).GetParameters(t.Context(), &ssm.GetParametersInput{Names: []string{"/a"}})
			return err
		}},
		"iam:SimulatePrincipalPolicy": {"AccessDenied", http.StatusForbidden, func() error {
			_, err := iam.NewFromConfig(config(c)).SimulatePrincipalPolicy(t.Context(), &iam.SimulatePrincipalPolicyInput{
				PolicySourceArn: aws.String(user), ActionNames: []string{"ec2:RunInstances"},
			})
			return err
		}},
	}
	for action, want := range cases {
		t.Run(action, func(t *testing.T) {
			err := want.send()
			var api smithy.APIError
			var answer *smithyhttp.ResponseError
			if !errors.As(err, &api) || api.ErrorCode() != want.code || !strings.Contains(api.ErrorMessage(), user+" is not authorized to perform: "+action) {
				t.Fatalf("got %v, want %s for %s", err, want.code, action)
			}
			if !errors.As(err, &answer) || answer.HTTPStatusCode() != want.status {
				t.Errorf("got status %v, want %d", err, want.status)
			}
		})
	}
	if used := c.UsedActions(testKey); len(used) > 0 {
		t.Errorf("refused requests used %v", used)
	}
	who, err := sts.NewFromConfig(config(c)).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil || aws.ToString(who.Arn) != user {
		t.Errorf("got %v, %v", who, err)
	}
}

// TestOnlyAllowedActionsAreRecordedAsUsed checks that only allowed actions count as used.
func TestOnlyAllowedActionsAreRecordedAsUsed(t *testing.T) {
	c, _ := start(t, awscloud.Options{})
	setPolicies(t, c, awscloud.Caller{}, allowStatement(`["autoscaling:Describe*", "EC2:describe?ubnets"]`))
	if _, err := scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ec2.NewFromConfig(config(c)).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err != nil {
		t.Fatal(err)
	}
	if used := c.UsedActions(testKey); !slices.Equal(used, []string{"autoscaling:DescribeAutoScalingGroups", "ec2:DescribeSubnets"}) {
		t.Errorf("used %v", used)
	}
}

// TestSimulatePrincipalPolicyFollowsPolicies checks that the simulation uses the same policies as the authorization of
// requests, and that its answer has pages.
func TestSimulatePrincipalPolicyFollowsPolicies(t *testing.T) {
	c, _ := start(t, awscloud.Options{})
	const resource, other = "arn:aws:ec2:us-east-1:123456789012:instance/i-0", "arn:aws:ec2:us-east-1:123456789012:instance/i-1"
	setPolicies(t, c, awscloud.Caller{}, allowStatement(`"iam:*"`), allowStatement(`"ec2:Run*"`),
		`{"Effect": "Deny", "Action": "ec2:RunScheduledInstances", "Resource": "*"}`,
		`{"Effect": "Allow", "Action": "ec2:StopInstances", "Resource": "arn:aws:ec2:*:*:instance/i-0"}`,
		`{"Effect": "Allow", "Action": "ec2:StartInstances", "Resource": "*", "Condition": {"StringEquals": {"aws:ResourceTag/team": "a"}}}`)
	pages := iam.NewSimulatePrincipalPolicyPaginator(iam.NewFromConfig(config(c)), &iam.SimulatePrincipalPolicyInput{
		PolicySourceArn: aws.String(user), ResourceArns: []string{resource, other},
		ActionNames: []string{"ec2:RunInstances", "ec2:RunScheduledInstances", "ec2:StopInstances", "ec2:StartInstances", "ec2:CreateFleet"},
	})
	got, sent := map[string]string{}, 0
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sent++
		for _, result := range out.EvaluationResults {
			for _, r := range result.ResourceSpecificResults {
				key := aws.ToString(result.EvalActionName) + " " + strings.TrimPrefix(aws.ToString(r.EvalResourceName), "arn:aws:ec2:us-east-1:123456789012:instance/")
				got[key] = strings.Join(append([]string{string(r.EvalResourceDecision)}, r.MissingContextValues...), " ")
			}
		}
	}
	if sent != 3 {
		t.Errorf("got %d pages, want 3", sent)
	}
	for key, want := range map[string]string{
		"ec2:RunInstances i-0": "allowed", "ec2:RunScheduledInstances i-0": "explicitDeny", "ec2:StopInstances i-0": "allowed",
		"ec2:StopInstances i-1": "implicitDeny", "ec2:StartInstances i-0": "implicitDeny aws:ResourceTag/team", "ec2:CreateFleet i-1": "implicitDeny",
	} {
		if got[key] != want {
			t.Errorf("%s: got %q, want %q", key, got[key], want)
		}
	}
}

// TestSimulationRefusesUnknownPrincipals: invalid arguments are refused, too.
func TestSimulationRefusesUnknownPrincipals(t *testing.T) {
	c, _ := start(t, awscloud.Options{})
	const role = "arn:aws:iam::123456789012:role/team/operator"
	setPolicies(t, c, awscloud.Caller{ARN: "arn:aws:sts::123456789012:assumed-role/operator/alice", Principal: role}, allowStatement(`"iam:*"`))
	ask := func(principal string, actions ...string) error {
		_, err := iam.NewFromConfig(config(c)).SimulatePrincipalPolicy(t.Context(), &iam.SimulatePrincipalPolicyInput{PolicySourceArn: aws.String(principal), ActionNames: actions})
		return err
	}
	var unknown *it.NoSuchEntityException
	var invalid *it.InvalidInputException
	if err := ask(role, "ec2:RunInstances"); err != nil {
		t.Error(err)
	}
	if err := ask("arn:aws:iam::123456789012:role/operator", "ec2:RunInstances"); !errors.As(err, &unknown) {
		t.Errorf("got %v, want NoSuchEntity", err)
	}
	if err := ask("arn:aws:sts::123456789012:assumed-role/operator/alice", "ec2:RunInstances"); !errors.As(err, &invalid) {
		t.Errorf("got %v, want InvalidInput", err)
	}
	if err := ask(role, "ec2:RunInstances", "eks:DescribeCluster"); !errors.As(err, &invalid) {
		t.Errorf("got %v, want InvalidInput", err)
	}
}

// TestUnsupportedPoliciesAreRejected checks that SetCaller refuses policies that are not modelled.
func TestUnsupportedPoliciesAreRejected(t *testing.T) {
	c, _ := start(t, awscloud.Options{})
	for _, text := range []string{
		`{`, `{"Statement": [{"Effect": "Allow", "NotAction": "a:*", "Resource": "*"}]}`, `{"Statement": [{"Effect": "allow", "Action": "a:*", "Resource": "*"}]}`,
		`{"Statement": [{"Effect": "Allow", "Action": "a:*", "Resource": "*", "Condition": {"Bool": {"aws:MultiFactorAuthPresent": "true"}}}]}`,
	} {
		if err := c.SetCaller("AKID", awscloud.Caller{Policies: [][]byte{[]byte(text)}}); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}
