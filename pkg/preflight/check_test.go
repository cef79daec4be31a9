package preflight_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// group returns a node group with an outdated node "old" and a current node "new".
func group(provider string) *upgrade.World {
	return &upgrade.World{
		Now: start, Group: nodegroup.Group{Name: "workers", Provider: provider},
		Members: []nodegroup.Member{{Node: build.Node("new", "a")}, {Node: build.Node("old", "a"), Outdated: true}},
	}
}

// on puts pods on the member with the name.
func on(w *upgrade.World, name string, pods ...*corev1.Pod) *upgrade.World {
	for i := range w.Members {
		if w.Members[i].Name() == name {
			w.Members[i].Pods = append(w.Members[i].Pods, pods...)
		}
	}
	return w
}

// formatFindings returns the findings as "rule severity node object".
func formatFindings(found []preflight.Finding) []string {
	var all []string
	for _, f := range found {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", f.Rule, f.Severity, f.Node, f.Object)))
	}
	return all
}

func TestTargetWithNewerMinorThanControlPlaneIsRefused(t *testing.T) {
	cases := map[string]struct {
		target, server string
		refused        bool
	}{
		"the same":                     {"v1.33.4", "v1.33.4", false},
		"a patch ahead is no skew":     {"v1.33.9", "v1.33.4", false},
		"a patch behind":               {"v1.33.1", "v1.33.4", false},
		"a minor behind":               {"v1.32.9", "v1.33.0", false},
		"a minor ahead":                {"v1.34.0", "v1.33.9", true},
		"ten is more than nine":        {"v1.10.0", "v1.9.0", true},
		"a major ahead":                {"v2.0.0", "v1.99.0", true},
		"a major behind":               {"v1.99.0", "v2.0.0", false},
		"a vendor's suffix":            {"v1.34.1-eks-113cf36", "v1.33.4-eks-a5df82a", true},
		"a vendor's suffix, not ahead": {"v1.33.1-eks-113cf36", "v1.33.4-gke.1029000", false},
		"without a patch":              {"v1.34", "v1.33", true},
		"without a v":                  {"1.34.0", "1.33.0", true},
		"a target of unknown version":  {"", "v1.33.4", false},
		"a server of unknown version":  {"v1.34.0", "", false},
		"a target that is no version":  {"latest", "v1.33.4", false},
		"a server that is no version":  {"v1.34.0", "devel", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := group("aws")
			w.Group.Wanted.Kubernetes = c.target
			var want []string
			if c.refused {
				want = []string{"VER001 refuse"}
			}
			found := preflight.CheckUpgrade(w, preflight.Facts{ServerVersion: c.server})
			if got := formatFindings(found); !slices.Equal(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
			if c.refused && (!strings.Contains(found[0].Message, c.target) || !strings.Contains(found[0].Message, c.server)) {
				t.Errorf("%q does not name both versions", found[0].Message)
			}
		})
	}
}

func TestNodesOfOtherControllersAreRefused(t *testing.T) {
	karpenter := func(n *corev1.Node) { n.Labels["karpenter.sh/nodepool"] = "default" }
	flexStart := func(n *corev1.Node) {
		n.Labels["cloud.google.com/gke-nodepool"], n.Labels["cloud.google.com/gke-flex-start"] = "gpu", "true"
	}
	cases := map[string]struct {
		change func(*upgrade.World)
		want   []string
	}{
		"no one else's": {func(*upgrade.World) {}, nil},
		"NG002 the provider refuses": {func(w *upgrade.World) {
			w.Group.Refusal = "an instance refresh is under way: wait for it"
		}, []string{"NG002 refuse"}},
		"NG001 Karpenter's": {func(w *upgrade.World) { karpenter(w.Members[1].Node) }, []string{"NG001 refuse  node old"}},
		"NG001 is said once": {func(w *upgrade.World) {
			karpenter(w.Members[1].Node)
			w.Members = append(w.Members, nodegroup.Member{Node: build.Node("old-2", "a", karpenter), Outdated: true})
		}, []string{"NG001 refuse  node old"}},
		"NG006 a node of the control plane": {func(w *upgrade.World) { w.Members[1].Node.Labels["node-role.kubernetes.io/control-plane"] = "" }, []string{"NG006 refuse  node old"}},
		"NG006 only a current node":         {func(w *upgrade.World) { w.Members[0].Node.Labels["node-role.kubernetes.io/control-plane"] = "" }, nil},
		"NG003 one machine twice": {func(w *upgrade.World) {
			w.Members[0].Node.Spec.ProviderID, w.Members[1].Node.Spec.ProviderID = "aws:///a/i-1", "aws:///a/i-1"
		}, []string{"NG003 refuse  nodes new and old"}},
		"NG003 a machine each": {func(w *upgrade.World) {
			w.Members[0].Node.Spec.ProviderID, w.Members[1].Node.Spec.ProviderID = "aws:///a/i-1", "aws:///a/i-2"
		}, nil},
		"NG001 is said alone": {func(w *upgrade.World) {
			karpenter(w.Members[1].Node)
			w.Group.Refusal = "Karpenter replaces these nodes by itself"
		}, []string{"NG001 refuse  node old"}},
		"NG001 where it is not known which nodes are outdated": {func(w *upgrade.World) {
			karpenter(w.Members[0].Node)
			w.Group.Wanted, w.Group.Refusal = nodegroup.Revision{}, "pass --current"
			w.Members = w.Members[:1]
		}, []string{"NG001 refuse  node new"}},
		"NG001 Flex Start's": {func(w *upgrade.World) { flexStart(w.Members[1].Node) }, []string{"NG001 refuse  node old"}},
		"nodes that end by themselves are followed": {func(w *upgrade.World) {
			flexStart(w.Members[1].Node)
			w.Request.Strategy = record.ShortLived
		}, nil},
		"NG001 Karpenter's are not followed": {func(w *upgrade.World) {
			karpenter(w.Members[1].Node)
			w.Request.Strategy = record.ShortLived
		}, []string{"NG001 refuse  node old"}},
		"a current node of Karpenter's is not replaced": {func(w *upgrade.World) { karpenter(w.Members[0].Node) }, nil},
		"a group of Karpenter's that is current": {func(w *upgrade.World) {
			karpenter(w.Members[0].Node)
			w.Group.Wanted.ID, w.Members = "workers:8", w.Members[:1]
		}, nil},
		"an instance without a node": {func(w *upgrade.World) {
			w.Members = append(w.Members, nodegroup.Member{Instance: nodegroup.Instance{ID: "i-1"}, Outdated: true})
		}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := group("aws")
			c.change(w)
			if got := formatFindings(preflight.CheckUpgrade(w, preflight.Facts{})); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// everything tolerates all taints, cordon only the taint of a cordon, and fence the fence's taint of a provider.
var everything = build.Tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})

func cordon(pod *corev1.Pod) {
	build.Tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})(pod)
}

func fence(provider string) func(*corev1.Pod) {
	return build.Tolerating(corev1.Toleration{Key: nodegroup.FenceTaint(provider).Key, Operator: corev1.TolerationOpExists})
}

// podCase is one pod on the outdated node of a group, with its budgets.
type podCase struct {
	pod     []func(*corev1.Pod)
	budgets []*policyv1.PodDisruptionBudget
	change  func(*upgrade.World)
	want    []string
}

func (c podCase) world(node string) *upgrade.World {
	w := on(group("aws"), node, build.Pod("web-0", c.pod...))
	w.Budgets = drain.NewBudgets(c.budgets)
	if c.change != nil {
		c.change(w)
	}
	return w
}

func podCases() map[string]podCase {
	type pods = []func(*corev1.Pod)
	type pdbs = []*policyv1.PodDisruptionBudget
	all := build.Budget("all", build.Selecting(&metav1.LabelSelector{}))
	ending := func(w *upgrade.World) { w.EndingNamespaces = map[string]bool{build.Namespace: true} }
	free := func(w *upgrade.World) { w.Request.EvictUnmanaged = true }
	web := func(rule string) []string { return []string{rule + " block old pod shop/web-0"} }
	daemon := build.OwnedBy("DaemonSet", "agent")
	warn := []string{"POD008 warning old pod shop/web-0"}
	cases := map[string]podCase{
		"a pod without a budget":                                 {},
		"a budget that is open":                                  {budgets: pdbs{build.Budget("web")}},
		"a budget that is spent for now":                         {budgets: pdbs{build.Budget("web", build.Counts(3, 2, 2))}},
		"PDB001 needs every pod":                                 {budgets: pdbs{build.Budget("web", build.Counts(3, 3, 3))}, want: web("PDB001")},
		"PDB001 of other pods":                                   {budgets: pdbs{build.Budget("api", build.Counts(3, 3, 3))}},
		"PDB001 an unready pod may go":                           {pod: pods{build.Unready}, budgets: pdbs{build.Budget("web", build.Counts(3, 3, 3))}},
		"PDB002 two budgets":                                     {budgets: pdbs{build.Budget("web"), all}, want: web("PDB002")},
		"PDB002 a pod that never started may go":                 {pod: pods{build.Phase(corev1.PodPending)}, budgets: pdbs{build.Budget("web"), all}},
		"PDB006 too few healthy":                                 {pod: pods{build.Unready}, budgets: pdbs{build.Budget("web", build.Counts(3, 1, 2))}, want: web("PDB006")},
		"PDB006 too few healthy, on nodes that were not read":    {budgets: pdbs{build.Budget("web", build.Counts(3, 1, 2))}, want: []string{"PDB006 warning old pod shop/web-0"}},
		"PDB006 an unready pod that may always go":               {pod: pods{build.Unready}, budgets: pdbs{build.Budget("web", build.Counts(3, 1, 2), build.AlwaysAllow)}},
		"POD001 no controller":                                   {pod: pods{build.Bare}, want: web("POD001")},
		"POD001 no controller and a closed budget":               {pod: pods{build.Bare}, budgets: pdbs{build.Budget("web", build.Counts(3, 3, 3))}, want: web("POD001")},
		"POD001 that the user lets go":                           {pod: pods{build.Bare}, change: free},
		"POD001 that is finished":                                {pod: pods{build.Bare, build.Phase(corev1.PodSucceeded)}},
		"POD001 that is leaving":                                 {pod: pods{build.Bare, build.Ending(start)}},
		"POD005 tolerates everything":                            {pod: pods{everything}, want: web("POD005")},
		"POD005 tolerates both":                                  {pod: pods{cordon, fence("aws")}, want: web("POD005")},
		"POD005 tolerates the cordon alone":                      {pod: pods{cordon}},
		"POD005 tolerates the taint alone":                       {pod: pods{fence("aws")}},
		"POD005 tolerates another provider's":                    {pod: pods{cordon, fence("manual")}},
		"POD005 before its budget":                               {pod: pods{everything}, budgets: pdbs{build.Budget("web", build.Counts(3, 3, 3))}, want: web("POD005")},
		"POD005 no one brings it back":                           {pod: pods{everything, build.Bare}, change: free},
		"POD007 its namespace is ending":                         {change: ending, want: web("POD007")},
		"POD007 it is leaving":                                   {pod: pods{build.Ending(start)}, change: ending},
		"POD008 that drains are to skip":                         {pod: pods{wishing("skip")}, want: warn},
		"POD008 whatever is in its way":                          {pod: pods{wishing("skip"), build.Bare}, budgets: pdbs{build.Budget("web"), all}, want: warn},
		"POD008 that is to complete":                             {pod: pods{wishing("wait-completed")}, want: warn},
		"POD008 that is to complete and is controlled by no one": {pod: pods{wishing("wait-completed"), build.Bare}, want: warn},
		"POD008 that has completed":                              {pod: pods{wishing("wait-completed"), build.Phase(corev1.PodSucceeded)}},
		"POD008 that is leaving":                                 {pod: pods{wishing("wait-completed"), build.Ending(start)}},
		"POD008 that autoscalers are not to evict":               {pod: pods{annotated(drain.AnnotationSafeToEvict, "false")}, want: warn},
		"POD008 that Karpenter is not to disrupt":                {pod: pods{annotated(drain.AnnotationDoNotDisrupt, "true")}, want: warn},
		"POD008 that is said to be safe to evict":                {pod: pods{annotated(drain.AnnotationSafeToEvict, "true")}},
		"POD008 with a wish that no one knows":                   {pod: pods{wishing("later")}, want: warn},
		"POD008 with such a wish, and a closed budget":           {pod: pods{wishing("later")}, budgets: pdbs{build.Budget("web", build.Counts(3, 3, 3))}, want: slices.Concat(warn, web("PDB001"))},
		"POD008 with such a wish, and finished":                  {pod: pods{wishing("later"), build.Phase(corev1.PodFailed)}},
		"POD008 a DaemonSet's pod may ask for anything":          {pod: pods{daemon, everything, wishing("wait-completed")}},
		"POD012 a DaemonSet without tolerations":                 {pod: pods{daemon}, want: []string{"POD012 warning  DaemonSet shop/agent"}},
		"POD012 a DaemonSet that tolerates a cordon":             {pod: pods{daemon, cordon}, want: []string{"POD012 warning  DaemonSet shop/agent"}},
		"POD012 a DaemonSet that tolerates the taint":            {pod: pods{daemon, fence("aws")}},
		"POD012 a DaemonSet that tolerates everything":           {pod: pods{daemon, everything}},
		"a DaemonSet's pod is no obstacle":                       {pod: pods{daemon, everything}, budgets: pdbs{build.Budget("web"), all}, change: ending},
		"a static pod is no obstacle":                            {pod: pods{static, everything}, budgets: pdbs{build.Budget("web"), all}},
	}
	maps.Copy(cases, closedBudgetCases())
	return cases
}

// closedBudgetCases returns the cases of budgets that cannot be computed, or that count no pods or one pod.
func closedBudgetCases() map[string]podCase {
	type pods = []func(*corev1.Pod)
	type pdbs = []*policyv1.PodDisruptionBudget
	free := func(w *upgrade.World) { w.Request.EvictUnmanaged = true }
	web := func(rule string) []string { return []string{rule + " block old pod shop/web-0"} }
	return map[string]podCase{
		"PDB003 its pod's owner is gone":            {budgets: pdbs{build.Budget("web", withSyncFailure(`found no controllers for pod "web-0"`))}, want: web("PDB003")},
		"PDB003 from its first sync on":             {budgets: pdbs{build.Budget("web", withSyncFailure(`found no controllers for pod "web-0"`), neverComputed)}, want: web("PDB003")},
		"PDB003 an unready pod that may always go":  {pod: pods{build.Unready}, budgets: pdbs{build.Budget("web", withSyncFailure("timeout"), build.AlwaysAllow)}},
		"PDB004 counts no pods":                     {budgets: pdbs{build.Budget("web", build.Counts(0, 0, 0))}, want: web("PDB004")},
		"PDB004 for a pod without a controller":     {pod: pods{build.Bare}, budgets: pdbs{build.Budget("web", build.Counts(0, 0, 0))}, want: slices.Concat(web("POD001"), web("PDB004"))},
		"PDB004 of a pod that the user lets go":     {pod: pods{build.Bare}, budgets: pdbs{build.Budget("web", build.Counts(0, 0, 0))}, change: free, want: web("PDB004")},
		"PDB005 its pod's owner has no scale":       {budgets: pdbs{build.Budget("web", withSyncFailure("caches.example.com does not implement the scale subresource"))}, want: web("PDB005")},
		"PDB005 over a job":                         {pod: pods{build.OwnedBy("Job", "web")}, budgets: pdbs{build.Budget("web", withSyncFailure("no scale"))}, want: web("PDB005")},
		"PDB007 none needed, none healthy":          {pod: pods{build.Unready}, budgets: pdbs{build.Budget("web", build.Counts(3, 0, 0))}, want: web("PDB007")},
		"PDB007 an unready pod that may always go":  {pod: pods{build.Unready}, budgets: pdbs{build.Budget("web", build.Counts(3, 0, 0), build.AlwaysAllow)}},
		"PDB008 a budget that is not processed yet": {budgets: pdbs{build.Budget("web", build.Counts(1, 1, 1), neverComputed)}},
		"PDB009 needs its only pod":                 {budgets: pdbs{build.Budget("web", build.Counts(1, 1, 1))}, want: web("PDB009")},
	}
}

// wishing sets Cluster API's label on the pod.
func wishing(value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[drain.Label] = value }
}

// annotated sets an annotation on the pod.
func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} }
}

// TestDrainLabelFindingsSayWhatHappensToPod checks that the finding says what happens to the pod, and names the pod as the blocker only if the
// drain waits for it.
func TestDrainLabelFindingsSayWhatHappensToPod(t *testing.T) {
	cases := map[string]struct{ says, blocker string }{
		"skip":           {"stays and is terminated with its node", ""},
		"wait-completed": {"waits until it has finished", "pod shop/web-0 (completion)"},
		"later":          {`has the unknown value "later"`, ""},
	}
	for value, c := range cases {
		t.Run(value, func(t *testing.T) {
			found := preflight.CheckUpgrade(podCase{pod: []func(*corev1.Pod){wishing(value)}}.world("old"), preflight.Facts{})
			if len(found) != 1 || !strings.Contains(found[0].Message, c.says) || found[0].Blocker != c.blocker {
				t.Errorf("got %+v, want one that says %q with blocker %q", found, c.says, c.blocker)
			}
		})
	}
}

// TestManagedDrainsIgnoreDrainLabel checks the finding about pods whose owners ask for a special drain, if a cloud drains the nodes
// itself and evicts them like any other. The finding advises no label, because that cloud does not read it.
func TestManagedDrainsIgnoreDrainLabel(t *testing.T) {
	for _, value := range []string{"skip", "wait-completed"} {
		w := podCase{pod: []func(*corev1.Pod){wishing(value)}}.world("old")
		w.Group.Provider, w.Request.Strategy = "aws", record.Delegated
		found := preflight.CheckUpgrade(w, preflight.Facts{})
		want := "its owner asks for special treatment (" + drain.Label + "=" + value + "), but EKS evicts it like any other pod"
		if len(found) != 1 || found[0].Message != want || found[0].Blocker != "" || strings.Contains(found[0].Remedy, "label") {
			t.Errorf("%s: got %+v", value, found)
		}
	}
}

// TestFindingsFitKarpenter checks that findings about Karpenter's own replacements name its taint, do not say that it evicts a pod that it
// keeps, and advise no flag of this tool.
func TestFindingsFitKarpenter(t *testing.T) {
	kept, agent := build.Pod("web-0", annotated(drain.AnnotationDoNotDisrupt, "true")), build.Pod("agent", build.OwnedBy("DaemonSet", "agent"))
	w := podCase{budgets: []*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(1, 1, 1))}}.world("old")
	w.Group.Provider, w.Request.Strategy, w.Group.Managed = "karpenter", record.Delegated, &nodegroup.Managed{ByItself: "Karpenter does"}
	for i := range w.Members {
		if w.Members[i].Outdated {
			w.Members[i].Pods = []*corev1.Pod{kept, agent}
		}
	}
	found := map[string]preflight.Finding{}
	for _, f := range preflight.CheckUpgrade(w, preflight.Facts{}) {
		found[f.Rule] = f
	}
	if f, is := found["POD008"]; is {
		t.Errorf("got %+v for a pod that Karpenter does not evict", f)
	}
	if f := found["POD012"]; !strings.Contains(f.Message, "does not tolerate karpenter.sh/disrupted:NoSchedule") {
		t.Errorf("got %+v", f)
	}
	if f := found["PDB009"]; f.Remedy == "" || strings.Contains(f.Remedy, "--on-timeout") {
		t.Errorf("got %+v", f)
	}
}

// TestDoNotDisruptFindingTellsIfDrainWaits: the finding names the annotation. It names the pod as the blocker only if the drain
// waits for the pod.
func TestDoNotDisruptFindingTellsIfDrainWaits(t *testing.T) {
	for respect, want := range map[bool]struct{ says, blocker string }{
		false: {"evicted like any other", ""},
		true:  {"waits until it has finished", "pod shop/web-0 (do-not-disrupt)"},
	} {
		w := podCase{pod: []func(*corev1.Pod){annotated(drain.AnnotationSafeToEvict, "false")}}.world("old")
		w.Request.RespectDoNotDisrupt = respect
		found := preflight.CheckUpgrade(w, preflight.Facts{})
		if len(found) != 1 || !strings.Contains(found[0].Message, want.says) || !strings.Contains(found[0].Message, drain.AnnotationSafeToEvict+"=false") || found[0].Blocker != want.blocker {
			t.Errorf("respected %t: got %+v, want one that says %q with blocker %q", respect, found, want.says, want.blocker)
		}
	}
}

// withSyncFailure sets the status that the disruption controller writes if it cannot compute the budget.
func withSyncFailure(message string) func(*policyv1.PodDisruptionBudget) {
	return func(budget *policyv1.PodDisruptionBudget) {
		budget.Status.DisruptionsAllowed = 0
		budget.Status.Conditions = []metav1.Condition{{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: message,
		}}
	}
}

// neverComputed sets the status of a budget that the disruption controller has never computed.
func neverComputed(budget *policyv1.PodDisruptionBudget) { budget.Status.ObservedGeneration = 0 }

func static(pod *corev1.Pod) {
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
}

func TestPodsOnOutdatedNodesHaveExpectedFindings(t *testing.T) {
	for name, c := range podCases() {
		t.Run(name, func(t *testing.T) {
			if got := formatFindings(preflight.CheckUpgrade(c.world("old"), preflight.Facts{})); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestCurrentNodesAreNotChecked runs every case on the current node, which stays. Pods that cannot be drained there do not matter
// (AKS#4805).
func TestCurrentNodesAreNotChecked(t *testing.T) {
	for name, c := range podCases() {
		t.Run(name, func(t *testing.T) {
			if got := formatFindings(preflight.CheckUpgrade(c.world("new"), preflight.Facts{})); len(got) > 0 {
				t.Errorf("got %q, want nothing", got)
			}
		})
	}
}

// TestFindingsNameObjectAndRemedy checks that each finding has a message, an object and a remedy.
func TestFindingsNameObjectAndRemedy(t *testing.T) {
	for name, c := range podCases() {
		for _, f := range preflight.CheckUpgrade(c.world("old"), preflight.Facts{}) {
			if f.Message == "" || f.Object == "" || f.Remedy == "" || f.String() != f.Object+": "+f.Message+": "+f.Remedy {
				t.Errorf("%s: %+v reads %q", name, f, f)
			}
			budgeted := strings.HasPrefix(f.Rule, "PDB")
			if budgeted && (!strings.Contains(f.Message, "PDB shop/") || !strings.HasPrefix(f.Blocker, "PDB shop/")) {
				t.Errorf("%s: %+v does not name the budget", name, f)
			}
			if f.Severity == preflight.Block && !budgeted && !strings.HasPrefix(f.Blocker, f.Object) {
				t.Errorf("%s: %+v does not name the pod", name, f)
			}
		}
	}
}

func TestFindingsAreSorted(t *testing.T) {
	w := group("aws")
	w.Group.Refusal, w.Group.Wanted.Kubernetes = "no", "v1.99.0"
	w.Members = append(w.Members, nodegroup.Member{Node: build.Node("old-2", "a"), Outdated: true})
	on(w, "old", build.Pod("web-2", build.Bare), build.Pod("web-1", build.Bare), build.Pod("z", build.OwnedBy("DaemonSet", "z")))
	on(w, "old-2", build.Pod("web-0", build.Bare), build.Pod("a", build.OwnedBy("DaemonSet", "a")), build.Pod("z-2", build.OwnedBy("DaemonSet", "z")))
	want := []string{
		"NG002 refuse", "VER001 refuse",
		"POD001 block old pod shop/web-1", "POD001 block old pod shop/web-2", "POD001 block old-2 pod shop/web-0",
		"POD012 warning  DaemonSet shop/a", "POD012 warning  DaemonSet shop/z",
	}
	if got := formatFindings(preflight.CheckUpgrade(w, preflight.Facts{ServerVersion: "v1.33.0"})); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFindingTextJoinsObjectMessageAndRemedy(t *testing.T) {
	cases := map[string]struct {
		finding preflight.Finding
		want    string
	}{
		"all of it":         {preflight.Finding{Object: "pod a/b", Message: "no", Remedy: "try"}, "pod a/b: no: try"},
		"without an object": {preflight.Finding{Message: "no", Remedy: "try"}, "no: try"},
		"without a remedy":  {preflight.Finding{Object: "pod a/b", Message: "no"}, "pod a/b: no"},
		"the message alone": {preflight.Finding{Message: "no"}, "no"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.finding.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
