package awscloud

import (
	"cmp"
	"time"
)

// EKSOptions configure how EKS updates managed node groups. Time is scaled: a minute of EKS is a
// second here, unless said otherwise. A duration that is zero takes the default named beside it.
type EKSOptions struct {
	// Drainer is what EKS does to Nodes; nil: Nodes are as their instances are, and have no pods.
	Drainer Drainer

	// Setup is how long the launch template takes, and a change of the update configuration: 100ms.
	Setup time.Duration
	// NodeLimit is how long new nodes may take to be Ready until the update fails with
	// NodeCreationFailure: 15s. AWS does not say how long that is.
	NodeLimit time.Duration
	// DrainLimit is how long a node may take to drain: 15s for the 15 minutes of EKS E41.
	DrainLimit time.Duration
	// Settle is the time from the last pod to the termination: 1s for the 60 seconds of EKS E44.
	Settle time.Duration
	// StatusLag is for how long DescribeNodegroup still shows the status of before: 0.
	// DescribeUpdate never lags.
	StatusLag time.Duration
	// Seed is that of the order of nodes (EKS E40).
	Seed uint64

	// Where AWS's pages are silent or differ, these choose the other of two ways to behave.

	// TaintFirst gives old nodes the taint of the older texts before the first drain, and the
	// cordon with their drain; otherwise they get the cordon of the newer texts first (EKS E30).
	TaintFirst bool
	// UncordonOnFail opens the old nodes when an update fails; otherwise they stay fenced.
	UncordonOnFail bool
	// JoinRunning answers a request of another token with the update under way; otherwise such a
	// request is refused with ResourceInUseException.
	JoinRunning bool
	// RefuseSkip refuses to bring a node group over more than one minor version at once.
	RefuseSkip bool
	// ListOldestFirst is the order of ListUpdates; otherwise the newest update comes first.
	ListOldestFirst bool
}

func (o EKSOptions) withDefaults() EKSOptions {
	o.Setup = cmp.Or(o.Setup, 100*time.Millisecond)
	o.NodeLimit = cmp.Or(o.NodeLimit, 15*time.Second)
	o.DrainLimit = cmp.Or(o.DrainLimit, 15*time.Second)
	o.Settle = cmp.Or(o.Settle, time.Second)
	return o
}
