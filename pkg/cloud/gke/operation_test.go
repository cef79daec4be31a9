package gke

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

func poolName() container.PoolName {
	return container.PoolName{ClusterName: container.ClusterName{Project: "acme", Location: "us-central1", Cluster: "main"}, Pool: "workers"}
}

// operationAt returns an operation that began some minutes after a fixed time. Its link has the number of the project, as GKE's have.
func operationAt(minute int, name, pool string, kind container.OperationType, status container.OperationStatus) container.Operation {
	link := "https://container.googleapis.com/v1/projects/512345678901/zones/us-central1/clusters/main"
	if pool != "" {
		link += "/nodePools/" + pool
	}
	return container.Operation{Name: name, OperationType: kind, Status: status, TargetLink: link, StartTime: container.Time{Time: time.Date(2026, 11, 30, 9, minute, 0, 0, time.UTC)}}
}

func TestRunningOperationOfPoolOrClusterIsChosenBeforeNewestUpgrade(t *testing.T) {
	const upgrade, resize, master, repair = container.OperationUpgradeNodes, container.OperationSetNodePoolSize, container.OperationUpgradeMaster, container.OperationAutoRepairNodes
	done, running := container.OperationDone, container.OperationRunning
	for name, c := range map[string]struct {
		operations []container.Operation
		want       string
	}{
		"none":                              {nil, ""},
		"the newest upgrade":                {[]container.Operation{operationAt(1, "a", "workers", upgrade, done), operationAt(3, "b", "workers", upgrade, done), operationAt(2, "c", "workers", upgrade, done)}, "b"},
		"one of another pool":               {[]container.Operation{operationAt(1, "a", "other", upgrade, running)}, ""},
		"a resize that is over":             {[]container.Operation{operationAt(1, "a", "workers", upgrade, done), operationAt(3, "b", "workers", resize, done)}, "a"},
		"a resize that runs":                {[]container.Operation{operationAt(4, "a", "workers", upgrade, done), operationAt(3, "b", "workers", resize, running)}, "b"},
		"the control plane's upgrade":       {[]container.Operation{operationAt(1, "a", "", master, running)}, "a"},
		"a repair during an upgrade":        {[]container.Operation{operationAt(1, "a", "workers", upgrade, running), operationAt(3, "b", "workers", repair, running)}, "a"},
		"the control plane's, before one":   {[]container.Operation{operationAt(3, "a", "", master, running), operationAt(1, "b", "workers", upgrade, container.OperationPending)}, "b"},
		"an operation of an unknown status": {[]container.Operation{operationAt(1, "a", "workers", upgrade, "NEW"), operationAt(3, "b", "workers", upgrade, done)}, "a"},
	} {
		got := ""
		if op := chooseOperation(poolName(), c.operations); op != nil {
			got = op.Name
		}
		if got != c.want {
			t.Errorf("%s: operation %q, want %q", name, got, c.want)
		}
	}
}

func TestStateOfOperation(t *testing.T) {
	for name, c := range map[string]struct {
		op   container.Operation
		want nodegroup.OperationState
	}{
		"pending":                  {container.Operation{Status: container.OperationPending}, nodegroup.OperationRunning},
		"aborting":                 {container.Operation{Status: container.OperationAborting, StatusMessage: "Operation was aborted"}, nodegroup.OperationRunning},
		"an unknown status":        {container.Operation{Status: "NEW"}, nodegroup.OperationRunning},
		"done":                     {container.Operation{Status: container.OperationDone}, nodegroup.OperationSucceeded},
		"failed, only by its text": {container.Operation{Status: container.OperationDone, StatusMessage: "Failed to start node upgrade: Desired node version (1.7.0) cannot be greater than current master version (1.6.6)"}, nodegroup.OperationFailed},
		"cancelled":                {container.Operation{Status: container.OperationDone, StatusMessage: "Operation was aborted: by the user"}, nodegroup.OperationCancelled},
		"cancelled by code":        {container.Operation{Status: container.OperationDone, Error: &container.Status{Code: 1}}, nodegroup.OperationCancelled},
		"failed":                   {container.Operation{Status: container.OperationDone, Error: &container.Status{Code: 8, Message: "quota"}}, nodegroup.OperationFailed},
	} {
		if got := stateOf(&c.op); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestTargetOfUpgrade: GKE names the target of a blue-green upgrade in the pool, and that of other upgrades in the pool's history.
func TestTargetOfUpgrade(t *testing.T) {
	running := operationAt(5, "a", "workers", container.OperationUpgradeNodes, container.OperationRunning)
	history := []container.UpgradeDetails{
		{TargetVersion: "1.33.9-gke.1", StartTime: container.Time{Time: running.StartTime.Add(-time.Hour)}},
		{TargetVersion: "1.34.3-gke.1200", StartTime: container.Time{Time: running.StartTime.Add(-2 * time.Second)}},
	}
	if got := findTarget(&running, &container.NodePool{}, history); got != "1.34.3-gke.1200" {
		t.Errorf("by the history: %q", got)
	}
	near := append([]container.UpgradeDetails{{TargetVersion: "1.33.8-gke.1", StartTime: container.Time{Time: running.StartTime.Add(-40 * time.Second)}}}, history...)
	if got := findTarget(&running, &container.NodePool{}, near); got != "1.34.3-gke.1200" {
		t.Errorf("after an upgrade that was cancelled at once: %q", got)
	}
	pending := container.Operation{Name: "p", Status: container.OperationPending}
	if got := findTarget(&pending, &container.NodePool{}, []container.UpgradeDetails{{TargetVersion: "1.33.8-gke.1"}}); got != "" {
		t.Errorf("neither has a time: %q", got)
	}
	if got := findTarget(&running, &container.NodePool{Version: "1.35.0-gke.1"}, history[:1]); got != "" {
		t.Errorf("by another upgrade's history: %q", got)
	}
	green := &container.NodePool{UpdateInfo: &container.UpdateInfo{BlueGreenInfo: &container.BlueGreenInfo{GreenPoolVersion: "1.34.4-gke.5"}}}
	if got := findTarget(&running, green, history); got != "1.34.4-gke.5" {
		t.Errorf("of the green nodes: %q", got)
	}
	unknown := describeOperation(poolName(), &running, "")
	if !unknown.IsUpgrade() || unknown.To.ID != "operation/a" {
		t.Errorf("an upgrade with an unknown target is %+v", unknown)
	}
}

func TestStageIsShownInGKEsNumbers(t *testing.T) {
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	done, total := int64(3), int64(10)
	op := operationAt(1, "a", "workers", container.OperationUpgradeNodes, container.OperationRunning)
	op.Progress = &container.OperationProgress{Stages: []container.OperationProgress{{Metrics: []container.Metric{{Name: "nodes done", IntValue: &done}, {Name: "nodes total", IntValue: &total}}}}}
	if got := describeStage(&op, &container.NodePool{}, now); got != "3 of 10 nodes done" {
		t.Error(got)
	}
	op.Progress = &container.OperationProgress{Metrics: []container.Metric{{Name: "NODES_TOTAL", IntValue: &total}}} // of a real answer: magic-modules#5671
	if got := describeStage(&op, &container.NodePool{}, now); got != "10 nodes in all" {
		t.Error(got)
	}
	pool := func(phase container.Phase) *container.NodePool {
		return &container.NodePool{UpdateInfo: &container.UpdateInfo{BlueGreenInfo: &container.BlueGreenInfo{Phase: phase, BluePoolDeletionStartTime: container.Time{Time: now.Add(25 * time.Minute)}}}}
	}
	op.Progress = nil
	for phase, want := range map[container.Phase]string{
		container.PhaseDrainingBluePool: "it drains the old nodes",
		container.PhaseNodePoolSoaking:  "it waits before it deletes the old nodes (soak), for another 25m0s",
		"A_NEW_PHASE":                   "phase A_NEW_PHASE",
	} {
		if got := describeStage(&op, pool(phase), now); got != want {
			t.Errorf("%s: %q, want %q", phase, got, want)
		}
	}
	op.Status = container.OperationDone
	if got := describeStage(&op, pool(container.PhaseNodePoolSoaking), now); got != "" {
		t.Errorf("of an operation that is over: %q", got)
	}
}

// TestFailuresAreExplained has messages of GKE from public reports.
func TestFailuresAreExplained(t *testing.T) {
	for message, want := range map[string]struct {
		says string
		step nodegroup.FailureCause
	}{
		"Google Compute Engine: Not all instances running in IGM after 35m. Current errors: [ZONE_RESOURCE_POOL_EXHAUSTED]: Instance 'gke-1' creation failed: The zone does not have enough resources available": {"the zone had no capacity", nodegroup.LaunchFailed},
		"Insufficient quota to satisfy the request: Quota 'CPUS' exceeded. Limit: 24.0 in region us-central1.":                                                                                                   {"a quota of the project is used up", nodegroup.LaunchFailed},
		"[IP_SPACE_EXHAUSTED]: Instance 'gke-1' creation failed: IP space of 'default' is exhausted.":                                                                                                            {"no free addresses", nodegroup.LaunchFailed},
		"All cluster resources were brought up, but: only 0 nodes out of 1 have registered; this is likely due to Nodes failing to start correctly":                                                              {"", ""},
		"Timed out waiting for cluster initialization.": {"it took longer than GKE allows", ""},
		"": {"GKE gives no reason", ""},
	} {
		op := container.Operation{Error: &container.Status{Code: 13, Message: message}}
		code, text, step := explainFailedOperation(&op)
		if code != "INTERNAL" || !strings.Contains(text, want.says) || want.step != "" && step != want.step {
			t.Errorf("%q: %s, %s, %q", message, code, text, step)
		}
	}
	op := container.Operation{Status: container.OperationDone, StatusMessage: "Failed to start node upgrade: Desired node version (1.7.0) cannot be greater than current master version (1.6.6)"}
	if got := describeOperation(poolName(), &op, ""); got.State != nodegroup.OperationFailed || !strings.Contains(got.Failure, "[UNKNOWN: Failed to start node upgrade") {
		t.Errorf("only with a text: %+v", got)
	}
}

// TestSoakIsReadFromPhase: an end of the soak that GKE does not report is unknown, and an operation that has ended does not soak.
func TestSoakIsReadFromPhase(t *testing.T) {
	end := time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		state          nodegroup.OperationState
		phase          container.Phase
		end            time.Time
		soaks, deletes bool
	}{
		"it soaks":                   {nodegroup.OperationRunning, container.PhaseNodePoolSoaking, end, true, false},
		"it soaks without an end":    {nodegroup.OperationRunning, container.PhaseNodePoolSoaking, time.Time{}, true, false},
		"it drains":                  {nodegroup.OperationRunning, container.PhaseDrainingBluePool, time.Time{}, false, false},
		"it deletes":                 {nodegroup.OperationRunning, container.PhaseDeletingBluePool, time.Time{}, false, true},
		"it was cancelled in a soak": {nodegroup.OperationCancelled, container.PhaseNodePoolSoaking, time.Time{}, false, false},
	} {
		op := nodegroup.Operation{State: c.state, To: nodegroup.Revision{ID: "1.34.4-gke.5"}}
		info := &container.BlueGreenInfo{Phase: c.phase, BluePoolDeletionStartTime: container.Time{Time: c.end}}
		setSoak(&op, &container.NodePool{UpdateInfo: &container.UpdateInfo{BlueGreenInfo: info}})
		if op.Soaks != c.soaks || op.Deletes != c.deletes || !op.SoaksUntil.Equal(c.end) {
			t.Errorf("%s: %+v", name, op)
		}
	}
}
