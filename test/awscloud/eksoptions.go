package awscloud

import (
	"cmp"
	"time"
)

// EKSOptions configure how EKS updates managed node groups. Time is scaled: a second here stands for a minute of EKS, unless
// stated otherwise. If a duration is zero, the default in its comment applies.
type EKSOptions struct {
	// Drainer fences and drains Nodes as EKS does. If Drainer is nil, a Node is Ready when its instance is in service, and
	// Nodes have no pods.
	Drainer Drainer

	// Setup is how long it takes to make the launch template, or to change the update configuration: 100ms.
	Setup time.Duration
	// NodeLimit is how long new nodes may take until they are Ready. After that the update fails with NodeCreationFailure: 15s.
	// AWS does not document its limit.
	NodeLimit time.Duration
	// DrainLimit is how long a node's drain may take: 15s for the 15 minutes of EKS E41.
	DrainLimit time.Duration
	// Settle is the time from the last pod to the termination: 1s for the 60 seconds of EKS E44.
	Settle time.Duration
	// StatusLag is how long DescribeNodegroup still shows the previous status: 0. DescribeUpdate never lags.
	StatusLag time.Duration
	// Seed is the seed of the random order of nodes (EKS E40).
	Seed uint64

	// AWS's documentation does not describe the following behaviour, or its pages differ. Each field chooses the less likely
	// variant.

	// TaintFirst taints old nodes before the first drain, as AWS's older texts say, and cordons each node when its drain
	// starts. Otherwise all old nodes are cordoned before the first drain, as the newer texts say (EKS E30).
	TaintFirst bool
	// UncordonOnFail uncordons the old nodes when an update fails. Otherwise the old nodes stay fenced.
	UncordonOnFail bool
	// JoinRunning makes EKS answer a second update request, with another token, with the update in progress. Otherwise EKS
	// refuses the second request with ResourceInUseException.
	JoinRunning bool
	// RefuseSkip makes EKS refuse an update by more than one minor version.
	RefuseSkip bool
	// ListOldestFirst makes ListUpdates list the oldest update first. Otherwise the newest update comes first.
	ListOldestFirst bool
}

func (o EKSOptions) withDefaults() EKSOptions {
	o.Setup = cmp.Or(o.Setup, 100*time.Millisecond)
	o.NodeLimit = cmp.Or(o.NodeLimit, 15*time.Second)
	o.DrainLimit = cmp.Or(o.DrainLimit, 15*time.Second)
	o.Settle = cmp.Or(o.Settle, time.Second)
	return o
}
