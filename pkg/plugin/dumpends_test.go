package plugin

import (
	"path/filepath"
	"testing"
)

// TestPlanExitsLikeItsUpgrade checks that a plan shows the result of the upgrade, and that its exit code fits.
func TestPlanExitsLikeItsUpgrade(t *testing.T) {
	cases := map[string]struct {
		dump          string
		args          []string
		code          int
		says, without []string
	}{
		"a budget that never opens": {
			"l-pdbclosed", nil, exitStructural,
			[]string{"Ends        PodEvictionFailure after 15m at node a-0 (PDB shop/web); 2 nodes not reached", "or pass --on-timeout=force"},
			[]string{"deletion"},
		},
		"is forced": {
			"l-pdbclosed",
			[]string{"--on-timeout=force"},
			exitDone,
			[]string{"0 evictions, 3 deletions", "Deletes     3 pods against their budgets: 3 of shop/Deployment/web after 15m"},
			[]string{"Ends ", "pass --on-timeout=force"},
		},
		"is blue-green": {
			"l-pdbclosed", []string{"--strategy=blue-green"}, exitDone, []string{"Deletes     3 pods against their budgets", "pods that are left are deleted at the end"}, []string{"Ends ", "--on-timeout=force"},
		},
		"leaves its nodes behind": {
			"l-pdbclosed", []string{"--on-timeout=skip"}, exitStructural, []string{"except for nodes that cannot be drained, which are kept (left-behind)", "at most 5 during the upgrade (z-a +2), 5 afterwards"}, []string{"not reached", "deletion"},
		},
		"a quota that refuses new pods": {
			"k8s-89209-quota-below-use", nil, exitStructural,
			[]string{"Ends        WorkloadUnhealthy after 5m", "1 pod is not created: ResourceQuota shop/q is exceeded", "1 node not reached"},
			nil,
		},
		"a quota that the user says is none": {"k8s-89209-quota-below-use", []string{"--skip-check=NS001"}, exitDone, nil, []string{"Ends "}},
		"a webhook without pods": {
			"kyverno-4686-webhook-without-pods", nil, exitStructural,
			[]string{"it ends as WorkloadUnhealthy after 5m", `1 pod is not created: failed calling webhook "mutate.policy.svc-fail": no pod of its Service is ready`, "1 node not reached"},
			nil,
		},
		"a webhook that the user says is harmless": {"kyverno-4686-webhook-without-pods", []string{"--skip-check=WH001"}, exitDone, nil, []string{"Ends "}},
		"a quota whose workload is ignored": {
			"k8s-89209-quota-below-use",
			[]string{"--ignore-unready=shop/Deployment/web"},
			exitDone,
			[]string{
				", 1 workload left with fewer ready pods, takes ",
				"Loses       ready pods of shop/Deployment/web: it keeps 0 of 2, because its new pods are refused: ResourceQuota shop/q is exceeded",
			},
			[]string{"Ends "},
		},
		"a namespace that refuses new pods": {
			"psa-enforced-later", nil, exitStructural, []string{"Ends        WorkloadUnhealthy after 5m", "1 pod is not created: namespace shop enforces"}, nil,
		},
		"a quota that has room when pods have ended": {
			"quota-of-ending-pods", []string{"-l", "pool=workers", "--current=image=v2"}, exitDone, nil, []string{"Ends ", "NS001", "exceeded"},
		},
		"a template that names an outdated node": {
			"kubernetes-117843-template-names-node",
			[]string{"-l", "pool=workers", "--current=image=v2"},
			exitStructural,
			[]string{"Ends        PodEvictionFailure after 15m at node old-1 (pod shop/web", "Stuck       node old-1: it still has pods after 15m0s", "its controller put it on the fenced node again", "remove spec.nodeName from the pod template"},
			nil,
		},
		"no way of a comparison": {
			"k8s-89209-quota-below-use", []string{"--compare"}, exitStructural, []string{"Best        none: no forecast replaces all nodes"}, []string{"--like=gke: --like=gke"},
		},
		"blue-green without a drain": {
			"g-10", []string{"--strategy=blue-green", "--batch=0"}, exitDone, []string{"0 evictions, 10 deletions"}, []string{"Ends ", "finalizers", "had no answer", "past their budgets"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"simulate", "-f", filepath.Join("testdata", "dumps", c.dump+".json")}, c.args...)
			planned, code := runOnDump(t, args)
			if code != c.code {
				t.Errorf("exits %d, want %d:\n%s", code, c.code, planned)
			}
			checkOutput(t, planned, c.says, c.without)
		})
	}
}
