package upgrade

import "github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"

// Move is how the only ready pod of a workload leaves its node.
type Move string

const (
	// MoveByEviction evicts it: until its successor is ready the workload has no ready pod.
	MoveByEviction Move = "evict"
	// MoveBySurge restarts its Deployment, where that brings another up first.
	MoveBySurge Move = "surge"
)

// Restart moves the only ready pod of a Deployment by a rolling restart.
type Restart = schedule.Restart
