package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// expectedState returns the state that the upgrade must leave behind. After an abort, it takes some values from found, because they may
// vary.
func (t *testCase) expectedState(found state) state {
	nodes := len(t.before.instances)
	done := record.Record{Phase: record.PhaseDone, Result: record.Succeeded, Total: nodes, Replaced: nodes}
	expected := t.before.expectedState()
	switch {
	case t.carriedOut == record.VerbRollback:
		return t.expectedAfterRollback()
	case t.carriedOut == record.VerbAbort:
		return t.expectedAfterAbort(found)
	case t.managed: // the update must be started exactly once
		expected["record"], expected["updates"] = describeRecord(done), "1 begun, 1 token"
	case t.strategy == string(record.BlueGreen):
		done.Suspended = []string{"AZRebalance", "AlarmNotification", "ScheduledActions"}
		expected["record"] = describeRecord(done)
	}
	return expected
}

// removedByTool returns the instances or pods that the tool itself must terminate or evict. It returns none if EKS does that.
func (t *testCase) removedByTool(all map[string]bool) map[string]bool {
	if t.managed {
		return nil
	}
	return all
}

// describeUpdates counts the updates of the group that EKS has begun, and the tokens with which they were requested.
func (t *testCase) describeUpdates(ctx context.Context) (string, error) {
	out, err := t.NewEKSClient().ListUpdates(ctx, &eks.ListUpdatesInput{Name: aws.String(fixture.EKSCluster), NodegroupName: aws.String(t.group())})
	if err != nil {
		return "", fmt.Errorf("listing the updates: %w", err)
	}
	tokens := map[string]bool{}
	for _, r := range t.Cloud.Requests() {
		if r.Operation == "UpdateNodegroupVersion" && r.Params["nodegroupName"] == t.group() {
			tokens[r.Params["clientRequestToken"]] = true
		}
	}
	return fmt.Sprintf("%d begun, %d token", len(out.UpdateIds), len(tokens)), nil
}
