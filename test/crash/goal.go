package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

// goal is what the upgrade has to leave behind, of which an abort leaves some as it was found.
func (t *trial) goal(found state) state {
	nodes := len(t.before.instances)
	done := upgrade.Record{Phase: upgrade.PhaseDone, Result: upgrade.Succeeded, Total: nodes, Replaced: nodes}
	goal := t.before.goal()
	switch {
	case t.obeyed == upgrade.VerbRollback:
		return t.goalBack()
	case t.obeyed == upgrade.VerbAbort:
		return t.goalAborted(found)
	case t.managed: // EKS is asked to begin once
		goal["record"], goal["updates"] = describe(done), "1 begun, 1 token"
	case t.strategy == string(upgrade.BlueGreen):
		done.Suspended = []string{"AZRebalance", "AlarmNotification", "ScheduledActions"}
		goal["record"] = describe(done)
	}
	return goal
}

// due are those whom the tool itself is to evict or terminate: none where EKS does.
func (t *trial) due(all map[string]bool) map[string]bool {
	if t.managed {
		return nil
	}
	return all
}

// describeUpdates counts the updates of the group that EKS has begun and the tokens with which that
// was asked for.
func (t *trial) describeUpdates(ctx context.Context) (string, error) {
	out, err := t.EKS().ListUpdates(ctx, &eks.ListUpdatesInput{Name: aws.String(stage.EKSCluster), NodegroupName: aws.String(t.group())})
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
