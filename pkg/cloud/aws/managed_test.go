package aws

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// ownedByWeb tags an Auto Scaling group as the group of node group web.
func ownedByWeb(g *at.AutoScalingGroup) {
	tagged("eks:nodegroup-name", "web")(g)
	tagged("eks:cluster-name", "shop")(g)
}

// newFacts returns the facts of a node group whose wanted release is 1.33.4-20261201 with ami-2.
func newFacts(g *kt.Nodegroup, change ...func(*nodegroupFacts)) *nodegroupFacts {
	f := &nodegroupFacts{nodegroup: *g, own: ownRevision(g)}
	f.wanted = f.own.withRelease(g.AmiType, "1.33", "1.33.4-20261201", "ami-2")
	for _, c := range change {
		c(f)
	}
	return f
}

// describeWeb describes node group web with the facts and two instances, i-1 and i-2.
func describeWeb(f *nodegroupFacts, change ...func(*at.AutoScalingGroup)) nodegroup.Group {
	asg := newGroup(append(change, ownedByWeb, withInstances(newInstance("i-2"), newInstance("i-1")))...)
	name, _ := managedNameOf(asg)
	out := describeNodegroup(asg, name)
	addNodegroupFacts(&out, asg, f)
	return out
}

func TestNodeGroupIsDescribedWithRevisionsAndSize(t *testing.T) {
	g := describeWeb(newFacts(newNodegroup(), func(f *nodegroupFacts) { f.instanceImages = map[string]string{"i-1": "ami-1", "i-2": "ami-2"} }))
	if g.Name != "web" || g.Kind != "EKS managed node group" || !g.Can.Resize || g.Desired != 2 || g.Max != 6 || !g.Can.NameZone || len(g.Quiesce) > 0 || g.Follows != "" {
		t.Errorf("got %+v", g)
	}
	if g.Refusal != "" || g.Managed == nil || g.Managed.Operation.ID != "" {
		t.Errorf("refusal %q, %+v", g.Refusal, g.Managed)
	}
	const width = "aws eks update-nodegroup-config --cluster-name shop --nodegroup-name web --update-config maxUnavailable=NUMBER"
	if g.Managed.ChangeWidth != width {
		t.Errorf("got %s", g.Managed.ChangeWidth)
	}
	if g.Pointed.ID != "release/1.33.4-20261101" || g.Wanted.ID != "release/1.33.4-20261201" || g.CurrentLabels != nil {
		t.Errorf("from %+v to %+v", g.Pointed, g.Wanted)
	}
}

func TestNodeGroupInstanceWithWrongAMIIsOutdated(t *testing.T) {
	g := describeWeb(newFacts(newNodegroup(), func(f *nodegroupFacts) { f.instanceImages = map[string]string{"i-1": "ami-1", "i-2": "ami-2"} }))
	one, two := g.Instances[0], g.Instances[1]
	if one.ID != "i-1" || !one.Outdated || one.Why != "image ami-1, wanted ami-2" || one.Revision.Image != "ami-1" {
		t.Errorf("got %+v", one)
	}
	if two.ID != "i-2" || two.Outdated || two.Revision != g.Wanted {
		t.Errorf("got %+v", two)
	}
}

// TestNodeGroupUsesSurgeAndTimeoutsOfEKS checks EKS E05, E21, E40, E41, E44.
func TestNodeGroupUsesSurgeAndTimeoutsOfEKS(t *testing.T) {
	m := describeWeb(newFacts(newNodegroup())).Managed
	if m.MaxUnavailable.N != 1 || m.ResolveSurge(9, 3, 1) != 6 || m.ResolveSurge(9, 1, 5) != 5 {
		t.Errorf("at most %s unavailable, %d and %d nodes added", m.MaxUnavailable, m.ResolveSurge(9, 3, 1), m.ResolveSurge(9, 1, 5))
	}
	if m.DrainTimeout != 15*time.Minute || m.Settle != time.Minute || !m.DrawsNodes || m.DeletesRest || m.Cancels || m.TakesWidth {
		t.Errorf("%+v", m)
	}
}

// TestMaxUnavailableIsReadFromUpdateConfig checks how updateConfig is read (EKS E04, E05, E07, E09).
func TestMaxUnavailableIsReadFromUpdateConfig(t *testing.T) {
	cases := map[string]struct {
		config  *kt.NodegroupUpdateConfig
		want    string
		minimal bool
	}{
		"nothing":    {nil, "1", false},
		"empty":      {&kt.NodegroupUpdateConfig{}, "1", false},
		"a number":   {&kt.NodegroupUpdateConfig{MaxUnavailable: sdk.Int32(3), UpdateStrategy: "DEFAULT"}, "3", false},
		"percentage": {&kt.NodegroupUpdateConfig{MaxUnavailablePercentage: sdk.Int32(25), UpdateStrategy: "MINIMAL"}, "25%", true},
	}
	for name, c := range cases {
		g := describeWeb(newFacts(newNodegroup(func(g *kt.Nodegroup) { g.UpdateConfig = c.config })))
		if got := g.Managed.MaxUnavailable.String(); got != c.want || g.Managed.TerminateFirst != c.minimal {
			t.Errorf("%s: got %s, %v", name, got, g.Managed.TerminateFirst)
		}
		first := ""
		if c.minimal { // an update config always needs a width, so the command repeats it
			first = "aws eks update-nodegroup-config --cluster-name shop --nodegroup-name web --update-config maxUnavailablePercentage=25,updateStrategy=DEFAULT"
		}
		if g.Managed.AddFirst != first {
			t.Errorf("%s: nodes are added first with %q, want %q", name, g.Managed.AddFirst, first)
		}
	}
}

func TestNodesWithAnotherImageAreOutdated(t *testing.T) {
	unknown := func(f *nodegroupFacts) { f.wanted.image = "" }
	byTemplate := func(f *nodegroupFacts) { f.wanted = f.own; f.wanted.byTemplate, f.wanted.Version = true, 8 }
	cases := map[string]struct {
		facts *nodegroupFacts
		ami   string
		why   string
	}{
		"another AMI":                       {newFacts(newNodegroup()), "ami-1", "image ami-1, wanted ami-2"},
		"the AMI":                           {newFacts(newNodegroup()), "ami-2", ""},
		"EC2 does not know it yet":          {newFacts(newNodegroup()), "", ""},
		"AMI not known, another release":    {newFacts(newNodegroup(), unknown), "ami-1", "release 1.33.4-20261101, wanted 1.33.4-20261201"},
		"AMI not known, the same release":   {newFacts(newNodegroup(), unknown, func(f *nodegroupFacts) { f.own.Release = f.wanted.Release }), "ami-1", ""},
		"AMI not known, a template version": {newFacts(newNodegroup(usingTemplate), byTemplate), "ami-1", ""},
	}
	for name, c := range cases {
		if outdated, why := c.facts.judgeImage(c.ami); why != c.why || outdated != (c.why != "") {
			t.Errorf("%s: got %v, %q", name, outdated, why)
		}
	}
}

// TestCurrentNodesHaveLabelsOfWantedTemplateVersion checks a template of the user, whatever the AMI of a node is (EKS E29).
func TestCurrentNodesHaveLabelsOfWantedTemplateVersion(t *testing.T) {
	g := describeWeb(newFacts(newNodegroup(usingCustomAMI), func(f *nodegroupFacts) { f.wanted = f.own; f.wanted.Version = 8 }))
	want := map[string]string{"eks.amazonaws.com/sourceLaunchTemplateId": "lt-0a", "eks.amazonaws.com/sourceLaunchTemplateVersion": "8"}
	if !maps.Equal(g.CurrentLabels, want) || g.Wanted.ID != "lt-0a:8" || g.Pointed.ID != "lt-0a:7" {
		t.Errorf("got %v, %+v, %+v", g.CurrentLabels, g.Pointed, g.Wanted)
	}
}

func TestImageLabelShowsWhetherNodeIsOutdated(t *testing.T) {
	labelled := func(ami string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"eks.amazonaws.com/nodegroup-image": ami}}}
	}
	g := describeWeb(newFacts(newNodegroup()))
	unknown := describeWeb(newFacts(newNodegroup(), func(f *nodegroupFacts) { f.wanted.image = "" }))
	other := nodegroup.Group{Wanted: g.Wanted}
	for _, c := range []struct {
		group        *nodegroup.Group
		node         *corev1.Node
		outdated, ok bool
	}{
		{&g, labelled("ami-1"), true, true},
		{&g, labelled("ami-2"), false, true},
		{&g, &corev1.Node{}, false, false},
		{&unknown, labelled("ami-1"), false, false},
		{&other, labelled("ami-1"), false, false},
	} {
		if outdated, ok := judgeByLabel(c.group, c.node); outdated != c.outdated || ok != c.ok {
			t.Errorf("%s on %v: got %v, %v", c.group.Wanted.Name, c.node.Labels, outdated, ok)
		}
	}
}

// newUpdate returns update u-1, which changes a node group's version.
func newUpdate(status kt.UpdateStatus, params map[kt.UpdateParamType]string) *kt.Update {
	u := &kt.Update{Id: sdk.String("u-1"), Type: kt.UpdateTypeVersionUpdate, Status: status}
	for _, key := range slices.Sorted(maps.Keys(params)) {
		u.Params = append(u.Params, kt.UpdateParam{Type: key, Value: sdk.String(params[key])})
	}
	return u
}

func TestEKSUpdatesAreDescribed(t *testing.T) {
	released := map[kt.UpdateParamType]string{"Version": "1.33", "ReleaseVersion": "1.33.4-20261201"}
	both := map[kt.UpdateParamType]string{"Version": "1.33", "ReleaseVersion": "1.33.4-20261201", "LaunchTemplateVersion": "8"}
	wanted := newFacts(newNodegroup()).wanted
	template := ownRevision(newNodegroup(usingCustomAMI))
	template.Version = 8
	cases := map[string]struct {
		update *kt.Update
		wanted managedRevision
		state  nodegroup.OperationState
		to     string
	}{
		"running":             {newUpdate("InProgress", released), wanted, "running", "release/1.33.4-20261201"},
		"over":                {newUpdate("Successful", both), wanted, "succeeded", "release/1.33.4-20261201"},
		"cancelled":           {newUpdate("Cancelled", released), wanted, "cancelled", "release/1.33.4-20261201"},
		"of a template":       {newUpdate("InProgress", both), template, "running", "lt-0a:8"},
		"new status":          {newUpdate("Waiting", released), wanted, "running", "release/1.33.4-20261201"},
		"to something else":   {newUpdate("InProgress", map[kt.UpdateParamType]string{"ReleaseVersion": "1.33.4-20270101"}), wanted, "running", "release/1.33.4-20270101"},
		"to a Kubernetes":     {newUpdate("InProgress", map[kt.UpdateParamType]string{"Version": "1.34"}), wanted, "running", "release/1.34"},
		"to nothing named":    {newUpdate("InProgress", nil), wanted, "running", "release/of update u-1"},
		"template, unnamed":   {newUpdate("InProgress", released), template, "running", "release/1.33.4-20261201"},
		"not of this version": {&kt.Update{Id: sdk.String("u-1"), Type: "ConfigUpdate", Status: "InProgress"}, wanted, "running", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			op := describeOperation(c.update, &c.wanted, true)
			if op.ID != "u-1" || op.Kind != string(c.update.Type) || op.State != c.state || op.To.ID != c.to || !op.Force || op.IsUpgrade() != (c.to != "") {
				t.Errorf("got %+v", op)
			}
			if op.To.ID == c.wanted.revisionID() && op.To != c.wanted.describeRevision() {
				t.Errorf("got target %+v, want the wanted revision", op.To)
			}
		})
	}
	failed := newUpdate("Failed", released)
	failed.Errors = []kt.ErrorDetail{{ErrorCode: "PodEvictionFailure", ResourceIds: []string{"ip-1"}}}
	op := describeOperation(failed, &wanted, false)
	if op.State != nodegroup.OperationFailed || op.Code != "PodEvictionFailure" || !strings.Contains(op.Failure, "--on-timeout=force") || !slices.Equal(op.Resources, []string{"ip-1"}) {
		t.Errorf("got %+v", op)
	}
}

func TestNodeGroupsThatCannotBeUpgradedAreRejected(t *testing.T) {
	status := func(s kt.NodegroupStatus, issues ...kt.NodegroupIssueCode) *nodegroupFacts {
		return newFacts(newNodegroup(func(g *kt.Nodegroup) {
			g.Status, g.Health = s, &kt.NodegroupHealth{}
			for _, code := range issues {
				g.Health.Issues = append(g.Health.Issues, kt.Issue{Code: code, Message: sdk.String("so it is"), ResourceIds: []string{"eks-web"}})
			}
		}))
	}
	updating := func(kind kt.UpdateType, s kt.UpdateStatus) *nodegroupFacts {
		return newFacts(newNodegroup(), func(f *nodegroupFacts) { f.update = &kt.Update{Id: sdk.String("u-1"), Type: kind, Status: s} })
	}
	cases := map[string]struct {
		facts  *nodegroupFacts
		change func(*at.AutoScalingGroup)
		says   string // empty if the group may be upgraded
	}{
		"active":               {facts: status("ACTIVE")},
		"updating":             {facts: status("UPDATING")},
		"degraded, no issue":   {facts: status("DEGRADED")},
		"degraded by a budget": {facts: status("DEGRADED", "PodEvictionFailure")}, // EKS E42: the next update evicts again
		"degraded": {
			facts: status("DEGRADED", "PodEvictionFailure", "AsgInstanceLaunchFailures"), // EKS E35
			says:  "EKS reports it as degraded: its Auto Scaling group cannot launch instances (eks-web) [AsgInstanceLaunchFailures: so it is]: read its scaling activities",
		},
		"creating":         {facts: status("CREATING"), says: "aws eks wait nodegroup-active --cluster-name shop --nodegroup-name web"},
		"deleting":         {facts: status("DELETING"), says: "EKS is deleting it"},
		"could not create": {facts: status("CREATE_FAILED", "IamNodeRoleNotFound"), says: "its node role or instance profile was deleted"},
		"could not delete": {facts: status("DELETE_FAILED"), says: "aws eks delete-nodegroup --cluster-name shop"},
		"upgrading":        {facts: updating("VersionUpdate", "InProgress")},
		"upgrading, degraded": {facts: newFacts(newNodegroup(func(g *kt.Nodegroup) {
			g.Status, g.Health = kt.NodegroupStatusDegraded, &kt.NodegroupHealth{Issues: []kt.Issue{{Code: "AsgInstanceLaunchFailures"}}}
		}), func(f *nodegroupFacts) { f.update = newUpdate("InProgress", nil) })},
		"configuring":       {facts: updating("ConfigUpdate", "InProgress"), says: "(ConfigUpdate u-1): wait until aws eks describe-update --name shop --nodegroup-name web --update-id u-1"},
		"configured":        {facts: updating("ConfigUpdate", "Successful")},
		"bad target":        {facts: newFacts(newNodegroup(), func(f *nodegroupFacts) { f.problem = "no such release" }), says: "no such release"},
		"suspended Launch":  {facts: status("ACTIVE"), change: suspended("Launch"), says: "resume-processes"},
		"warm pool":         {facts: status("ACTIVE"), change: func(g *at.AutoScalingGroup) { g.WarmPoolConfiguration = &at.WarmPoolConfiguration{} }},
		"EKS operates it":   {facts: status("ACTIVE"), change: func(g *at.AutoScalingGroup) { g.Operator = &at.Operator{Principal: sdk.String("eks.amazonaws.com")} }},
		"its group deleted": {facts: status("ACTIVE"), change: func(g *at.AutoScalingGroup) { g.Status = sdk.String("Delete in progress") }, says: "deleted"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			change := func(*at.AutoScalingGroup) {}
			if c.change != nil {
				change = c.change
			}
			if got := describeWeb(c.facts, change).Refusal; (got != "") != (c.says != "") || !strings.Contains(got, c.says) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want it to say %q", got, c.says)
			}
		})
	}
}

func suspended(process string) func(*at.AutoScalingGroup) {
	return func(g *at.AutoScalingGroup) {
		g.SuspendedProcesses = append(g.SuspendedProcesses, at.SuspendedProcess{ProcessName: sdk.String(process)})
	}
}

func TestNodeGroupIsChosenByCluster(t *testing.T) {
	of := func(name, cluster string) at.AutoScalingGroup {
		return *newGroup(tagged("eks:nodegroup-name", "web"), tagged("eks:cluster-name", cluster), func(g *at.AutoScalingGroup) { g.AutoScalingGroupName = sdk.String(name) })
	}
	shop, bank, second := of("eks-web-1", "shop"), of("eks-web-2", "bank"), of("eks-web-3", "shop")
	cases := map[string]struct {
		groups     []at.AutoScalingGroup
		cluster    string
		want, says string
	}{
		"none":                       {nil, "", "", ""},
		"one":                        {[]at.AutoScalingGroup{shop}, "", "eks-web-1", ""},
		"two clusters":               {[]at.AutoScalingGroup{shop, bank}, "", "", "clusters bank and shop have a node group of that name: name your cluster with --cluster-name"},
		"two clusters, one is meant": {[]at.AutoScalingGroup{shop, bank}, "bank", "eks-web-2", ""},
		"another cluster":            {[]at.AutoScalingGroup{shop}, "bank", "", ""},
		"two groups":                 {[]at.AutoScalingGroup{shop, second}, "shop", "", "2 Auto Scaling groups: pass the name of one"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := chooseNodegroup(c.groups, c.cluster)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want it to say %q", err, c.says)
			}
			if got != nil && *got.AutoScalingGroupName != c.want || got == nil && c.want != "" {
				t.Errorf("got %+v, want %s", got, c.want)
			}
		})
	}
}

// TestEndedEKSUpdatesAreNotReadAgain checks that the cache does not list updates that have ended for reading, and that it finds
// the newest update.
func TestEndedEKSUpdatesAreNotReadAgain(t *testing.T) {
	m, name := &managedCache{}, managedName{"shop", "web"}
	update := func(id string, minute int, s kt.UpdateStatus) *kt.Update {
		return &kt.Update{Id: sdk.String(id), Status: s, CreatedAt: sdk.Time(time.Unix(int64(60*minute), 0))}
	}
	if m.newestEndedUpdate(name) != nil {
		t.Error("there is an update before the first")
	}
	m.rememberUpdate(name, update("b", 2, "Successful"))
	m.rememberUpdate(name, update("a", 1, "Failed"))
	m.rememberUpdate(name, update("c", 3, "InProgress"))
	if got := m.updatesToRead(name, []string{"a", "b", "c", "d"}); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("unknown %v", got)
	}
	if got := m.listUpdates(name, false); len(got) != 1 || *got[0].Id != "c" {
		t.Errorf("running %v", got)
	}
	m.rememberUpdate(name, update("c", 3, "Failed"))
	if got := m.newestEndedUpdate(name); *got.Id != "c" || len(m.listUpdates(name, false)) > 0 {
		t.Errorf("got %+v, running %v", got, m.listUpdates(name, false))
	}
	if m.newestEndedUpdate(managedName{"bank", "web"}) != nil {
		t.Error("an update of another cluster's node group")
	}
}
