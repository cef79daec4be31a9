package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// shownCluster has the documents that a terminal shows about one cluster, one for each screen.
type shownCluster struct {
	list    *NodeGroupList
	plan    *Plan
	compare *Comparison
	check   *CheckReport
	status  *UpgradeStatus
	live    *LiveView
	end     *UpgradeStatus
}

// shownClusters returns a small cluster, a cluster with sixty nodes in three zones, a blocked one, and one
// whose nodes EKS upgrades.
func shownClusters(t *testing.T) map[string]shownCluster {
	t.Helper()
	small := shownCluster{
		list: someGroups(), plan: surgePlan(), compare: someComparison(), check: checkManifests(t, "PDB001", "TERM001", "POD006", "SYS001"),
		status: runningStatus(), live: someLive(), end: doneStatus(),
	}
	return map[string]shownCluster{"small": small, "sixty": sixtyNodes(t), "blocked": blockedNodes(t), "managed": managedNodes(t)}
}

// sixtyNodes returns a cluster with long names of nodes, groups and workloads.
func sixtyNodes(t *testing.T) shownCluster {
	c := shownCluster{
		list: someGroups(), plan: largePlan(), compare: someComparison(), check: checkManifests(t, "TERM001", "POD006"),
		status: runningStatus(), live: manyLive(), end: doneStatus(),
	}
	for i := range 5 {
		group := someGroups().Items[0]
		group.Name, group.Nodes, group.Outdated = fmt.Sprintf("prod-eu-central-1-general-purpose-arm64-%d", i), 60, new(60-10*i)
		c.list.Items = append(c.list.Items, group)
	}
	c.status.Status.Nodes, c.status.Status.Total, c.status.Status.Replaced = c.live.Status.Nodes, 60, 19
	for i := range 6 {
		c.status.Impacts = append(c.status.Impacts, record.WorkloadImpact{
			Name: fmt.Sprintf("checkout-production/StatefulSet/payment-ledger-projection-%d", i), Impact: record.Impact{Evictions: 3 * i, Lacks: i},
		})
	}
	c.end.Status.Total, c.end.Status.Replaced, c.end.Impacts = 60, 60, c.status.Impacts
	return c
}

// blockedNodes returns a cluster with a budget that never allows an eviction, and with sentences longer than a
// line.
func blockedNodes(t *testing.T) shownCluster {
	c := shownCluster{
		list: hostileGroups(), plan: longBlockedPlan(), compare: someComparison(), check: checkManifests(t, "PDB001", "SYS001"),
		status: runningStatus(), live: someLive(), end: endedStatus(),
	}
	why := "pods \"checkout-7d9c\" is forbidden: exceeded quota: compute, requested: limits.cpu=2, used: limits.cpu=15, limited: limits.cpu=16"
	c.status.Status.Unhealthy = []record.Unhealthy{{Name: "shop/Deployment/checkout", Ready: 2, Before: 3, Why: "1 pod is not created: " + why}}
	c.live.Status.Unhealthy = c.status.Status.Unhealthy
	c.end.Status.Unhealthy = c.status.Status.Unhealthy
	never := "it would wait without end for PDB shop/cart"
	c.compare = NewComparison("workers", "surge", "all pods can stop within an hour", []Way{{Flags: "as asked", Unforecast: never}, {Flags: "--max-surge=0", Unforecast: never}})
	return c
}

// managedNodes returns a cluster whose nodes EKS replaces with an operation of its own.
func managedNodes(t *testing.T) shownCluster {
	c := shownCluster{
		list: someGroups(), plan: surgePlan(), compare: someComparison(), check: checkManifests(t, "TERM001"),
		status: runningStatus(), live: someLive(), end: endedStatus(),
	}
	c.list.Items = slices.Delete(c.list.Items, 2, 3)
	c.plan.Kind, c.plan.Request.Strategy, c.plan.Suspends, c.plan.Surge = "EKS managed node group", record.Delegated, nil, nil
	c.plan.Request.Window = c.plan.Request.MaxUnavailable // as for every group of EKS
	running := &nodegroup.Operation{
		ID: "6f1c8e2a-0b7d-3d5e-9a41-2c6f5e0d7b88", State: nodegroup.OperationRunning, Kind: "VersionUpdate", Began: ago(9 * time.Minute),
		To: nodegroup.Revision{ID: "1.33.4-20261101", Name: "1.33.4-20261101"},
	}
	c.status.Operation, c.status.OperationOf, c.status.Suspended = running, "aws", nil
	c.live.Status.Group = "workers"
	failed := *running
	failed.State, failed.Code, failed.Failure = nodegroup.OperationFailed, "PodEvictionFailure", "reached max retries while trying to evict pods from nodes in node group workers: see what blocks them, and run the command again with --force-evict"
	failed.Resources = []string{"ip-10-0-1-7.eu-central-1.compute.internal", "ip-10-0-2-9.eu-central-1.compute.internal"}
	c.end.Operation, c.end.OperationOf, c.end.Message = &failed, "aws", failed.Failure
	return c
}

// screens returns functions that write each screen of each cluster.
func screens(t *testing.T) map[string]func(io.Writer, Options) error {
	t.Helper()
	all := map[string]func(io.Writer, Options) error{}
	for name, c := range shownClusters(t) {
		all[name+"/list"] = func(w io.Writer, o Options) error { return WriteGroups(w, c.list, o) }
		all[name+"/plan"] = func(w io.Writer, o Options) error { return WritePlan(w, c.plan, o) }
		all[name+"/compare"] = func(w io.Writer, o Options) error { return WriteComparison(w, c.compare, o) }
		all[name+"/check"] = func(w io.Writer, o Options) error { return WriteCheck(w, c.check, o) }
		all[name+"/status"] = func(w io.Writer, o Options) error { return WriteStatus(w, c.status, o) }
		all[name+"/end"] = func(w io.Writer, o Options) error { return WriteStatus(w, c.end, o) }
		all[name+"/live"] = func(w io.Writer, o Options) error {
			_, err := io.WriteString(w, strings.Join(LiveLines(c.live, o, 24), "\n")+"\n")
			return err
		}
	}
	return all
}
