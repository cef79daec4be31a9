package upgrade

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// lookAgain is the longest a running upgrade goes without a look, should no event arrive.
	lookAgain = 30 * time.Second
	// pollInterval is how often the cloud is asked while something of ours is under way there.
	pollInterval = 5 * time.Second
	// seen is how long the effect of an accepted request may take to be observed before it is asked
	// for again.
	seen = nodegroup.SeenWithin
)

const (
	// longBlocked is how long a pod has to be blocked for the record to tell since when.
	longBlocked = time.Minute
	// mostBlocked is how many pods of a node the record names for that; it counts the others.
	mostBlocked = 5
	// mostUnhealthy is how many workloads the record names that have not recovered for as long.
	mostUnhealthy = 20
	// mostBlockedOfGroup is the same of a group that its own cloud upgrades.
	mostBlockedOfGroup = 20
)
