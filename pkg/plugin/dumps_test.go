package plugin

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// dumpCase is the expected output of simulate and check for a dump.
type dumpCase struct {
	// args are the arguments that choose the group.
	args []string
	// code is simulate's exit code. simulate and check must print the texts in both, and never the texts in without.
	code            int
	simulate, check []string
	without         []string
}

// labelled returns the flags for nodes with the label pool=w, of which nodes with image=v2 are current.
func labelled() []string { return []string{"-l", "pool=w", "--current", "image=v2"} }

// TestPlansOfDumpsRespectSchedulingLimits checks plans and checks of dumps that limit where pods can run. Each dump is named after the
// public report from which it was made.
func TestPlansOfDumpsRespectSchedulingLimits(t *testing.T) {
	cases := map[string]dumpCase{
		"k8s-device-plugin-291-gpu": {
			args: []string{"workers"}, code: exitStructural, simulate: []string{"NodeCreationFailure after 20m", "0 evictions", "does not offer nvidia.com/gpu, which the outdated nodes offered and pod shop/riva-6d5f7c9b8-00000 requests", "only new nodes can take them"},
		},
		"karpenter-1563-ephemeral-storage": {
			args: labelled(), code: exitStructural, simulate: []string{"shop/cache-6d5f7c9b8", "Insufficient ephemeral-storage"},
			check: []string{"CAP004", "Insufficient ephemeral-storage"},
		},
		"k8s-66568-hostport-two-new-nodes": {
			args: labelled(), code: exitStructural, simulate: []string{"WorkloadUnhealthy after", "shop/Deployment/edge (2 of 3 ready)", "ReplicaSet shop/edge-6d5f7c9b8: 1 of its pods may find no node", "2 node(s) didn't have free ports for the requested pod ports"},
		},
		"ebs-csi-1163-attach-limit": {
			args: labelled(), code: exitStructural, simulate: []string{"WorkloadUnhealthy after", "StatefulSet shop/db: 1 of its pods may find no node", "1 node(s) exceed max volume count"},
		},
		"k8s-spot-rescheduler-73-preemption": {args: labelled(), simulate: []string{"2 evictions"}, without: []string{"not reached", "ReplicaSet shop/web-6d5f7c9b8: 1 of its pods may find no node"}},
		"k8s-141274-dra-shared-claim": {
			args: labelled(), code: exitStructural, simulate: []string{"WorkloadUnhealthy after", "resourceclaim not available on the node"}, check: []string{"POD014", "share ResourceClaim shared-gpu, whose device is on outdated node old-1"},
		},
		"karpenter-3037-resized-in-place": {args: labelled(), code: exitStructural, simulate: []string{"shop/api-6d5f7c9b8", "2 Insufficient cpu"}},
		"karpenter-2257-mindomains":       {args: labelled(), code: exitStructural, check: []string{"TSC002", "has minDomains 2, but only 1 zone will have nodes", "set minDomains: 1 and nodeTaintsPolicy: Honor"}},
		"kubeflow-7298-zone-without-new-node": {
			args: labelled(), code: exitStructural, simulate: []string{"StatefulSet shop/mysql"}, check: []string{"POD004", "its volume data is in zone z-a"},
		},
		"karpenter-namespace-selector-affinity":       {args: labelled(), simulate: []string{"1 eviction"}, without: []string{"may find no node"}},
		"cloud-on-k8s-1173-ondelete-pending-template": {args: []string{"workers"}, check: []string{"warning", "STR005", "its updateStrategy is OnDelete, and 3 pods without its newest template (es-99) must move"}},
		"autoscaler-8162-hard-hostname-spread":        {args: []string{"workers"}, simulate: []string{"6 evictions"}, without: []string{"may find no node", "not reached"}},
		"five":                                        {args: []string{"workers"}, simulate: []string{"6 nodes to replace, none known to be blocked", "6 evictions", "earlier nodes 90s"}, without: []string{"PDB d/web", "can never allow a disruption", "may find no node", "not reached"}},
		"k8s-127917-job-tracking-finalizer":           {args: []string{"workers"}, code: exitStructural, simulate: []string{"still terminating: shop/cron-1-x"}, check: []string{"batch.kubernetes.io/job-tracking"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { testDump(t, name, c) })
	}
}

// testDump runs simulate and check on the dump. Its file name is the first word of the test's name.
func testDump(t *testing.T, name string, c dumpCase) {
	t.Helper()
	dump, _, _ := strings.Cut(name, " ")
	file := filepath.Join("testdata", "dumps", dump+".json")
	planned, code := runOnDump(t, append([]string{"simulate", "-f", file}, c.args...))
	if code != c.code {
		t.Errorf("simulate exits %d, want %d:\n%s", code, c.code, planned)
	}
	checked, _ := runOnDump(t, append([]string{"check", "-f", file}, c.args...))
	for _, text := range c.simulate {
		if !strings.Contains(planned, text) {
			t.Errorf("the output of simulate lacks %q:\n%s", text, planned)
		}
	}
	for _, text := range c.check {
		if !strings.Contains(checked, text) {
			t.Errorf("check does not say %q:\n%s", text, checked)
		}
	}
	for _, text := range c.without {
		if strings.Contains(planned+checked, text) {
			t.Errorf("plan or check contain %q:\n%s%s", text, planned, checked)
		}
	}
}

// runOnDump runs a command without a kubeconfig.
func runOnDump(t *testing.T, args []string) (output string, code int) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var out bytes.Buffer
	code = Run(context.Background(), args, strings.NewReader(""), &out, &out)
	return out.String(), code
}
