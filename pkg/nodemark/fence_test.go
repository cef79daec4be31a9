package nodemark_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"pgregory.net/rapid"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestFenceAddsCordonAndTaintAndKeepsTaints(t *testing.T) {
	for _, provider := range []string{"aws", "gke", "manual"} {
		t.Run(provider, func(t *testing.T) {
			node := build.Node("old-a-1", "a", build.Tainted("dedicated"))
			fence(t, node, "r1", provider)
			if !node.Spec.Unschedulable || !nodemark.HasTaint(node, nodegroup.FenceTaint(provider)) {
				t.Error("E30: the node is not both cordoned and tainted")
			}
			want := []corev1.Taint{node.Spec.Taints[0], nodegroup.FenceTaint(provider), {Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
			if !slices.Equal(node.Spec.Taints, want) || node.Spec.Taints[0].Key != "dedicated" {
				t.Errorf("S1: the taints are %v, want what was there and %v", node.Spec.Taints, want[1:])
			}
			if node.Annotations[nodemark.AnnotationRun] != "r1" {
				t.Errorf("the run is %q", node.Annotations[nodemark.AnnotationRun])
			}
		})
	}
}

// If another process cordoned the node, the control plane has added the cordon's taint, or will.
func TestSetFenceKeepsExistingCordon(t *testing.T) {
	node := build.Node("old-a-1", "a")
	node.Spec.Unschedulable = true
	fence(t, node, "r1", "aws")
	if want := []corev1.Taint{nodegroup.FenceTaint("aws")}; !slices.Equal(node.Spec.Taints, want) {
		t.Errorf("I4: the taints are %v, want %v", node.Spec.Taints, want)
	}
}

func TestFenceTaintOfAWSIsThatOfEKS(t *testing.T) {
	want := corev1.Taint{Key: "eks.amazonaws.com/nodegroup", Value: "unschedulable", Effect: corev1.TaintEffectNoSchedule}
	if got := nodegroup.FenceTaint("aws"); got != want {
		t.Errorf("E30: got %v, want %v", got, want)
	}
}

func TestDrainMarkHasDeadlineAndExcludesLoadBalancers(t *testing.T) {
	node := build.Node("old-a-1", "a")
	node.Labels = nil
	nodemark.SetDraining(node, start.Add(time.Second/2).In(time.FixedZone("elsewhere", 3600)))
	if got, want := node.Annotations[nodemark.AnnotationDeadline], "2026-01-01T00:00:00Z"; got != want {
		t.Errorf("the deadline reads %q, want %q", got, want)
	}
	if node.Labels[corev1.LabelNodeExcludeBalancers] != "true" {
		t.Error("E46: load balancers still send to the node")
	}
}

// After its fence is removed, a node has exactly what it had before: taints, cordon, labels and annotations
// (invariants S1 and I4). That is so whether one run or two fenced it, and whether it was drained or not.
func TestUnfencedNodeEqualsNodeBeforeFence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		provider := rapid.SampledFrom([]string{"aws", "gke", "manual"}).Draw(t, "provider")
		node := drawNode(t, provider)
		before := node.DeepCopy()
		for _, run := range []string{"r1", "r1", "r2"}[:rapid.IntRange(1, 3).Draw(t, "fences")] {
			if err := nodemark.SetFence(node, run, nodegroup.FenceTaint(provider)); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "drained") {
				nodemark.SetDraining(node, start)
			}
		}
		if err := nodemark.ClearFence(node, nodegroup.FenceTaint(provider)); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(node, before) {
			t.Errorf("the node was %+v\nand is %+v", before, node)
		}
	})
}

// drawNode returns a random node, which may already have what a fence and a drain set.
func drawNode(t *rapid.T, provider string) *corev1.Node {
	fence := nodegroup.FenceTaint(provider)
	taints := []corev1.Taint{
		{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule},
		{Key: fence.Key, Effect: corev1.TaintEffectNoExecute},
		fence,
		{Key: fence.Key, Value: "by somebody", Effect: fence.Effect},
	}
	node := build.Node("old-a-1", "a")
	// The API server allows no two taints with the same key and effect.
	identity := func(taint corev1.Taint) string { return taint.Key + string(taint.Effect) }
	node.Spec.Taints = rapid.SliceOfNDistinct(rapid.SampledFrom(taints), 0, 3, identity).Draw(t, "taints")
	node.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
	if rapid.Bool().Draw(t, "unlabelled") {
		node.Labels = nil
	} else if value := rapid.SampledFrom([]string{"absent", "", "true", "false"}).Draw(t, "excluded"); value != "absent" {
		node.Labels[corev1.LabelNodeExcludeBalancers] = value
	}
	if rapid.Bool().Draw(t, "annotated") {
		node.Annotations = map[string]string{"example.com/owner": "me"}
	}
	return node
}

func TestClearFenceKeepsChangesOfOthers(t *testing.T) {
	cases := map[string]struct {
		after func(*corev1.Node)
		check func(*corev1.Node) string
	}{
		"somebody added a taint meanwhile": {build.Tainted("new"), func(n *corev1.Node) string {
			if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "new" {
				return "S1: that taint is lost"
			}
			return ""
		}},
		"somebody took all labels away": {func(n *corev1.Node) { n.Labels = nil }, func(n *corev1.Node) string {
			if n.Labels[corev1.LabelNodeExcludeBalancers] != "mine" {
				return "I4: the label that was there before is not back"
			}
			return ""
		}},
		"somebody made it schedulable": {func(n *corev1.Node) { n.Spec.Unschedulable = false }, func(n *corev1.Node) string {
			if nodemark.HasTaint(n, nodegroup.FenceTaint("aws")) || len(n.Annotations) > 0 {
				return "the rest of the fence is still there"
			}
			return ""
		}},
		"somebody took the annotation away, as told": {func(n *corev1.Node) { delete(n.Annotations, nodemark.AnnotationNodeBaseline) }, func(n *corev1.Node) string {
			if nodemark.HasTaint(n, nodegroup.FenceTaint("aws")) || n.Spec.Unschedulable || len(n.Annotations) > 0 {
				return "the fence is still there"
			}
			return ""
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node := build.Node("old-a-1", "a")
			node.Labels[corev1.LabelNodeExcludeBalancers] = "mine"
			fence(t, node, "r1", "aws")
			c.after(node)
			if err := nodemark.ClearFence(node, nodegroup.FenceTaint("aws")); err != nil {
				t.Fatal(err)
			}
			if fault := c.check(node); fault != "" {
				t.Errorf("%s: %+v", fault, node)
			}
		})
	}
}

// A node that this tool never fenced is not changed, cordoned or not.
func TestClearFenceKeepsUnfencedNodes(t *testing.T) {
	node := build.Node("old-a-1", "a", build.Tainted("eks.amazonaws.com/nodegroup"))
	node.Spec.Unschedulable = true
	before := node.DeepCopy()
	if err := nodemark.ClearFence(node, nodegroup.FenceTaint("aws")); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(node, before) {
		t.Errorf("I4: the node was %+v\nand is %+v", before, node)
	}
}

func TestUnreadableMarksChangeNothing(t *testing.T) {
	cases := map[string]func(*corev1.Node) error{
		"fence":   func(n *corev1.Node) error { return nodemark.SetFence(n, "r2", nodegroup.FenceTaint("aws")) },
		"unfence": func(n *corev1.Node) error { return nodemark.ClearFence(n, nodegroup.FenceTaint("aws")) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			node := build.Node("old-a-1", "a")
			fence(t, node, "r1", "aws")
			node.Annotations[nodemark.AnnotationNodeBaseline] = "{"
			before := node.DeepCopy()
			want := `annotation kubectl-nodeupgrade/prev of node "old-a-1" cannot be read (unexpected end of JSON input): run kubectl annotate node old-a-1 kubectl-nodeupgrade/prev- if`
			if err := change(node); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one that contains %q", err, want)
			}
			if !equality.Semantic.DeepEqual(node, before) {
				t.Errorf("the node was %+v\nand is %+v", before, node)
			}
		})
	}
}

func fence(t *testing.T, node *corev1.Node, run, provider string) {
	t.Helper()
	if err := nodemark.SetFence(node, run, nodegroup.FenceTaint(provider)); err != nil {
		t.Fatal(err)
	}
}

func TestOwnerAnnotationIsRemovedWithLastMark(t *testing.T) {
	owner := nodemark.Owner{Namespace: "kube-system", Group: "pool in (a,b)", Epoch: 3}
	node := build.Node("n1", "a")
	if nodemark.SetOwner(node, owner); len(node.Annotations) > 0 {
		t.Errorf("a node without marks has %v", node.Annotations)
	}
	nodemark.SetHold(node, "r1")
	if err := nodemark.SetFence(node, "r1", nodegroup.FenceTaint("aws")); err != nil {
		t.Fatal(err)
	}
	nodemark.SetOwner(node, owner)
	if got, named := nodemark.ReadOwner(node); got != owner || !named {
		t.Errorf("got %+v, %t", got, named)
	}
	nodemark.ClearHold(node)
	if _, named := nodemark.ReadOwner(node); !named {
		t.Error("the owner was removed with the hold, but the node is still fenced")
	}
	if err := nodemark.ClearFence(node, nodegroup.FenceTaint("aws")); err != nil {
		t.Fatal(err)
	}
	if len(node.Annotations) > 0 {
		t.Errorf("left are %v", node.Annotations)
	}
	for _, text := range []string{"", "{", `{"group":"g"}`, `{"namespace":"n"}`} {
		node.Annotations = map[string]string{nodemark.AnnotationOwner: text}
		if got, named := nodemark.ReadOwner(node); named {
			t.Errorf("%q names %+v", text, got)
		}
	}
}

// TestUnreadableAnnotationIsFoundWithItsRemedy: the remedy is the command that removes the annotation.
func TestUnreadableAnnotationIsFoundWithItsRemedy(t *testing.T) {
	readable := map[string][]string{
		nodemark.AnnotationNodeBaseline:  {"{}", `{"taint":true,"excluded":"true"}`, `{"excluded":""}`},
		nodemark.AnnotationOwner:         {`{"namespace":"kube-system","group":"blue"}`},
		nodemark.AnnotationGroupBaseline: {`{"desired":3,"min":1,"max":4}`},
		nodemark.AnnotationDeadline:      {"2026-01-01T00:00:00Z"},
		nodemark.AnnotationEpoch:         {"{"}, // no code reads it
	}
	unreadable := map[string][]string{
		nodemark.AnnotationNodeBaseline:  {"", "{", "[]", `{"taint":"yes"}`, `{"excluded":"not a label value"}`},
		nodemark.AnnotationOwner:         {"", "{", "{}", `{"group":"blue"}`},
		nodemark.AnnotationGroupBaseline: {"", "{", "{}", `{"desired":-1}`, `{"desired":1e99}`},
		nodemark.AnnotationDeadline:      {"", "tomorrow", "1767225600"},
	}
	find := func(key, text string) *nodemark.UnreadableError {
		node := build.Node("old-a-1", "a")
		node.Annotations = map[string]string{key: text}
		return nodemark.FindUnreadable(node)
	}
	for key, texts := range readable {
		for _, text := range texts {
			if got := find(key, text); got != nil {
				t.Errorf("%s=%q: %v", key, text, got)
			}
		}
	}
	for key, texts := range unreadable {
		for _, text := range texts {
			got := find(key, text)
			if want := "kubectl annotate node old-a-1 " + key + "-"; got == nil || got.Remedy() != want || !strings.Contains(got.Error(), want) {
				t.Errorf("%s=%q: %v", key, text, got)
			}
		}
	}
}

// S32: TestHeldNodeKeepsOwnerAnnotationUntilHoldIsRemoved removes the fence from a node that is still held. The node keeps its owner until
// the hold is removed too.
func TestHeldNodeKeepsOwnerAnnotationUntilHoldIsRemoved(t *testing.T) {
	node := build.Node("old-a-1", "a")
	fence(t, node, "r1", "aws")
	nodemark.SetHold(node, "r1")
	nodemark.SetGroupBaseline(node, nodemark.GroupBaseline{Desired: 3}.Encode())
	nodemark.SetOwner(node, nodemark.Owner{Namespace: "ops", Group: "workers"})
	if err := nodemark.ClearFence(node, nodegroup.FenceTaint("aws")); err != nil {
		t.Fatal(err)
	}
	if owner, named := nodemark.ReadOwner(node); !named || owner.Namespace != "ops" {
		t.Errorf("the held node names %v as its owner", owner)
	}
	if before, told := nodemark.ReadGroupBaseline(node, "r1"); !told || before.Desired != 3 {
		t.Errorf("the held node says that its group was %v", before)
	}
	nodemark.ClearHold(node)
	if len(node.Annotations) > 0 {
		t.Errorf("the node keeps %v", node.Annotations)
	}
}
