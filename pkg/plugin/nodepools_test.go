package plugin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/karpenter"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// nodePools is what a server answers for a list of NodePools or NodeClaims: a document, or an error without one.
type nodePools struct {
	pools, claims string
	// status is the HTTP status of both lists; 0 for 200.
	status int
}

// serveNodePools serves twoGroups and the NodePool workers, of whose two nodes k1 has drifted.
func serveNodePools(t *testing.T, p nodePools) *apiServer {
	t.Helper()
	s := twoGroups()
	for _, name := range []string{"k1", "k2"} {
		node := build.Node(name, "a")
		node.Labels["karpenter.sh/nodepool"], node.Spec.ProviderID = "workers", "aws:///us-east-1a/i-"+name
		s.nodes = append(s.nodes, *node)
	}
	s.pods = append(s.pods, *build.Pod("job-0", build.On("k1"), func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
	}))
	s.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		list, is := strings.CutPrefix(r.URL.Path, "/apis/karpenter.sh/v1/")
		if !is {
			return false
		}
		if p.status != 0 {
			w.WriteHeader(p.status)
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, map[string]string{"nodepools": p.pools, "nodeclaims": p.claims}[list])
		return true
	}
	s.serve(t)
	return s
}

// driftingPool is a NodePool whose budget allows one node at a time. One of its two nodes has drifted.
func driftingPool() nodePools {
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	claim := func(name, drifted string) string {
		return `{"metadata":{"name":"` + name + `","creationTimestamp":"` + since + `","labels":{"karpenter.sh/nodepool":"workers"}},"status":{"nodeName":"` + name + `","providerID":"aws:///us-east-1a/i-` + name + `","conditions":[
			{"type":"Launched","status":"True","reason":"x","message":"","lastTransitionTime":"` + since + `"},{"type":"Initialized","status":"True","reason":"x","message":"","lastTransitionTime":"` + since + `"},
			{"type":"Drifted","status":"` + drifted + `","reason":"AMIDrift","message":"","lastTransitionTime":"` + since + `"}]}}`
	}
	return nodePools{
		pools: `{"kind":"NodePoolList","apiVersion":"karpenter.sh/v1","metadata":{},"items":[{"metadata":{"name":"workers","uid":"u","annotations":{"karpenter.sh/nodepool-hash":"1234567890"}},
			"spec":{"template":{"spec":{}},"limits":{"cpu":1000},"disruption":{"budgets":[{"nodes":"1"}]}}}]}`,
		claims: `{"kind":"NodeClaimList","apiVersion":"karpenter.sh/v1","metadata":{},"items":[` + claim("k1", "True") + "," + claim("k2", "False") + `]}`,
	}
}

// TestNodePoolsStandBesideOtherGroups lists a cluster with groups of both kinds. The cloud is not asked, because only Karpenter's nodes are
// its.
func TestNodePoolsStandBesideOtherGroups(t *testing.T) {
	serveNodePools(t, driftingPool())
	stdout, stderr, code := invoke(t, "list", "-o", "json")
	var list struct {
		Items []struct {
			Metadata                            struct{ Name string }
			Provider, GroupKind, Phase, Refusal string
			Nodes                               int
			Outdated                            *int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != 0 || stderr != "" || len(list.Items) != 3 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	pool := list.Items[2]
	if pool.Metadata.Name != "karpenter/workers" || pool.Provider != "karpenter" || pool.Phase != "follow" || pool.Nodes != 2 || pool.Outdated == nil || *pool.Outdated != 1 || !strings.Contains(pool.Refusal, "status karpenter/workers -w") {
		t.Errorf("got %+v", pool)
	}
}

// TestStatusNamesWhatKeepsNode shows the roll-out of a NodePool by its full and its bare name, and the exit codes.
func TestStatusNamesWhatKeepsNode(t *testing.T) {
	s := serveNodePools(t, driftingPool())
	for _, name := range []string{"workers", "karpenter/workers", "nodegroup/karpenter/workers"} {
		stdout, stderr, code := invoke(t, "status", name, "--exit-code")
		for _, want := range []string{
			"Run by      Karpenter", "(1 drifted, 0 of them being replaced, 1 current)", "Pace        at most 1 node at a time",
			"node k1: pod shop/job-0: its annotation karpenter.sh/do-not-disrupt keeps its node", "Remaining   not known: something keeps all nodes that are left",
		} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: no %q in\n%s%s", name, want, stdout, stderr)
			}
		}
		if code != exitError || stderr != "" {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
	}
	for i := range s.pods {
		s.pods[i].Annotations = nil
	}
	if _, stderr, code := invoke(t, "status", "workers", "--exit-code"); code != exitWaiting {
		t.Errorf("a node that nothing keeps: exit code %d, %q", code, stderr)
	}
	if _, stderr, code := invoke(t, "status", "workers"); code != exitDone {
		t.Errorf("without --exit-code: exit code %d, %q", code, stderr)
	}
}

// TestUpgradeOfNodePoolIsRefused checks that nothing is changed, and that a plan still shows what Karpenter will do.
func TestUpgradeOfNodePoolIsRefused(t *testing.T) {
	s := serveNodePools(t, driftingPool())
	stdout, stderr, code := invoke(t, "workers", "--yes")
	if code != exitError || !strings.Contains(stderr, "Karpenter replaces its drifted nodes by itself: follow that with kubectl nodeupgrade status karpenter/workers -w") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if sent := s.sentRequests(); len(sent) > 0 {
		t.Errorf("it sent %q", sent)
	}
	stdout, stderr, _ = invoke(t, "plan", "workers")
	if !strings.Contains(stdout, "Karpenter upgrades the group itself: at most 1 unavailable; it waits for the pods of a node without end") {
		t.Errorf("the plan is\n%s%s", stdout, stderr)
	}
}

// TestUnreadNodePoolsAreNamed checks that groups of the cloud are listed if the NodePools cannot be read, and that the list says so.
func TestUnreadNodePoolsAreNamed(t *testing.T) {
	cases := map[string]struct {
		pools nodePools
		warns string
	}{
		"denied":       {nodePools{status: http.StatusForbidden}, "you may not list nodeclaims, nodepools of karpenter.sh: ask for a role with these rights"},
		"an older API": {nodePools{status: http.StatusNotFound}, "the cluster has no NodePool of karpenter.sh/v1: upgrade Karpenter to 1.0 or newer"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			serveNodePools(t, c.pools)
			stdout, stderr, code := invoke(t)
			if code != exitDone || !strings.Contains(stderr, c.warns) || !strings.Contains(stdout, "blue") || !strings.Contains(stdout, "karpenter.sh/nodepool=workers") {
				t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
			}
		})
	}
}

// TestWatchFollowsChangedNodePool changes the NodePool in the middle of a roll-out. Karpenter then replaces its nodes for the newest
// template, so the status continues with that, and ends when no node is outdated.
func TestWatchFollowsChangedNodePool(t *testing.T) {
	pool := &nodepool.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "workers", Annotations: map[string]string{"karpenter.sh/nodepool-hash": "1"}}}
	claim := &nodepool.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "k1", Labels: map[string]string{nodepool.Label: "workers"}}}
	provider := karpenter.New(func(context.Context) ([]*nodepool.NodePool, []*nodepool.NodeClaim, error) {
		return []*nodepool.NodePool{pool}, []*nodepool.NodeClaim{claim}, nil
	})
	node := build.Node("k1", "a")
	node.Labels[nodepool.Label], node.Spec.ProviderID, claim.Status.ProviderID = "workers", "kwok://k1", "kwok://k1"
	r := &reportedGroup{groupContext: &groupContext{name: "karpenter/workers", observation: observation{provider: provider, cluster: &clusterReading{view: drain.Snapshot{Nodes: []*corev1.Node{node}}}}}}
	r.request = record.Request{Strategy: record.Delegated, Like: "eks", Window: 1}
	now := time.Now()
	show := func(hash string, drifted metav1.ConditionStatus) *report.UpgradeStatus {
		pool.Annotations["karpenter.sh/nodepool-hash"] = hash
		claim.Status.Conditions = []metav1.Condition{{Type: "Initialized", Status: "True"}, {Type: "Drifted", Status: drifted, LastTransitionTime: metav1.NewTime(now)}}
		group, err := provider.Observe(t.Context(), cloud.Ref{Name: "karpenter/workers"})
		if err != nil {
			t.Fatal(err)
		}
		r.group = group
		r.joinNodes(&record.Record{})
		return r.makeStatus(recordedState{}, now)
	}
	for _, hash := range []string{"1", "2"} {
		if s := show(hash, metav1.ConditionTrue); s.Result != "" || s.Run != "workers-"+hash || s.Status.Total != 1 || !r.isFollowingOperation() {
			t.Errorf("template %s: got the result %q of %q with %+v", hash, s.Result, s.Run, s.Status)
		}
	}
	if s := show("1", metav1.ConditionFalse); s.Result != record.Succeeded || r.isFollowingOperation() {
		t.Errorf("the NodePool was changed back: got the result %q: %s", s.Result, s.Message)
	}
}

// TestStatusOfUncomparedNodePool checks that a NodePool that Karpenter has not yet looked at is not called done, and that one whose
// first machine has not joined is shown.
func TestStatusOfUncomparedNodePool(t *testing.T) {
	p := driftingPool()
	p.claims = strings.ReplaceAll(p.claims, `"Drifted","status":"True"`, `"Drifted","status":"False"`)
	p.pools = strings.Replace(p.pools, `"uid":"u"`, `"uid":"u","generation":2`, 1)
	p.pools = strings.Replace(p.pools, `"spec":`, `"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1,"lastTransitionTime":null}]},"spec":`, 1)
	serveNodePools(t, p)
	stdout, stderr, code := invoke(t, "status", "workers", "--exit-code")
	if want := "it is unknown which nodes are outdated: Karpenter has not yet compared the nodes with the newest version of NodePool workers"; code != exitWaiting || !strings.Contains(stdout, want) {
		t.Errorf("exit code %d, no %q in\n%s%s", code, want, stdout, stderr)
	}
	if _, stderr, _ := invoke(t, "list"); !strings.Contains(stderr, "It is unknown which nodes of karpenter/workers are outdated: Karpenter has not yet") {
		t.Errorf("the list says %q", stderr)
	}
	if stdout, stderr, code := invoke(t, "status", "workers", "--watch", "--exit-code"); code != exitWaiting {
		t.Errorf("watched: exit code %d: %s%s", code, stdout, stderr)
	}
	p = driftingPool()
	p.claims = strings.ReplaceAll(p.claims, `i-k`, `i-new`)
	s := serveNodePools(t, p)
	s.nodes = s.nodes[:len(s.nodes)-2]
	if stdout, stderr, code := invoke(t, "status", "karpenter/workers"); code != exitDone {
		t.Errorf("no machine has joined: exit code %d: %s%s", code, stdout, stderr)
	}
}

// TestStatusOfHaltedNodePool checks that no time is given for a roll-out that does not go on.
func TestStatusOfHaltedNodePool(t *testing.T) {
	p := driftingPool()
	p.pools = strings.Replace(p.pools, `"spec":`, `"status":{"conditions":[{"type":"Ready","status":"False","message":"NodeClass not found","lastTransitionTime":null}]},"spec":`, 1)
	s := serveNodePools(t, p)
	for i := range s.pods {
		s.pods[i].Annotations = nil
	}
	stdout, stderr, _ := invoke(t, "status", "workers")
	for _, want := range []string{"1 current); Karpenter launches no nodes for NodePool workers: NodeClass not found", "Remaining   not known: Karpenter launches no nodes"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s%s", want, stdout, stderr)
		}
	}
}

// TestListNamesDeletedNodePool checks what the list says of nodes whose NodePool is gone: a change of that is no way to replace them.
func TestListNamesDeletedNodePool(t *testing.T) {
	s := serveNodePools(t, driftingPool())
	node := build.Node("k3", "a")
	node.Labels["karpenter.sh/nodepool"] = "deleted"
	s.nodes = append(s.nodes, *node)
	if _, stderr, _ := invoke(t, "list"); !strings.Contains(stderr, "Not listed: 1 node of NodePool deleted, which does not exist: create it again, or delete the NodeClaims.") || strings.Contains(stderr, "drift") {
		t.Errorf("got %q", stderr)
	}
}

// TestPlanWaitsForBudgetsOfNodePool checks that the times of a plan begin when the budgets open, and that there are none if they never do.
func TestPlanWaitsForBudgetsOfNodePool(t *testing.T) {
	plan := func(budgets string) (text string, times struct {
		Duration struct{ Earliest, Latest string }
		Ends     *struct{}
		Nodes    []struct{ Start struct{ Earliest string } }
	},
	) {
		p := driftingPool()
		p.pools = strings.Replace(p.pools, `[{"nodes":"1"}]`, budgets, 1)
		s := serveNodePools(t, p)
		for i := range s.pods {
			s.pods[i].Annotations = nil
		}
		text, stderr, _ := invoke(t, "plan", "workers", "-o", "json")
		if err := json.Unmarshal([]byte(text), &times); err != nil {
			t.Fatalf("%v: %s%s", err, text, stderr)
		}
		return text, times
	}
	began := time.Now().UTC().Add(-time.Minute)
	text, times := plan(`[{"nodes":"1"},{"nodes":"0","schedule":"` + began.Format("4 15") + ` * * *","duration":"3h"}]`)
	takes, err := time.ParseDuration(times.Duration.Earliest)
	if err != nil || takes < 2*time.Hour || len(times.Nodes) != 1 {
		t.Fatalf("%v: it takes %s: %s", err, takes, text)
	}
	if start, err := time.ParseDuration(times.Nodes[0].Start.Earliest); err != nil || start < 2*time.Hour || start > takes {
		t.Errorf("%v: the node starts after %s of %s", err, start, takes)
	}
	if text, times := plan(`[{"nodes":"0"}]`); times.Ends != nil || strings.Contains(text, "NodeCreationFailure") || !strings.Contains(text, "the budgets of the group allow no node") {
		t.Errorf("budgets that never open: %s", text)
	}
}

// TestStatusOfEndlessDrain checks that no end is given for a node that Karpenter drains behind a budget whose pods are not healthy: it
// never gives up.
func TestStatusOfEndlessDrain(t *testing.T) {
	s := serveNodePools(t, driftingPool())
	s.budgets = append(s.budgets, *build.Budget("job-0", build.Counts(3, 1, 2)))
	for i := range s.pods {
		s.pods[i].Annotations, s.pods[i].Labels = nil, map[string]string{"app": "job-0"}
	}
	for i := range s.nodes {
		if s.nodes[i].Name == "k1" {
			s.nodes[i].Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	stdout, stderr, _ := invoke(t, "status", "workers")
	if !strings.Contains(stdout, "Remaining   not known: it would wait for the pods of node k1") || strings.Contains(stdout, "gives up") {
		t.Errorf("the status is\n%s%s", stdout, stderr)
	}
}

// TestPlanShowsKeptNodes checks that a plan names what keeps a node that Karpenter passes over, and gives no time for it.
func TestPlanShowsKeptNodes(t *testing.T) {
	serveNodePools(t, driftingPool())
	stdout, stderr, _ := invoke(t, "plan", "workers")
	for _, want := range []string{"1 node to replace, 1 blocked, for an unknown time", "pod shop/job-0 (do-not-disrupt)"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s%s", want, stdout, stderr)
		}
	}
	s := serveNodePools(t, driftingPool())
	s.budgets = append(s.budgets, *build.Budget("job-0", build.Counts(1, 1, 1)))
	for i := range s.pods {
		s.pods[i].Annotations, s.pods[i].Labels = nil, map[string]string{"app": "job-0"}
	}
	if stdout, stderr, _ := invoke(t, "plan", "workers"); strings.Contains(stdout, "--skip-check") || !strings.Contains(stdout, "1 blocked, for an unknown time") {
		t.Errorf("a closed budget:\n%s%s", stdout, stderr)
	}
}
