package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// stateSpace is the default namespace for the records and leases of upgrades.
const stateSpace = "kube-system"

// state describes what an upgrade leaves behind: for each thing that is checked, how it was found.
type state map[string]string

// differences lists the values that differ from the wanted ones, by name.
func differences(found, wanted state) []string {
	keys := maps.Clone(wanted)
	maps.Copy(keys, found)
	var all []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if found[key] != wanted[key] {
			all = append(all, fmt.Sprintf("%s: %q, want %q", key, found[key], wanted[key]))
		}
	}
	return all
}

// snapshot is the state before the upgrade.
type snapshot struct {
	group awscloud.GroupStatus
	// instances and pods contain the instances and pods that the upgrade must remove, by instance ID and by UID.
	instances, pods map[string]bool
	// ready counts the ready pods of each workload except DaemonSets. The pods of a DaemonSet exist for a while after their nodes are
	// gone.
	ready map[string]int
}

// takeSnapshot reads the state of a group whose nodes are all outdated.
func (t *testCase) takeSnapshot(ctx context.Context) (snapshot, error) {
	p := snapshot{instances: map[string]bool{}, pods: map[string]bool{}}
	var err error
	if p.group, err = t.Cloud.Group(t.scaling); err != nil {
		return p, err
	}
	for _, i := range p.group.Instances {
		p.instances[i.ID] = true
	}
	pods, err := t.pods(ctx)
	if err != nil {
		return p, err
	}
	for i := range pods {
		if drain.Judge(&pods[i], drain.Policy{}, false).Fate == drain.Go {
			p.pods[string(pods[i].UID)] = true
		}
	}
	p.ready = countReadyPods(pods)
	return p, nil
}

// expectedState returns the state that an upgrade must leave behind: all nodes are current, and everything else is as it was before
// the upgrade.
func (p *snapshot) expectedState() state {
	return state{
		"budgets below their need": "",
		"sizes":                    describeSizes(p.group),
		"sizes out of bounds":      "",
		"suspended processes":      fmt.Sprint(p.group.Suspended),
		"nodes":                    fmt.Sprintf("%d current, 0 outdated", len(p.instances)),
		"left on nodes":            "",
		"ready pods":               fmt.Sprint(p.ready),
		"lease held by":            "",
		"record": describeRecord(record.Record{
			Phase: record.PhaseDone, Result: record.Succeeded, Total: len(p.instances), Replaced: len(p.instances),
			Suspended: []string{"AZRebalance"}, // the record keeps the list after the processes are resumed
		}),
		"terminated other than once": "",
		"evicted more than once":     "",
	}
}

// readState waits until all workloads are running, and reads the state that the upgrade left behind.
func (t *testCase) readState(ctx context.Context) (state, error) {
	found := state{}
	if err := t.Settle(ctx); err != nil {
		found["workloads"] = err.Error()
	}
	if t.managed { // the Node object of the last machine that EKS terminated may still exist
		if err := t.AwaitNodes(ctx, "pool="+t.group(), len(t.before.instances)); err != nil {
			found["nodes at last"] = err.Error()
		}
	}
	for _, part := range []func(context.Context, state) error{t.readCloud, t.readNodes, t.readPods, t.readRecordAndLease} {
		if err := part(ctx, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readCloud reads the group's final state, its sizes during the upgrade, and the requests to terminate instances. Requests without an
// answer count, because they had their effect.
func (t *testCase) readCloud(ctx context.Context, found state) error {
	group, err := t.Cloud.Group(t.scaling)
	if err != nil {
		return err
	}
	found["sizes"], found["suspended processes"] = describeSizes(group), fmt.Sprint(group.Suspended)
	found["sizes out of bounds"] = strings.Join(sizesOutOfBounds(t.Cloud.Timeline(t.scaling), t.before.group.Desired, t.maxSurge()), ", ")
	now := map[string]bool{}
	for _, i := range group.Instances {
		now[i.ID] = true
	}
	due := t.removedByTool(t.before.instances)
	if t.carriedOut != "" {
		due = t.removedInstances(now)
	}
	own := maps.Clone(t.before.instances)
	maps.Copy(own, now)
	times := map[string]int{}
	for _, r := range t.Cloud.Requests() {
		id := r.Params["InstanceId"]
		if r.Operation == "TerminateInstanceInAutoScalingGroup" && own[id] && (r.Status == http.StatusOK || r.Status == 0) {
			times[id]++
		}
	}
	found["terminated other than once"] = describeWrongCounts(times, due)
	if !t.managed {
		return nil
	}
	found["updates"], err = t.describeUpdates(ctx)
	return err
}

// sizesOutOfBounds lists the sizes with more nodes than the surge allows, or with more than one node missing (EKS E23).
func sizesOutOfBounds(sizes []awscloud.Size, before, surge int) []string {
	var out []string
	began := slices.IndexFunc(sizes, func(z awscloud.Size) bool { return z.InService == before })
	for _, z := range sizes[max(0, began):] {
		if z.Desired > before+surge || z.Desired < before-1 || z.InService < before-1 {
			out = append(out, fmt.Sprintf("desired %d with %d in service", z.Desired, z.InService))
		}
	}
	return out
}

func describeSizes(g awscloud.GroupStatus) string {
	return fmt.Sprintf("min %d, max %d, desired %d, zones %v", g.Min, g.Max, g.Desired, g.Zones)
}

// describeWrongCounts lists the instances or pods in due that were not removed exactly once, and all others that were removed. times
// contains how often each was removed.
func describeWrongCounts(times map[string]int, due map[string]bool) string {
	var all []string
	for id := range due {
		if times[id] != 1 {
			all = append(all, fmt.Sprintf("%s %d times", id, times[id]))
		}
	}
	for id, n := range times {
		if !due[id] {
			all = append(all, fmt.Sprintf("%s, which was not due, %d times", id, n))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (t *testCase) readNodes(ctx context.Context, found state) error {
	list, err := t.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + t.group()})
	if err != nil {
		return err
	}
	current := 0
	var left []string
	for i := range list.Items {
		node := &list.Items[i]
		if cmp.Or(node.Labels["image"], node.Labels["eks.amazonaws.com/nodegroup-image"]) == fixture.NewImage {
			current++
		}
		for _, mark := range fixture.Marks(node) {
			left = append(left, mark+" on "+node.Name)
		}
	}
	found["nodes"] = fmt.Sprintf("%d current, %d outdated", current, len(list.Items)-current)
	found["left on nodes"] = strings.Join(left, ", ")
	return nil
}

func (t *testCase) readPods(ctx context.Context, found state) error {
	pods, err := t.pods(ctx)
	if err != nil {
		return err
	}
	found["ready pods"] = fmt.Sprint(countReadyPods(pods))
	evictions, err := t.Evictions(ctx)
	if err != nil {
		return err
	}
	times := map[string]int{}
	due := t.removedByTool(t.before.pods)
	if t.carriedOut != "" { // which pods had to move depends on the point
		due = map[string]bool{}
		for uid := range evictions.Accepted {
			due[string(uid)] = true
		}
	}
	for uid := range due {
		times[uid] = 1 // the log may show a failure for an eviction whose caller was killed, although the pod was evicted
	}
	for uid, n := range evictions.Accepted {
		times[string(uid)] = n
	}
	found["evicted more than once"] = describeWrongCounts(times, due)
	return nil
}

func (t *testCase) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := t.Cluster.Client().CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func countReadyPods(pods []corev1.Pod) map[string]int {
	ready := map[string]int{}
	for i := range pods {
		if pod := &pods[i]; drain.OwnerKind(pod) != "DaemonSet" && drain.Ready(pod) && pod.DeletionTimestamp == nil {
			ready[pod.Labels["app"]]++
		}
	}
	return ready
}

// readRecordAndLease reads the holder of the lease, and the record.
func (t *testCase) readRecordAndLease(ctx context.Context, found state) error {
	lease, err := t.lease(ctx)
	if err != nil {
		return err
	}
	if holder := lease.Spec.HolderIdentity; holder != nil {
		found["lease held by"] = *holder
	}
	t.finalRecord, err = t.record(ctx)
	found["record"] = describeRecord(t.finalRecord)
	return err
}

// record returns the stored record of the upgrade.
func (t *testCase) record(ctx context.Context) (record.Record, error) {
	return loadRecord(ctx, t.Fixture, t.group())
}

// lease returns the group's lease.
func (t *testCase) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	return loadLease(ctx, t.Fixture, t.group())
}

// loadRecord returns the stored record of a group's upgrade.
func loadRecord(ctx context.Context, s *fixture.Fixture, group string) (record.Record, error) {
	return cluster.NewStore(s.Cluster.Client(), stateSpace, group).LoadRecord(ctx)
}

// loadLease returns the lease of a group.
func loadLease(ctx context.Context, s *fixture.Fixture, group string) (*coordinationv1.Lease, error) {
	return s.Cluster.Client().CoordinationV1().Leases(stateSpace).Get(ctx, cluster.ObjectName(group), metav1.GetOptions{})
}

// describeRecord describes the fields of a record that are the same in all upgrades with the same course.
func describeRecord(r record.Record) string {
	return fmt.Sprintf("%s in phase %q, %d of %d nodes replaced, %d in flight, owed %v, suspended %v, %q",
		r.Result, r.Phase, r.Replaced, r.Total, len(r.Nodes), r.Ledger.Contribution(), r.Suspended, r.Message)
}
