package karpenter_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/karpenter"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
)

// start is when the first nodes were created.
func start() time.Time { return time.Now().Add(-time.Hour).Truncate(time.Second) }

// readings are the NodePools and NodeClaims of a cluster.
type readings struct {
	pools  []*nodepool.NodePool
	claims []*nodepool.NodeClaim
	err    error
}

func (r *readings) read(context.Context) ([]*nodepool.NodePool, []*nodepool.NodeClaim, error) {
	return r.pools, r.claims, r.err
}

func newPool(name string, budgets ...nodepool.Budget) *nodepool.NodePool {
	p := &nodepool.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", Annotations: map[string]string{"karpenter.sh/nodepool-hash": "123456789"}}}
	p.Spec.Disruption.Budgets = budgets
	return p
}

// newClaim returns a NodeClaim whose conditions are true. It was created age after the start.
func newClaim(name string, age time.Duration, conditions ...string) *nodepool.NodeClaim {
	c := &nodepool.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(start().Add(age)), Labels: map[string]string{nodepool.Label: "workers", corev1.LabelTopologyZone: "a"},
	}}
	c.Status.NodeName, c.Status.ProviderID = "node-"+name, "aws:///us-east-1a/i-"+name
	for _, of := range conditions {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: of, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: metav1.NewTime(start().Add(50 * time.Minute))})
	}
	return c
}

func leaving(c *nodepool.NodeClaim) *nodepool.NodeClaim {
	c.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return c
}

func observe(t *testing.T, p *karpenter.Provider) nodegroup.Group {
	t.Helper()
	group, err := p.Observe(t.Context(), cloud.Ref{Name: "karpenter/workers"})
	if err != nil {
		t.Fatal(err)
	}
	return group
}

func TestNodePoolIsGroupThatBeginsByItself(t *testing.T) {
	r := &readings{pools: []*nodepool.NodePool{newPool("workers", nodepool.Budget{Nodes: "50%"})}, claims: []*nodepool.NodeClaim{
		newClaim("1", 0, "Initialized", "Drifted"), leaving(newClaim("2", 0, "Initialized", "Drifted")), leaving(newClaim("3", 0, "Initialized", "Drifted", "Drained")),
		newClaim("4", 51*time.Minute, "Initialized"), newClaim("5", 52*time.Minute, "Launched"), newClaim("6", 0, "Initialized"),
	}}
	g := observe(t, karpenter.New(r.read))
	if g.Kind != "Karpenter NodePool" || g.Refusal != "" || g.Managed == nil || !strings.Contains(g.Managed.ByItself, "kubectl nodeupgrade status karpenter/workers -w") {
		t.Errorf("got %+v", g)
	}
	var got []string
	for _, i := range g.Instances {
		text := i.ID + " " + string(i.State)
		if i.Outdated {
			text += " outdated " + i.Why
		}
		got = append(got, text)
	}
	want := []string{"i-1 InService outdated NodePoolDrifted", "i-2 InService outdated NodePoolDrifted", "i-3 Terminating outdated NodePoolDrifted", "i-4 InService", "i-5 Pending", "i-6 InService"}
	if !slices.Equal(got, want) {
		t.Errorf("got the instances\n%q\nwant\n%q", got, want)
	}
	op := g.Managed.Operation
	if op.State != nodegroup.OperationRunning || !op.IsUpgrade() || op.ID != "workers-12345678" || op.Stage != "3 drifted, 2 of them being replaced, 3 current" {
		t.Errorf("got the operation %+v", op)
	}
	if m := g.Managed; !m.PassesOver || m.DeletesRest || m.DrainTimeout != nodegroup.EndlessDrain || m.MaxUnavailable.N != 3 || len(m.Pace) != 1 || m.Pace[0].MaxUnavailable != 3 {
		t.Errorf("got %+v, want half of the 5 initialized nodes at a time", m)
	}
}

// TestReplacedNodesAreNewOnes counts the current nodes that were created since the drift. Nodes whose old node is not gone do not count.
func TestReplacedNodesAreNewOnes(t *testing.T) {
	r := &readings{pools: []*nodepool.NodePool{newPool("workers")}, claims: []*nodepool.NodeClaim{
		newClaim("1", 0, "Initialized", "Drifted"), newClaim("2", 0, "Initialized", "Drifted", "DisruptionReason"), newClaim("3", 0, "Initialized"),
		newClaim("4", 51*time.Minute, "Initialized"), newClaim("5", 52*time.Minute, "Initialized"), newClaim("6", 53*time.Minute),
	}}
	if got := observe(t, karpenter.New(r.read)).Managed.Operation.Replaced; got != 1 {
		t.Errorf("got %d, want 1: two new nodes, one of them beside its old one", got)
	}
}

// TestRolloutThatWasNotSeenIsUnknown checks that a pool without drifted nodes shows no operation, unless this process saw it running.
func TestRolloutThatWasNotSeenIsUnknown(t *testing.T) {
	r := &readings{pools: []*nodepool.NodePool{newPool("workers")}, claims: []*nodepool.NodeClaim{newClaim("1", 0, "Initialized")}}
	p := karpenter.New(r.read)
	if op := observe(t, p).Managed.Operation; op.ID != "" || op.State != "" {
		t.Errorf("got %+v for a pool that may never have drifted", op)
	}
	r.claims = []*nodepool.NodeClaim{newClaim("1", 0, "Initialized", "Drifted")}
	running := observe(t, p).Managed.Operation
	r.claims = []*nodepool.NodeClaim{newClaim("2", time.Minute, "Initialized")}
	if ended := observe(t, p).Managed.Operation; ended.State != nodegroup.OperationSucceeded || !ended.Began.Equal(running.Began) || ended.ID != running.ID {
		t.Errorf("got %+v after %+v", ended, running)
	}
}

func TestGracePeriodEndsDrains(t *testing.T) {
	limited := func(name, limit string) *nodepool.NodeClaim {
		c := newClaim(name, 0, "Initialized", "Drifted")
		c.Spec.TerminationGracePeriod = limit
		return c
	}
	r := &readings{pools: []*nodepool.NodePool{newPool("workers")}, claims: []*nodepool.NodeClaim{limited("1", "1h"), limited("2", "2h"), newClaim("3", 0, "Initialized")}}
	if m := observe(t, karpenter.New(r.read)).Managed; !m.PassesOver || !m.DeletesRest || m.DrainTimeout != 2*time.Hour {
		t.Errorf("got %+v", m)
	}
	r.claims = append(r.claims, limited("4", ""))
	g := observe(t, karpenter.New(r.read))
	if m := g.Managed; !m.PassesOver || m.DeletesRest || m.DrainTimeout != nodegroup.EndlessDrain {
		t.Errorf("one node without a limit: got %+v", m)
	}
	if i := g.Instances; !i[0].DeletesRest || !i[1].DeletesRest || i[2].DeletesRest || i[3].DeletesRest {
		t.Errorf("got the instances %+v, want a limit only for those that have one", i)
	}
}

// TestClosedBudgetOpensLater checks that a pool whose budget is closed now is planned with the number that holds when it opens.
func TestClosedBudgetOpensLater(t *testing.T) {
	hit := time.Now().UTC().Add(-time.Minute)
	schedule, duration := hit.Format("4 15 * * *"), "30m"
	r := &readings{pools: []*nodepool.NodePool{newPool("workers", nodepool.Budget{Nodes: "2"}, nodepool.Budget{Nodes: "0", Schedule: &schedule, Duration: &duration})}}
	for _, name := range []string{"1", "2", "3"} {
		r.claims = append(r.claims, newClaim(name, 0, "Initialized", "Drifted"))
	}
	m := observe(t, karpenter.New(r.read)).Managed
	if m.MaxUnavailable.N != 2 || len(m.Pace) < 2 || m.Pace[0].MaxUnavailable != 0 || m.Pace[1].MaxUnavailable != 2 {
		t.Errorf("got %v, then %v", m.MaxUnavailable, m.Pace[:min(len(m.Pace), 3)])
	}
}

func TestUnreadablePoolsAreErrors(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{nodepool.Label: "workers"}}}
	p := karpenter.New((&readings{}).read)
	if _, err := p.Groups(t.Context(), []*corev1.Node{node}); err == nil || !strings.Contains(err.Error(), "no NodePool of karpenter.sh/v1: upgrade Karpenter to 1.0 or newer") {
		t.Errorf("nodes without NodePools: %v", err)
	}
	bare := karpenter.New((&readings{pools: []*nodepool.NodePool{newPool("workers")}}).read)
	if _, err := bare.Groups(t.Context(), []*corev1.Node{node}); err == nil || !strings.Contains(err.Error(), "no NodeClaim of karpenter.sh/v1: check kubectl get nodeclaims") {
		t.Errorf("nodes without NodeClaims: %v", err)
	}
	if groups, err := bare.Groups(t.Context(), nil); err != nil || len(groups) != 1 {
		t.Errorf("a NodePool without nodes: %v, %v", groups, err)
	}
	if _, err := p.Observe(t.Context(), cloud.Ref{Name: "karpenter/workers"}); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("an unknown pool: %v", err)
	}
	denied := karpenter.New((&readings{err: errors.New("you may not list nodepools")}).read)
	if _, err := denied.Groups(t.Context(), nil); err == nil || err.Error() != "reading Karpenter's NodePools: you may not list nodepools" {
		t.Errorf("got %v", err)
	}
}

func TestNodesBelongToTheirPool(t *testing.T) {
	r := &readings{pools: []*nodepool.NodePool{newPool("workers"), newPool("gpu")}}
	p := karpenter.New(r.read)
	groups, err := p.Groups(t.Context(), nil)
	if err != nil || len(groups) != 2 || groups[0].Name != "karpenter/gpu" || groups[1].Name != "karpenter/workers" {
		t.Fatalf("got %v, %v", groups, err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{nodepool.Label: "workers"}}}
	if p.Belongs(&groups[0], node) || !p.Belongs(&groups[1], node) || p.Belongs(&groups[1], &corev1.Node{}) {
		t.Error("the node is not in its pool alone")
	}
}

func TestActionsAreRefused(t *testing.T) {
	p := karpenter.New((&readings{}).read)
	var sorted *cloud.Error
	if err := p.Do(t.Context(), "karpenter/workers", nodegroup.Delegate{}); !errors.As(err, &sorted) || sorted.Outcome != nodegroup.OutcomeFatal {
		t.Errorf("got %v", err)
	}
}

// TestUncomparedNodesAreUnknown checks that nodes do not count as current before Karpenter has compared them with the newest NodePool.
func TestUncomparedNodesAreUnknown(t *testing.T) {
	hashed := func(hash, version string, conditions ...string) *nodepool.NodeClaim {
		c := newClaim("1", 0, append(conditions, "Launched", "Initialized")...)
		c.Annotations = map[string]string{"karpenter.sh/nodepool-hash": hash, "karpenter.sh/nodepool-hash-version": version}
		return c
	}
	const current = "123456789"
	cases := map[string]struct {
		generation, observed int64
		claim                *nodepool.NodeClaim
		known                bool
	}{
		"compared":                        {2, 2, hashed(current, "v3"), true},
		"an older Karpenter":              {2, 0, hashed(current, "v3"), true},
		"the NodePool has changed":        {3, 2, hashed(current, "v3"), false},
		"another template":                {2, 2, hashed("1", "v3"), false},
		"another template and drifted":    {2, 2, hashed("1", "v3", "Drifted"), true},
		"another template, being removed": {2, 2, leaving(hashed("1", "v3")), true},
		"another way to hash":             {2, 2, hashed("1", "v2"), true},
	}
	for name, c := range cases {
		pool := newPool("workers")
		pool.Generation, pool.Annotations["karpenter.sh/nodepool-hash-version"] = c.generation, "v3"
		pool.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: c.observed}}
		g := observe(t, karpenter.New((&readings{pools: []*nodepool.NodePool{pool}, claims: []*nodepool.NodeClaim{c.claim}}).read))
		if g.IsTargetKnown() != c.known || (g.Refusal == "") != c.known {
			t.Errorf("%s: known %t, %q", name, g.IsTargetKnown(), g.Refusal)
		}
	}
}

// TestHaltedRolloutSaysWhy checks that a NodePool that launches no nodes, and a NodeClaim without a machine, are named.
func TestHaltedRolloutSaysWhy(t *testing.T) {
	pool, stalled := newPool("workers", nodepool.Budget{Nodes: "10%"}), newClaim("2", 0)
	stalled.Labels, stalled.Status.Conditions = nil, []metav1.Condition{{Type: "Launched", Status: metav1.ConditionUnknown, Message: "no such type"}}
	r := &readings{pools: []*nodepool.NodePool{pool}}
	if m := observe(t, karpenter.New(r.read)).Managed; m.Halted != "" || m.Pace[0].MaxUnavailable != 1 {
		t.Errorf("a NodePool without nodes: got %+v", m)
	}
	r.claims = []*nodepool.NodeClaim{newClaim("1", 0, "Launched", "Initialized", "Drifted"), stalled}
	if got := observe(t, karpenter.New(r.read)).Managed.Halted; got != "NodeClaim 2 has no machine, and until then Karpenter replaces no node of any NodePool: no such type" {
		t.Errorf("got %q", got)
	}
	pool.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: "NodeClass not found on cluster"}}
	if got := observe(t, karpenter.New(r.read)).Managed.Halted; got != "Karpenter launches no nodes for NodePool workers: NodeClass not found on cluster" {
		t.Errorf("got %q", got)
	}
}
