package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// finalState is the state of a group and its cluster after an upgrade.
type finalState struct {
	record record.Record
	group  awscloud.GroupStatus
	// outdated and marked list nodes by name. A marked node is listed with its marks.
	outdated, marked []string
	holder           string
	// unsettled describes the workloads that do not run. podsOnTerminated lists the pods that were on current nodes when the upgrade
	// terminated these nodes.
	unsettled        string
	podsOnTerminated []string
}

// readFinalState waits until the group has its desired size and all workloads are running, and reads the state.
func (t *testCase) readFinalState(ctx context.Context, record record.Record) (finalState, error) {
	e := finalState{record: record}
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := t.Cloud.WaitForGroup(waiting, t.group(), hasDesiredSize)
	if err != nil && waiting.Err() == nil {
		return e, err // after a timeout, the sizes show the fault
	}
	if err := t.Settle(ctx); err != nil {
		e.unsettled = err.Error()
	}
	if e.group, err = t.Cloud.Group(t.group()); err != nil {
		return e, err
	}
	nodes, err := t.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + t.group()})
	if err != nil {
		return e, err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Labels["image"] != fixture.NewImage {
			e.outdated = append(e.outdated, node.Name)
		}
		if marks := fixture.Marks(node); len(marks) > 0 {
			e.marked = append(e.marked, node.Name+" "+strings.Join(marks, " "))
		}
	}
	lease, err := t.Cluster.Client().CoordinationV1().Leases(stateSpace).Get(ctx, cluster.ObjectName(t.group()), metav1.GetOptions{})
	if err == nil && lease.Spec.HolderIdentity != nil {
		e.holder = *lease.Spec.HolderIdentity
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.podsOnTerminated = slices.Clone(t.podsOnTerminated)
	return e, err
}

// hasDesiredSize reports whether a group has its desired number of instances, all in service.
func hasDesiredSize(g awscloud.GroupStatus) bool {
	return len(g.Instances) == g.Desired && !slices.ContainsFunc(g.Instances, func(i awscloud.InstanceStatus) bool { return i.State != at.LifecycleStateInService })
}

// faults lists the differences from the state that the upgrade must leave behind.
func (e *finalState) faults(o *outcome) []string {
	var all []string
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	message := e.record.Message
	kept, landed := e.record.Ledger.Contribution(), 0
	for _, d := range o.resizes {
		landed += d.applied
	}
	before, after := o.before, e.group
	fault(o.code != 0, "it ended with %d", o.code)
	fault(e.record.Result != record.Succeeded, "the record says %q", e.record.Result)
	fault(after.Desired != before.Desired+landed+kept, "desired size %d, want %d %+d by the rival %+d kept", after.Desired, before.Desired, landed, kept)
	fault(kept != 0 && !strings.Contains(message, fmt.Sprintf("keeps %d more nodes", kept)), "%d nodes of ours are left and not spoken of", kept)
	fault(!hasDesiredSize(after), "the group is not at rest: %+v", after)
	fault(after.Min != before.Min, "min %d, want %d", after.Min, before.Min)
	noted := strings.Contains(message, fmt.Sprintf("max stays at %d", after.Max)) && after.Max == after.Desired
	fault(after.Max != before.Max && !noted, "max %d, want %d", after.Max, before.Max)
	for _, process := range after.Suspended {
		fault(!slices.Contains(before.Suspended, process) && !strings.Contains(message, process+" stays suspended"), "%s is suspended", process)
	}
	fault(len(e.outdated) > 0, "outdated: %s", strings.Join(e.outdated, ", "))
	fault(len(e.marked) > 0, "left on nodes: %s", strings.Join(e.marked, ", "))
	fault(len(e.podsOnTerminated) > 0, "current nodes were taken with pods: %s", strings.Join(e.podsOnTerminated, ", "))
	fault(e.holder != "", "%s holds the lease", e.holder)
	fault(e.unsettled != "", "%s", e.unsettled)
	return all
}
