package preflight_test

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// delegatedToGKE makes GKE upgrade the group of the world.
func delegatedToGKE(w *upgrade.World) {
	w.Group.Provider, w.Group.Managed = "gke", &nodegroup.Managed{DeletesRest: true}
	w.Request = record.Request{Strategy: record.Delegated, OnTimeout: record.Force, DrainTimeout: record.Duration{Duration: time.Hour}, EvictUnmanaged: true}
}

func TestFindingsCountPodsThatCloudWillDelete(t *testing.T) {
	closed := []*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(3, 3, 3))}
	owned := build.OwnedBy("StatefulSet", "web")
	for name, c := range map[string]struct {
		change func(*upgrade.World)
		says   string
	}{
		"a surge":                      {func(*upgrade.World) {}, "; GKE will delete 2 pods of shop/StatefulSet/web after 60 min"},
		"a blue-green upgrade":         {func(w *upgrade.World) { w.Request.CloudStrategy = record.BlueGreen }, "; GKE goes on after 60 min, and will delete 2 pods of shop/StatefulSet/web after the soak"},
		"an upgrade that would fail":   {func(w *upgrade.World) { w.Request.OnTimeout = record.Fail }, ""},
		"nodes that this tool drains":  {func(w *upgrade.World) { w.Request.Strategy = record.Surge }, ""},
		"budgets that allow evictions": {func(w *upgrade.World) { w.Budgets = drain.NewBudgets(nil) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := on(group("gke"), "old", build.Pod("web-0", owned), build.Pod("web-1", owned), build.Pod("other", build.App("other")))
			w.Budgets = drain.NewBudgets(closed)
			delegatedToGKE(w)
			c.change(w)
			told := 0
			for _, f := range preflight.CheckUpgrade(w, preflight.Facts{}) {
				if strings.Contains(f.Message, "will delete") {
					told++
				}
				if c.says != "" && f.Rule == "PDB001" && !strings.HasSuffix(f.Message, c.says) {
					t.Errorf("got %q, want one that ends with %q", f.Message, c.says)
				}
			}
			if want := map[bool]int{true: 2}[c.says != ""]; told != want {
				t.Errorf("%d findings name a deletion, want %d", told, want)
			}
		})
	}
}

func TestPodWithoutWorkloadIsNamedAsDeleted(t *testing.T) {
	w := on(group("gke"), "old", build.Pod("web-0", func(pod *corev1.Pod) { pod.OwnerReferences = nil }))
	w.Budgets = drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(3, 3, 3))})
	delegatedToGKE(w)
	found := preflight.CheckUpgrade(w, preflight.Facts{})
	if len(found) == 0 || !strings.HasSuffix(found[0].Message, "; GKE will delete it after 60 min") {
		t.Errorf("got %+v", found)
	}
}

// TestLongGracePeriodIsComparedWithThatOfPool: a pod that ends later than the pool allows is killed, even before the drain is over.
func TestLongGracePeriodIsComparedWithThatOfPool(t *testing.T) {
	text, err := os.ReadFile("testdata/rules/TERM005.yaml") // terminationGracePeriodSeconds is 3600
	if err != nil {
		t.Fatal(err)
	}
	rule, _ := preflight.FindRule("TERM005")
	for grace, want := range map[time.Duration]string{
		0: "", 2 * time.Hour: "", 10 * time.Minute: "terminationGracePeriodSeconds is 3600, and GKE gives pods at most 10 min to end: a pod that needs longer is killed",
	} {
		scene := readScene(t, text)
		delegatedToGKE(scene.World)
		scene.World.Group.Managed.MaxGrace = grace
		found := preflight.Check(scene, []preflight.Rule{rule}, nil)
		if (len(found) > 0) != (want != "") || want != "" && found[0].Message != want {
			t.Errorf("at most %s: got %+v, want %q", grace, found, want)
		}
	}
}
