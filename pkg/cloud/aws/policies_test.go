package aws_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/aws"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// The policies that docs/permissions publishes.
const (
	readPolicy     = "aws-read.json"
	operatePolicy  = "aws-operate.json"
	simulatePolicy = "aws-simulate.json"
)

type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid, Effect      string
	Action, Resource any
	Condition        map[string]map[string]string `json:",omitempty"`
}

// filteredPolicy returns a policy of docs/permissions, for all groups, with only the actions that keep accepts.
func filteredPolicy(t *testing.T, file string, keep func(action string) bool) policy {
	t.Helper()
	return filteredPolicyFor(t, file, keep, "GROUP", "*", "TEMPLATE", "*", "CLUSTER", "*")
}

// filteredPolicyFor is published with the given names in place of the names that users fill in.
func filteredPolicyFor(t *testing.T, file string, keep func(action string) bool, names ...string) policy {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../docs/permissions", file))
	if err != nil {
		t.Fatal(err)
	}
	var p policy
	if err := json.Unmarshal([]byte(strings.NewReplacer(names...).Replace(string(text))), &p); err != nil {
		t.Fatal(err)
	}
	for i := range p.Statement {
		var kept []string
		for _, action := range p.Statement[i].Action.([]any) {
			if name := action.(string); keep(name) {
				kept = append(kept, name)
			}
		}
		p.Statement[i].Action = kept
	}
	p.Statement = slices.DeleteFunc(p.Statement, func(s statement) bool { return len(s.Action.([]string)) == 0 })
	return p
}

func publishedPolicy(t *testing.T, file string) policy {
	t.Helper()
	return filteredPolicy(t, file, func(string) bool { return true })
}

func publishedPolicyWithout(t *testing.T, file, missing string) policy {
	t.Helper()
	return filteredPolicy(t, file, func(action string) bool { return action != missing })
}

// templateActions returns the actions that AWS requires only if a template version names an instance profile or tags. The templates
// of these tests name neither.
func templateActions() []string { return []string{"ec2:CreateTags", "iam:PassRole"} }

// actionsIn returns the actions of a published policy without templateActions, sorted.
func actionsIn(t *testing.T, file string) []string {
	t.Helper()
	var actions []string
	for _, s := range publishedPolicy(t, file).Statement {
		actions = append(actions, s.Action.([]string)...)
	}
	if len(actions) == 0 {
		t.Fatalf("%s allows nothing", file)
	}
	actions = slices.DeleteFunc(actions, func(action string) bool { return slices.Contains(templateActions(), action) })
	slices.Sort(actions)
	return actions
}

// TestTemplateActionsAreLimited checks that a caller with aws-operate.json may pass a role only to EC2, and may set tags only on
// what it launches.
func TestTemplateActionsAreLimited(t *testing.T) {
	conditions := map[string]map[string]string{}
	for _, s := range publishedPolicy(t, operatePolicy).Statement {
		for _, action := range s.Action.([]string) {
			if slices.Contains(templateActions(), action) {
				conditions[action] = s.Condition["StringEquals"]
			}
		}
	}
	want := map[string]map[string]string{"iam:PassRole": {"iam:PassedToService": "ec2.amazonaws.com"}, "ec2:CreateTags": {"ec2:CreateAction": "RunInstances"}}
	if !reflect.DeepEqual(conditions, want) {
		t.Errorf("the conditions are %v, want %v", conditions, want)
	}
}

// setPolicies limits the provider's credentials to the policies.
func (s *site) setPolicies(who awscloud.Caller, policies ...policy) {
	s.t.Helper()
	for _, p := range policies {
		text, err := json.Marshal(p)
		if err != nil {
			s.t.Fatal(err)
		}
		who.Policies = append(who.Policies, text)
	}
	if err := s.SetCaller(awscloud.AccessKey, who); err != nil {
		s.t.Fatal(err)
	}
}

// TestMissingPermissionIsFoundBeforeUpgrade removes each single action of aws-operate.json. CheckRights must report exactly
// this action as denied and change nothing (IAM001).
func TestMissingPermissionIsFoundBeforeUpgrade(t *testing.T) {
	for _, action := range actionsIn(t, operatePolicy) {
		t.Run(action, func(t *testing.T) {
			s, group, to := start(t, instantOptions()), "workers", "ami-3"
			if strings.HasPrefix(action, "eks:") {
				s, group, to = startManaged(t).site, "web", ""
			} else {
				s.addWorkers()
			}
			s.setPolicies(awscloud.Caller{}, publishedPolicy(t, readPolicy), publishedPolicy(t, simulatePolicy), publishedPolicyWithout(t, operatePolicy, action))
			g := s.observe(group, to)
			r := s.CheckRights(t.Context(), &g)
			if !slices.Equal(r.Denied, []string{action}) || len(r.Unverified) > 0 {
				t.Errorf("denied %v, unverified %v, want %s denied", r.Denied, r.Unverified, action)
			}
			if changes := s.changes(); len(changes) > 0 {
				t.Errorf("asking changes something: %v", changes)
			}
		})
	}
}

// reader makes the reads that commands make, and records the errors.
type reader struct {
	*site
	problems []string
}

func (r *reader) recordError(err error) {
	if err != nil {
		r.problems = append(r.problems, err.Error())
	}
}

// observeAndSurvey calls Observe and Survey for a group.
func (r *reader) observeAndSurvey(name, to string) {
	g, err := r.Observe(r.t.Context(), cloud.Ref{Name: name, To: to})
	r.recordError(err)
	if g.Refusal != "" {
		r.problems = append(r.problems, g.Refusal)
	}
	_, err = r.Survey(r.t.Context(), &g)
	r.recordError(err)
}

// readTargets reads the load balancers of a group. A denied read is reported before an upgrade.
func (r *reader) readTargets(name string, bound string) {
	g, err := r.Observe(r.t.Context(), cloud.Ref{Name: name, To: "ami-3"})
	r.recordError(err)
	found, err := r.TargetGroups(r.t.Context(), &g, []string{bound})
	r.recordError(err)
	for _, action := range found.Denied {
		r.problems = append(r.problems, "the IAM action "+action)
	}
	_, err = r.Provider.Targets(r.t.Context(), found.Groups, []string{"i-1"})
	r.recordError(err)
}

// TestErrorNamesMissingReadPermission removes each single action of aws-read.json. The reads that need the action must fail
// with an error that names the action. With all actions no read may fail.
func TestErrorNamesMissingReadPermission(t *testing.T) {
	for _, action := range append(actionsIn(t, readPolicy), "") {
		t.Run(action, func(t *testing.T) {
			s := startManaged(t)
			s.addWorkers(func(spec *awscloud.GroupSpec) { spec.Template.Version = "$Latest" })
			balanced := s.AddTargetGroup(awscloud.TargetGroupSpec{Name: "own"})
			g := s.observeWeb("")
			s.mustUpgrade(&g, "run/1")
			s.waitForUpdate(awscloud.UpdateState.Ended)
			s.setPolicies(awscloud.Caller{}, publishedPolicyWithout(t, readPolicy, action))
			fresh, err := aws.New(t.Context(), aws.Options{ClusterName: "shop"})
			if err != nil {
				t.Fatal(err)
			}
			s.Provider = fresh
			r := reader{site: s.site}
			_, err = r.Groups(t.Context(), s.nodes("workers"))
			r.recordError(err)
			r.observeAndSurvey("workers", "ami-3")
			r.observeAndSurvey("web", "1.34")
			r.readTargets("workers", balanced)
			all := strings.Join(r.problems, "\n")
			switch {
			case action == "eks:ListUpdates" || action == "eks:DescribeUpdate": // needed only while an update is running
				if all != "" {
					t.Errorf("without an update under way: %s", all)
				}
			case action == "" && all != "":
				t.Errorf("with all rights: %s", all)
			case !strings.Contains(all, "the IAM action "+action) && action != "":
				t.Errorf("got %q, want it to name %s", all, action)
			}
		})
	}
}

// TestPublishedPoliciesAllowEachKindOfUpgrade upgrades a group of each kind with only aws-read.json and aws-operate.json. These
// policies must be enough, and each of their actions must be used.
func TestPublishedPoliciesAllowEachKindOfUpgrade(t *testing.T) {
	s := startManaged(t)
	s.addWorkers(func(spec *awscloud.GroupSpec) { spec.Template.Version = "$Default" })
	balanced := s.AddTargetGroup(awscloud.TargetGroupSpec{Name: "own"})
	s.setPolicies(awscloud.Caller{}, publishedPolicy(t, readPolicy), publishedPolicy(t, operatePolicy))
	r := reader{site: s.site}
	r.readTargets("workers", balanced)
	if len(r.problems) > 0 {
		t.Fatal(r.problems)
	}
	if _, err := s.Groups(t.Context(), s.nodes("workers", s.asg)); err != nil {
		t.Fatal(err)
	}
	first := s.observe("workers", "1")
	group := s.observe("workers", "ami-3")
	if _, err := s.Survey(t.Context(), &group); err != nil {
		t.Fatal(err)
	}
	s.CheckRights(t.Context(), &group)
	s.mustDo(nodegroup.Quiesce{Processes: group.Quiesce})
	s.mustDo(nodegroup.SetRevision{To: group.Wanted, Token: "run/revision"})
	s.mustDo(nodegroup.RaiseMax{From: group.Max, Max: group.Max + 1})
	s.mustDo(nodegroup.AddCapacity{Zone: group.Zones[0], N: 1, Desired: group.Desired, Max: group.Max + 1, Token: "run/launch"})
	s.mustDo(nodegroup.Terminate{Instance: group.Instances[0].ID, Shrink: true})
	s.mustDo(nodegroup.LowerMax{From: group.Max + 1, Max: group.Max})
	s.mustDo(nodegroup.SetRevision{To: first.Wanted, Token: "run/back"})
	s.mustDo(nodegroup.Resume{Processes: group.Quiesce})

	managed := s.observeWeb("1.34")
	s.mustUpgrade(&managed, "run/1")
	s.waitForUpdate(awscloud.UpdateState.Ended)
	s.observeWeb("1.34")

	want := slices.Sorted(slices.Values(append(actionsIn(t, readPolicy), actionsIn(t, operatePolicy)...)))
	used := s.UsedActions(awscloud.AccessKey)
	if used = slices.DeleteFunc(used, func(action string) bool { return strings.HasPrefix(action, "iam:") }); !slices.Equal(used, want) {
		t.Errorf("used %v\nwant %v", used, want)
	}
}

// TestPublishedPolicyAllowsChangesToOneGroupOnly checks that a user with aws-operate.json for one group cannot change another group, another
// template or another cluster.
func TestPublishedPolicyAllowsChangesToOneGroupOnly(t *testing.T) {
	s := startManaged(t)
	id := s.addWorkers()
	s.addGroup(awscloud.GroupSpec{Name: "database", Zones: []string{"us-east-1a"}, Counts: []int{2}, Min: 1, Max: 3, Template: awscloud.TemplateRef{ID: id, Version: "2"}})
	all := func(string) bool { return true }
	own := filteredPolicyFor(t, operatePolicy, all, "GROUP", "workers", "TEMPLATE", id, "CLUSTER", "other")
	s.setPolicies(awscloud.Caller{}, publishedPolicy(t, readPolicy), own)
	database := s.observe("database", "ami-3")
	refused := func(group string, action nodegroup.Action, needs string) {
		t.Helper()
		s.wantOutcome(s.Do(t.Context(), group, action), nodegroup.OutcomeFatal, needs)
	}
	refused("database", nodegroup.Terminate{Instance: database.Instances[0].ID, Shrink: true}, "autoscaling:TerminateInstanceInAutoScalingGroup")
	refused("database", nodegroup.RaiseMax{From: 3, Max: 4}, "autoscaling:UpdateAutoScalingGroup")
	managed := s.observeWeb("1.34")
	refused("web", nodegroup.Delegate{To: managed.Wanted, Token: "run/1"}, "eks:UpdateNodegroupVersion")

	g := s.observe("workers", "ami-3")
	s.mustDo(nodegroup.SetRevision{To: g.Wanted, Token: "run/revision"})
	s.mustDo(nodegroup.Terminate{Instance: g.Instances[0].ID})

	s.setPolicies(awscloud.Caller{}, publishedPolicy(t, readPolicy), filteredPolicyFor(t, operatePolicy, all, "GROUP", "*", "TEMPLATE", "lt-other", "CLUSTER", "*"))
	refused("workers", nodegroup.SetRevision{To: s.observe("workers", "ami-1").Wanted, Token: "run/2"}, "ec2:CreateLaunchTemplateVersion")
	refused("workers", nodegroup.SetRevision{To: s.observe("workers", "1").Wanted, Token: "run/3"}, "ec2:RunInstances")
}

// TestUncertainIAMDenialsAreUnverified checks that a refusal by IAM is unverified if it is not certain (IAM001).
func TestUncertainIAMDenialsAreUnverified(t *testing.T) {
	const account, updates, launches = "123456789012", "autoscaling:UpdateAutoScalingGroup", "ec2:CreateFleet"
	session := "arn:aws:sts::" + account + ":assumed-role/operator/alice"
	allow := func(resource string, condition map[string]map[string]string) []statement {
		return []statement{{Effect: "Allow", Action: "autoscaling:*", Resource: resource, Condition: condition}}
	}
	deny := func(operator, key, value string) []statement {
		return append(allow("*", nil), statement{Effect: "Deny", Action: []string{"autoscaling:*", "ec2:*"}, Resource: "*", Condition: map[string]map[string]string{operator: {key: value}}})
	}
	const own, other = "arn:aws:autoscaling:*:*:autoScalingGroup:*:autoScalingGroupName/workers", "arn:aws:autoscaling:*:*:autoScalingGroup:*:autoScalingGroupName/other"
	cases := map[string]struct {
		caller     awscloud.Caller
		statements []statement
		// updates and launches are the expected results of verdictAbout for the two actions.
		updates, launches string
	}{
		"allowed for the group":         {awscloud.Caller{}, allow(own, nil), "", "denied"},
		"allowed for another group":     {awscloud.Caller{}, allow(other, nil), "denied", "denied"},
		"allowed by a tag":              {awscloud.Caller{}, allow("*", map[string]map[string]string{"StringEquals": {"aws:ResourceTag/team": "a"}}), "unverified", "denied"},
		"denied but for a tag":          {awscloud.Caller{}, deny("StringNotEquals", "aws:PrincipalTag/team", "a"), "unverified", "unverified"},
		"denied in other regions":       {awscloud.Caller{}, deny("StringNotEquals", "aws:RequestedRegion", "us-east-1"), "", "denied"},
		"denied in this region":         {awscloud.Caller{}, deny("StringEquals", "aws:RequestedRegion", "us-east-1"), "denied", "denied"},
		"session of a role":             {awscloud.Caller{ARN: session, Principal: "arn:aws:iam::" + account + ":role/operator"}, allow("*", nil), "", "denied"},
		"session of a role with a path": {awscloud.Caller{ARN: session, Principal: "arn:aws:iam::" + account + ":role/aws-reserved/sso.amazonaws.com/operator"}, allow("*", nil), "unverified", "unverified"},
		"the root user":                 {awscloud.Caller{ARN: "arn:aws:iam::" + account + ":root"}, allow("*", nil), "unverified", "unverified"},
		"a federated user":              {awscloud.Caller{ARN: "arn:aws:sts::" + account + ":federated-user/bob"}, allow("*", nil), "unverified", "unverified"},
		"a user with a path":            {awscloud.Caller{ARN: "arn:aws:iam::" + account + ":user/team/bob"}, allow("*", nil), "", "denied"},
		"a session of no role":          {awscloud.Caller{ARN: "arn:aws:sts::" + account + ":assumed-role"}, allow("*", nil), "unverified", "unverified"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, instantOptions())
			s.addWorkers()
			ask := []statement{{Effect: "Allow", Action: "iam:SimulatePrincipalPolicy", Resource: "*"}}
			g := s.observe("workers", "")
			s.setPolicies(c.caller, policy{Statement: append(ask, c.statements...)})
			r := s.CheckRights(t.Context(), &g)
			for action, want := range map[string]string{updates: c.updates, launches: c.launches} {
				if got := verdictAbout(r, action); got != want {
					t.Errorf("%s is %q, want %q", action, got, want)
				}
			}
		})
	}
}

// verdictAbout returns the verdict about an action: "denied", "unverified" or "".
func verdictAbout(r cloud.Rights, action string) string {
	switch {
	case slices.Contains(r.Denied, action):
		return "denied"
	case slices.Contains(r.Unverified, action):
		return "unverified"
	default:
		return ""
	}
}
