package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// refusal is a command that must be refused. It must change nothing and print one line with the problem and the remedy.
type refusal struct {
	args []string
	env  []string
	code int
	// says are parts of the line.
	says []string
	// setUp creates the conditions for the refusal, and returns a function that undoes this.
	setUp func(*fixture.Fixture) (undo func())
}

func refusals() map[string]refusal {
	yes := func(args ...string) []string { return append(args, "--yes") }
	return map[string]refusal{
		"unknown group":              {args: yes("wokrers"), code: 2, says: []string{`"wokrers"`, "alpha", "workers"}},
		"one unknown among known":    {args: yes("workers", "nope"), code: 2, says: []string{`"nope"`, "workers"}},
		"another cluster's group":    {args: yes("elsewhere"), code: 2, says: []string{`"elsewhere"`, "workers"}},
		"mistyped verb":              {args: []string{"stauts"}, code: 2, says: []string{`"stauts"`, `"status"`}},
		"unknown node":               {args: yes("--node=nope"), code: 2, says: []string{`"nope"`, "kubectl get nodes"}},
		"node of no group":           {args: yes("--node=m1"), code: 2, says: []string{`"m1"`, "--current"}},
		"unknown flag":               {args: yes("workers", "--fast"), code: 2, says: []string{"--fast", "--help"}},
		"yes without a group":        {args: yes(), code: 2, says: []string{"--yes without a group", "name the group"}},
		"plan without a group":       {args: []string{"--dry-run"}, code: 2, says: []string{"--dry-run without a group", "name the group"}},
		"nobody to ask":              {args: []string{"workers"}, code: 2, says: []string{"needs a terminal", "--yes"}},
		"dry run with a space":       {args: []string{"workers", "--dry-run", "server"}, code: 2, says: []string{"--dry-run=server"}},
		"unknown dry run":            {args: []string{"workers", "--dry-run=maybe"}, code: 2, says: []string{"none, client or server"}},
		"unknown format":             {args: []string{"-o", "csv"}, code: 2, says: []string{"csv", "json"}},
		"unknown provider":           {args: yes("workers", "--provider=azure"), code: 2, says: []string{"azure", "manual"}},
		"unknown way to end":         {args: yes("workers", "--on-timeout=panic"), code: 2, says: []string{"panic", "fail, force or skip"}},
		"unknown strategy":           {args: yes("workers", "--strategy=magic"), code: 2, says: []string{"magic", "surge"}},
		"none unavailable, no surge": {args: yes("workers", "--max-unavailable=0", "--max-surge=0"), code: 2, says: []string{"--max-unavailable=0", "raise"}},
		"101 unavailable":            {args: yes("workers", "--max-unavailable=101"), code: 2, says: []string{"101", "limit of 100"}},
		"0 percent unavailable":      {args: yes("workers", "--max-unavailable=0%"), code: 2, says: []string{"0%", "1% to 100%"}},
		"one and a half unavailable": {args: yes("workers", "--max-unavailable=1.5"), code: 2, says: []string{"1.5", "write 2, 10% or 2/zone"}},
		"no time to drain":           {args: yes("workers", "--drain-timeout=0s"), code: 2, says: []string{"--drain-timeout", "positive"}},
		"no room under the maximum":  {args: yes("workers", "--keep-max"), code: 2, says: []string{"--keep-max", "max of 2", "raise its max"}},
		"selector that fits nothing": {args: yes("-l", "pool=zzz", "--current=image=v2"), code: 2, says: []string{"pool=zzz", "kubectl get nodes --show-labels"}},
		"selector that is none":      {args: yes("-l", "pool=(", "--current=image=v2"), code: 2, says: []string{"--selector"}},
		"nobody says what's current": {args: yes("-l", "pool=x"), code: 2, says: []string{"pool=x", "--current KEY=VALUE"}},
		"label that no node has":     {args: yes("-l", "pool=x", "--current=imgae=v2"), code: 2, says: []string{`"imgae"`, "spelling"}},
		"newer than control plane":   {args: yes("newer"), code: 1, says: []string{"v1.99", "upgrade the control plane first"}},
		"no such template version":   {args: yes("workers", "--to=7"), code: 2, says: []string{"version 7", "--to"}},
		"no such image":              {args: yes("workers", "--to=ami-0dddddddddddddddd"), code: 2, says: []string{"ami-0dddddddddddddddd", "check the ID"}},
		"no target at all":           {args: yes("workers", "--to=latest-ish"), code: 2, says: []string{"latest-ish", "ami-0123456789abcdef0"}},
		"operated by a service":      {args: yes("operated"), code: 1, says: []string{"batch.amazonaws.com", "upgrade it there"}},
		"instance refresh":           {args: yes("refreshing"), code: 1, says: []string{"instance refresh", "aws autoscaling cancel-instance-refresh"}},
		"protected instance":         {args: yes("protected"), code: 1, says: []string{"protected from scale-in", "aws autoscaling set-instance-protection"}},
		"pods without a controller":  {args: yes("bare"), code: 2, says: []string{"pod default/lonely", "--unmanaged-pods=evict"}},
		"release that is none":       {args: yes("managed", "--to=1.36.9-20991231"), code: 2, says: []string{"there is no release 1.36.9-20991231", fixture.NewRelease}},
		"release of no Kubernetes":   {args: yes("managed", "--to=1.37"), code: 2, says: []string{"no release of Kubernetes 1.37", "--to"}},
		"release newer than control": {args: yes("managed", "--to=1.37.0-20261201"), code: 1, says: []string{"control plane has 1.36", "aws eks update-cluster-version --name prod"}},
		"release that is older":      {args: yes("managed", "--to=1.34.9-20250101"), code: 1, says: []string{"cannot go back", fixture.OldRelease}},
		"Kubernetes in between":      {args: yes("behind", "--to=1.35"), code: 1, says: []string{"to Kubernetes 1.36, the control plane's version", "with --to"}},
		"AMI for EKS":                {args: yes("managed", "--to="+fixture.NewImage), code: 1, says: []string{"EKS accepts no AMI", "pass a release"}},
		"template for EKS":           {args: yes("managed", "--to=2"), code: 1, says: []string{"without a launch template", "pass a release"}},
		"release for an own AMI":     {args: yes("custom", "--to=1.36"), code: 1, says: []string{"sets the AMI", "--to"}},
		"no such version for EKS":    {args: yes("custom", "--to=9"), code: 2, says: []string{"version 9", "--to"}},
		"width of EKS":               {args: yes("managed", "--max-unavailable=2"), code: 2, says: []string{"aws eks update-nodegroup-config --cluster-name prod --nodegroup-name managed"}},
		"name of another cluster":    {args: yes("managed", "--to=1.36", "--cluster-name=shop"), code: 2, says: []string{"--cluster-name=shop", "EKS cluster prod"}},
		"list of another cluster":    {args: []string{"--cluster-name=shop"}, code: 2, says: []string{"--cluster-name=shop", "EKS cluster prod"}},
		"skipping with EKS":          {args: yes("managed", "--on-timeout=skip"), code: 2, says: []string{"--on-timeout=skip", "remove the flag"}},
		"degraded":                   {args: yes("sick", "--to=1.36"), code: 1, says: []string{"degraded", "Ec2SubnetInvalidConfiguration"}},
		"another change of EKS":      {args: yes("busy", "--to=1.36"), code: 1, says: []string{"ConfigUpdate", "aws eks describe-update --name prod --nodegroup-name busy"}},
		"denied by EKS": {
			args: yes("managed", "--to=1.36"), code: 1, says: []string{"eks:DescribeNodegroup", "nodegroup/prod/managed"},
			setUp: func(s *fixture.Fixture) func() {
				s.Cloud.InjectFault(awscloud.Fault{
					Service: "eks", Operation: "DescribeNodegroup", Times: -1, Code: "AccessDeniedException", Status: http.StatusForbidden,
					Message: "User: arn:aws:iam::123456789012:user/jo is not authorized to perform: eks:DescribeNodegroup on resource: arn:aws:eks:us-east-1:123456789012:nodegroup/prod/managed/1",
				})
				return s.Cloud.ClearFaults
			},
		},
		"no credentials": {
			args: yes("workers"), env: []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="}, code: 1,
			says: []string{"no credentials found", "aws sso login"},
		},
		"unknown profile":      {args: yes("workers"), env: []string{"AWS_PROFILE=nope"}, code: 1, says: []string{"nope", "check AWS_PROFILE"}},
		"expired credentials":  {args: yes("workers"), code: 1, says: []string{"expired", "aws sso login"}, setUp: rejectCredentials(awscloud.CredentialsExpired)},
		"invalid credentials":  {args: yes("workers"), code: 1, says: []string{"InvalidClientTokenId", "aws sso login"}, setUp: rejectCredentials(awscloud.CredentialsInvalid)},
		"wrong region":         {args: yes("workers"), env: []string{"AWS_REGION=eu-west-1"}, code: 1, says: []string{"eu-west-1", "set AWS_REGION=us-east-1"}},
		"no API server":        {args: yes("workers", "--server=https://127.0.0.1:1"), code: 1, says: []string{"https://127.0.0.1:1", "check --context"}},
		"unknown context":      {args: yes("workers", "--context=nope"), code: 2, says: []string{`"nope"`, "check --kubeconfig and --context"}},
		"unknown state space":  {args: yes("workers", "--state-namespace=nope"), code: 1, says: []string{`"nope"`, "not found"}},
		"list without a right": {args: nil, env: []string{"KUBECONFIG=stranger"}, code: 1, says: []string{`User "stranger" cannot list resource`, "ask for a role"}},
		"upgrade without any":  {args: yes("workers"), env: []string{"KUBECONFIG=stranger"}, code: 1, says: []string{`User "stranger" cannot list resource`, "ask for a role"}},
		"upgrade by a reader": {
			args: yes("workers"), env: []string{"KUBECONFIG=reader"}, code: 1,
			says: []string{"you may not", "patch nodes", "create pods/eviction", "update leases in namespace kube-system", "ask for a role"},
		},
	}
}

func rejectCredentials(problem awscloud.CredentialProblem) func(*fixture.Fixture) func() {
	return func(s *fixture.Fixture) func() {
		s.Cloud.RejectCredentials(problem)
		return func() { s.Cloud.RejectCredentials(awscloud.CredentialsFine) }
	}
}

// testRefusals runs all refusals and checks that none of them changed the cluster or the cloud. Refusals with a setUp change the
// cloud for all commands, so they run one after another. The others run in parallel.
func testRefusals(t *testing.T, s *fixture.Fixture) {
	allowReader(t, s)
	before := readWrites(t, s)
	t.Run("alone", func(t *testing.T) {
		for name, r := range refusals() {
			if r.setUp != nil {
				t.Run(name, func(t *testing.T) { r.check(t, s) })
			}
		}
	})
	t.Run("together", func(t *testing.T) {
		for name, r := range refusals() {
			if r.setUp == nil {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					r.check(t, s)
				})
			}
		}
	})
	before.checkUnchanged(t, s)
}

// allowReader allows the user "reader" to read everything and to change nothing.
func allowReader(t *testing.T, s *fixture.Fixture) {
	t.Helper()
	client, meta := s.Cluster.Client().RbacV1(), metav1.ObjectMeta{Name: "reader"}
	look := []string{"get", "list", "watch"}
	_, err := client.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: look},
	}}, metav1.CreateOptions{})
	if err == nil {
		_, err = client.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (r refusal) check(t *testing.T, s *fixture.Fixture) {
	t.Helper()
	if r.setUp != nil {
		defer r.setUp(s)()
	}
	var out, errOut bytes.Buffer
	code, err := s.Start(t.Context(), &out, &errOut, r.environment(t, s), append([]string{"nodeupgrade"}, r.args...)...).Wait()
	if err != nil || code != r.code {
		t.Errorf("it ended with %d (%v), want %d", code, err, r.code)
	}
	lines := strings.Split(strings.TrimSuffix(errOut.String(), "\n"), "\n")
	if len(lines) != 1 || len(errorLines(lines)) != 1 || out.Len() > 0 {
		t.Errorf("stdout %q and stderr %q, want one line on stderr that starts with \"error: \"", out.String(), errOut.String())
	}
	for _, part := range r.says {
		if !strings.Contains(errOut.String(), part) {
			t.Errorf("the error does not say %q: %s", part, errOut.String())
		}
	}
}

// environment returns the command's environment. Its entry KUBECONFIG=USER is replaced with the path of USER's kubeconfig.
func (r refusal) environment(t *testing.T, s *fixture.Fixture) []string {
	t.Helper()
	var env []string
	for _, entry := range r.env {
		if user, ok := strings.CutPrefix(entry, "KUBECONFIG="); ok {
			path, err := s.Cluster.KubeconfigFor(user)
			if err != nil {
				t.Fatal(err)
			}
			entry = "KUBECONFIG=" + path
		}
		env = append(env, entry)
	}
	return env
}
