package report

import (
	"fmt"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// listWorkloadChanges returns an event for each workload that does not recover since this moment, and for each
// one that has recovered.
func listWorkloadChanges(before, now *record.Status) []Event {
	var events []Event
	for _, u := range now.Unhealthy {
		if !containsWorkload(before.Unhealthy, u.Name) {
			events = append(events, Event{Type: WorkloadEvent, State: "unhealthy", Workload: u.Name, Node: u.Node, Text: fmt.Sprintf("workload %s: no further node is started", u)})
		}
	}
	for _, u := range before.Unhealthy {
		if !containsWorkload(now.Unhealthy, u.Name) {
			events = append(events, Event{Type: WorkloadEvent, State: "recovered", Workload: u.Name, Text: fmt.Sprintf("workload %s no longer delays the upgrade", u.Name)})
		}
	}
	return events
}

func containsWorkload(all []record.Unhealthy, name string) bool {
	return slices.ContainsFunc(all, func(u record.Unhealthy) bool { return u.Name == name })
}

// listNoticeableActions returns an event for each sent action that users may notice: the eviction of a last
// ready pod, or a restart.
func listNoticeableActions(sent []nodegroup.Action) []Event {
	var events []Event
	for _, action := range sent {
		switch a := action.(type) {
		case schedule.Eviction:
			if a.LastReady > 0 {
				events = append(events, Event{Type: WorkloadEvent, State: "last-ready", Node: a.Node, Text: a.String()})
			}
		case schedule.Restart:
			events = append(events, Event{Type: WorkloadEvent, State: "restart", Node: a.Node, Text: a.String()})
		}
	}
	return events
}
