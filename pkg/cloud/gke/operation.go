package gke

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// chooseOperation returns the operation that decides what can be done with the pool: the running one that concerns the pool or, if
// none runs, the newest upgrade of the pool. It returns nil if there is neither. A running upgrade of the pool is chosen before other
// running operations, such as a repair of a node or an upgrade of the control plane, because these do not show that it has ended.
func chooseOperation(pool container.PoolName, operations []container.Operation) *container.Operation {
	concerning := slices.DeleteFunc(slices.Clone(operations), func(op container.Operation) bool {
		target, known := container.ParseTarget(op.TargetLink)
		return !known || !target.Concerns(pool) || isOver(&op) && !isUpgradeOfPool(&op)
	})
	if len(concerning) == 0 {
		return nil
	}
	newest := slices.MaxFunc(concerning, func(a, b container.Operation) int {
		return cmp.Or(compareBools(!isOver(&a), !isOver(&b)), compareBools(isUpgradeOfPool(&a), isUpgradeOfPool(&b)), a.StartTime.Compare(b.StartTime.Time), strings.Compare(a.Name, b.Name))
	})
	return &newest
}

// compareBools compares two bools; false is less than true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// isUpgradeOfPool reports whether the operation upgrades the nodes of a single pool.
func isUpgradeOfPool(op *container.Operation) bool {
	target, _ := container.ParseTarget(op.TargetLink)
	return target.Pool != "" && (op.OperationType == container.OperationUpgradeNodes || op.OperationType == container.OperationAutoUpgradeNodes)
}

// isOver reports whether the operation has ended. An operation with an unknown status has not.
func isOver(op *container.Operation) bool { return op.Status == container.OperationDone }

// describeOperation describes an operation. target is the version to which an upgrade moves the pool. If it is "", the version is
// unknown, and the operation's target equals no other.
func describeOperation(name container.PoolName, op *container.Operation, target string) nodegroup.Operation {
	if op == nil {
		return nodegroup.Operation{}
	}
	described := nodegroup.Operation{
		ID: op.Name, Kind: string(op.OperationType), State: stateOf(op), Began: op.StartTime.Time,
		Cancelling: op.Status == container.OperationAborting,
		Force:      true, // GKE deletes the pods that are left at the end of a node's drain timeout (GKE G15)
	}
	if isUpgradeOfPool(op) {
		described.To = nodegroup.Revision{ID: "operation/" + op.Name, Name: "an unknown version"}
		if target != "" {
			described.To = revisionOf(name, target)
		}
	}
	if described.State == nodegroup.OperationFailed {
		described.Code, described.Failure, described.Cause = explainFailedOperation(op)
	}
	return described
}

// stateOf returns the state of an operation. GKE reports a cancelled operation as done, with a text that it was aborted. A failed one
// may have only a text and no error (terraform-provider-google#291).
func stateOf(op *container.Operation) nodegroup.OperationState {
	const codeCancelled, codeAborted = 1, 10 // of google.rpc.Code
	switch {
	case !isOver(op):
		return nodegroup.OperationRunning
	case op.Error != nil && (op.Error.Code == codeCancelled || op.Error.Code == codeAborted), strings.HasPrefix(op.StatusMessage, "Operation was aborted"):
		return nodegroup.OperationCancelled
	case op.Error != nil, op.StatusMessage != "":
		return nodegroup.OperationFailed
	}
	return nodegroup.OperationSucceeded
}

// describeStage returns how far a running upgrade is, in GKE's own numbers; "" if GKE does not report it. now is for the time that is
// left of a soak.
func describeStage(op *container.Operation, pool *container.NodePool, now time.Time) string {
	if op == nil || isOver(op) || !isUpgradeOfPool(op) {
		return ""
	}
	var parts []string
	done, total := findMetric(op.Progress, "NODES_DONE"), findMetric(op.Progress, "NODES_TOTAL")
	switch {
	case total == nil || total.IntValue == nil:
	case done == nil || done.IntValue == nil: // some answers leave it out
		parts = append(parts, fmt.Sprintf("%d nodes in all", *total.IntValue))
	default:
		parts = append(parts, fmt.Sprintf("%d of %d nodes done", *done.IntValue, *total.IntValue))
	}
	if info := blueGreenInfo(pool); info != nil && info.Phase != "" {
		parts = append(parts, explainPhase(info, now))
	}
	if op.Status == container.OperationAborting {
		parts = append(parts, "it is being cancelled")
	}
	return strings.Join(parts, ", ")
}

// setSoak sets whether a running upgrade of the pool keeps the old nodes, until when, and whether it deletes them.
func setSoak(op *nodegroup.Operation, pool *container.NodePool) {
	info := blueGreenInfo(pool)
	if op.State != nodegroup.OperationRunning || !op.IsUpgrade() || info == nil {
		return
	}
	op.Deletes = info.Phase == container.PhaseDeletingBluePool
	if op.Soaks = info.Phase == container.PhaseNodePoolSoaking; op.Soaks {
		op.SoaksUntil = info.BluePoolDeletionStartTime.Time
	}
}

// explainPhase describes a phase of a blue-green upgrade. It keeps the name of a phase that it does not know.
func explainPhase(info *container.BlueGreenInfo, now time.Time) string {
	texts := map[container.Phase]string{
		container.PhaseUpdateStarted:          "it has started",
		container.PhaseCreatingGreenPool:      "it adds the new nodes",
		container.PhaseCordoningBluePool:      "it cordons the old nodes",
		container.PhaseWaitingToDrainBluePool: "it gives pods time to leave the old nodes",
		container.PhaseDrainingBluePool:       "it drains the old nodes",
		container.PhaseNodePoolSoaking:        "it waits before it deletes the old nodes (soak)",
		container.PhaseDeletingBluePool:       "it deletes the old nodes",
		container.PhaseRollbackStarted:        "it rolls back",
	}
	text := cmp.Or(texts[info.Phase], "phase "+string(info.Phase))
	if end := info.BluePoolDeletionStartTime.Time; info.Phase == container.PhaseNodePoolSoaking && end.After(now) {
		text += fmt.Sprintf(", for another %s", end.Sub(now).Round(time.Second))
	}
	return text
}

// findMetric returns the metric with the name, nil if the progress or one of its stages has none. GKE's documentation calls a metric
// "nodes total", and its answers call it "NODES_TOTAL".
func findMetric(progress *container.OperationProgress, name string) *container.Metric {
	if progress == nil {
		return nil
	}
	for i := range progress.Metrics {
		if strings.EqualFold(strings.ReplaceAll(progress.Metrics[i].Name, " ", "_"), name) {
			return &progress.Metrics[i]
		}
	}
	for i := range progress.Stages {
		if found := findMetric(&progress.Stages[i], name); found != nil {
			return found
		}
	}
	return nil
}

// blueGreenInfo returns the state of the pool's blue-green upgrade, nil if there is none.
func blueGreenInfo(pool *container.NodePool) *container.BlueGreenInfo {
	if pool.UpdateInfo == nil {
		return nil
	}
	return pool.UpdateInfo.BlueGreenInfo
}

// findTarget returns the version to which the operation moves the pool; "" if it is not known. upgrades are the pool's upgrades that
// GKE reports, nil if they were not read.
func findTarget(op *container.Operation, pool *container.NodePool, upgrades []container.UpgradeDetails) string {
	// During a rollback the green version is the one that the pool leaves.
	if info := blueGreenInfo(pool); !isOver(op) && info != nil && info.GreenPoolVersion != "" && info.Phase != container.PhaseRollbackStarted {
		return info.GreenPoolVersion
	}
	if op.StartTime.IsZero() {
		return ""
	}
	// GKE does not say which upgrade is the operation's. It is the one that began next to it, at most this long before or after.
	target, nearest := "", time.Minute
	for _, u := range upgrades {
		if apart := u.StartTime.Sub(op.StartTime.Time).Abs(); apart <= nearest && u.TargetVersion != "" {
			target, nearest = u.TargetVersion, apart
		}
	}
	return target
}

// explainFailedOperation returns the code of the failure, one line with its cause and remedy, and the step that failed.
func explainFailedOperation(op *container.Operation) (code, text string, cause nodegroup.FailureCause) {
	status := container.Status{Code: 2} // UNKNOWN, if GKE gives only a text
	if op.Error != nil {
		status = *op.Error
	}
	code = codeName(status.Code)
	message := cmp.Or(status.Message, op.StatusMessage, "GKE gives no reason")
	lower := strings.ToLower(message)
	for _, known := range failures() {
		if slices.ContainsFunc(known.parts, func(part string) bool { return strings.Contains(lower, part) }) {
			return code, fmt.Sprintf("%s [%s: %s]: %s", known.cause, code, message, known.remedy), known.step
		}
	}
	return code, fmt.Sprintf("GKE could not finish it [%s: %s]: see the pool in the Google Cloud console, and run the command again", code, message), ""
}

// failure is a cause of failed upgrades, which is recognized by parts of GKE's message in lower case.
type failure struct {
	parts         []string
	cause, remedy string
	step          nodegroup.FailureCause
}

// failures returns the known causes of failed upgrades. The parts are from messages in public reports.
func failures() []failure {
	return []failure{
		{
			parts: []string{"zone_resource_pool_exhausted", "stockout", "does not have enough resources", "resource pool exhausted"},
			cause: "the zone had no capacity for new nodes", remedy: "try later, use another machine type, or upgrade with --max-surge=0 --max-unavailable=1", step: nodegroup.LaunchFailed,
		},
		{
			parts: []string{"quota"},
			cause: "a quota of the project is used up", remedy: "request a higher quota in the Google Cloud console", step: nodegroup.LaunchFailed,
		},
		{
			parts: []string{"ip_space_exhausted", "ip space", "free ip", "ip addresses"},
			cause: "the subnet or the range for pods has no free addresses", remedy: "add a range for pods, or upgrade with --max-surge=0 --max-unavailable=1", step: nodegroup.LaunchFailed,
		},
		{
			parts: []string{"failed to register", "did not register", "nodes failed to", "not healthy", "unhealthy"},
			cause: "new nodes did not join the cluster or did not become Ready", remedy: "check their serial console, the node's service account and the firewall rules to the control plane", step: nodegroup.LaunchFailed,
		},
		{
			parts: []string{"service account"},
			cause: "the service account of the nodes or of GKE lacks a permission or was deleted", remedy: "restore it and its roles", step: nodegroup.LaunchFailed,
		},
		{
			parts: []string{"poddisruptionbudget", "pod disruption budget", "pdb", "drain"},
			cause: "GKE could not drain a node", remedy: "let the PodDisruptionBudget allow an eviction: check shows it", step: nodegroup.DrainFailed,
		},
		{
			parts: []string{"timed out", "deadline", "timeout"},
			cause: "it took longer than GKE allows", remedy: "run the command again: nodes that are current stay",
		},
		{
			parts: []string{"internal error"},
			cause: "GKE had an internal error", remedy: "wait some minutes and run the command again",
		},
	}
}

// codeName returns the name of a code of google.rpc.Code.
func codeName(code int32) string {
	names := []string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
	if code >= 0 && int(code) < len(names) {
		return names[code]
	}
	return fmt.Sprintf("code %d", code)
}
