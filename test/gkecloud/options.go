package gkecloud

import (
	"cmp"
	"context"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// Options configure a [Cloud]. The comment of a field ends with its default.
type Options struct {
	Nodes   awscloud.NodeHost // creates and deletes the Nodes of machines; required
	Drainer awscloud.Drainer  // cordons and drains Nodes; required

	Project       string   // acme-prod
	Location      string   // us-central1
	Cluster       string   // main
	ControlPlane  string   // 1.34.3-gke.1200
	ValidVersions []string // versions that GKE offers for nodes, the newest first: that of the control plane and 1.33.5-gke.1000

	Boot       time.Duration // from the start of a machine until its Node exists: 1s
	NodeLimit  time.Duration // how long a new Node may take to become Ready: 1m
	DrainLimit time.Duration // how long budgets are obeyed; it stands for an hour: 20s
	Latency    time.Duration // of each answer: 0
	Delete     time.Duration // how long a machine takes to end: 500ms

	// Lacking returns how many nodes of the pool the pods need that no node takes. GKE's autoscaler adds them during the drain of an
	// autoscaled upgrade, and looks every 10 seconds. nil: a new node for each old one is added before the drain.
	Lacking func(ctx context.Context, pool string) (int, error)

	// HoldsAfter is the number of nodes after which the first upgrade begins no other node before it is cancelled; 0 for no limit. Tests of
	// a cancellation need an upgrade that does not end before.
	HoldsAfter int

	// GKE does not document the following. Each field chooses one of two variants.

	// KeepsOldVersion makes a pool show its old version until an upgrade has ended. Otherwise it shows the new one from the start.
	KeepsOldVersion bool
	// FailsByText makes a failed operation report its failure only in statusMessage (terraform-provider-google#291). Otherwise it has an
	// error, too.
	FailsByText bool
	// HidesTargets makes fetchNodePoolUpgradeInfo list no upgrades.
	HidesTargets bool
}

// NodeVersion is the version that pools have at first.
const NodeVersion = "1.33.5-gke.1000"

func (o Options) withDefaults() Options {
	o.Project = cmp.Or(o.Project, "acme-prod")
	o.Location = cmp.Or(o.Location, "us-central1")
	o.Cluster = cmp.Or(o.Cluster, "main")
	o.ControlPlane = cmp.Or(o.ControlPlane, "1.34.3-gke.1200")
	if o.ValidVersions == nil {
		o.ValidVersions = []string{o.ControlPlane, NodeVersion}
	}
	o.Boot = cmp.Or(o.Boot, time.Second)
	o.NodeLimit = cmp.Or(o.NodeLimit, time.Minute)
	o.DrainLimit = cmp.Or(o.DrainLimit, 20*time.Second)
	o.Delete = cmp.Or(o.Delete, 500*time.Millisecond)
	return o
}
