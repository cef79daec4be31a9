package awscloud

import (
	"cmp"
	"io"
	"time"
)

// Options configure a [Cloud]. The comment of a field ends with its default. To make something happen immediately, set its
// duration to one nanosecond.
type Options struct {
	Nodes   NodeHost  // joins instances to a cluster; nil: instances have no Node
	Region  string    // us-east-1; every other region is empty
	Account string    // 123456789012
	Log     io.Writer // each request as one line of JSON; nil: none

	EKS EKSOptions // how managed node groups are updated

	Boot              time.Duration // from the launch until the instance is InService and has a Node: 2s
	NodeReady         time.Duration // from then until its Node is Ready: 500ms
	Terminate         time.Duration // from shutting-down to terminated: 1s
	NodeGoneAfter     time.Duration // from terminated until the Node is deleted: 500ms
	TerminatedVisible time.Duration // how long EC2 still describes a terminated instance after that: 1m
	HealthCheck       time.Duration // until a group notices an instance that KillInstance stopped: 500ms
	Rebalance         time.Duration // how long zones stay unbalanced before AZRebalance acts: 1s
	CapacityRetry     time.Duration // how long a group avoids a zone after a failed launch: 1s
	Tick              time.Duration // how often the groups are updated: 20ms

	Latency           time.Duration // how long every call takes at least: 2ms
	LaunchCall        time.Duration // how long a LaunchInstances call takes: 0
	DescribeLag       time.Duration // age of the answers of Auto Scaling and EC2 about groups and instances: 0
	NewInstanceHidden time.Duration // how long EC2 does not show a new instance: 0
}

// withDefaults fills the fields that were left zero.
func (o Options) withDefaults() Options {
	o.Region = cmp.Or(o.Region, "us-east-1")
	o.Account = cmp.Or(o.Account, "123456789012")
	o.Boot = cmp.Or(o.Boot, 2*time.Second)
	o.NodeReady = cmp.Or(o.NodeReady, 500*time.Millisecond)
	o.Terminate = cmp.Or(o.Terminate, time.Second)
	o.NodeGoneAfter = cmp.Or(o.NodeGoneAfter, 500*time.Millisecond)
	o.TerminatedVisible = cmp.Or(o.TerminatedVisible, time.Minute)
	o.HealthCheck = cmp.Or(o.HealthCheck, 500*time.Millisecond)
	o.Rebalance = cmp.Or(o.Rebalance, time.Second)
	o.CapacityRetry = cmp.Or(o.CapacityRetry, time.Second)
	o.Tick = cmp.Or(o.Tick, 20*time.Millisecond)
	o.EKS = o.EKS.withDefaults()
	o.Latency = cmp.Or(o.Latency, 2*time.Millisecond)
	return o
}
