package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/gkecloud"
)

// scenario is one upgrade.
type scenario struct {
	name string
	// nodes is the number of outdated nodes. If zones are set, the nodes are a group of the cloud. Otherwise they are nodes with a
	// label, and there are as many current nodes.
	nodes     int
	zones     []string
	workloads []fixture.Workload
	// placeholders are workloads with a low priority that fill the current nodes of a group without a cloud. Their pods are preempted.
	placeholders []fixture.Workload
	// deletedPod is a pod that is deleted before the plan is made, and again before the upgrade; "" for none.
	deletedPod string
	// managed is true if EKS runs the upgrade, with the strategy, and with width nodes at a time.
	managed  bool
	strategy ekstypes.NodegroupUpdateStrategies
	width    int
	// pool is set if the nodes are a GKE node pool, which GKE upgrades. env is the environment of the plugin, and cluster GKE's name
	// of the cluster; runScenario sets both.
	pool    *gkecloud.PoolSpec
	env     []string
	cluster string
	// flags are additional flags of the command. code is the expected exit code.
	flags []string
	code  int
	// random is true if the pods take a random time to terminate.
	random bool
	// newZone is the zone of the current nodes of a group without a cloud; "" for both zones.
	newZone string
	// missingNewNodes is the number of current nodes that are missing in a group without a cloud. oldResources and newResources are the
	// additional resources of its nodes. newCPU is the CPU of the current nodes; "" for the usual amount.
	missingNewNodes            int
	oldResources, newResources corev1.ResourceList
	newCPU                     string
	// silentWebhook is the resource whose creations are refused, because a webhook does not answer; "" for none.
	silentWebhook string
	// keepIn is the folder for the plan and the events; "" for none.
	keepIn string
}

// The zones of all groups.
const (
	zoneA = "us-east-1a"
	zoneB = "us-east-1b"
)

// storeOutput writes output to a file, if a folder is set.
func (sc *scenario) storeOutput(suffix string, text []byte) error {
	if sc.keepIn == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(sc.keepIn, sc.group()+suffix), text, 0o644)
}

func (sc *scenario) usesCloud() bool { return len(sc.zones) > 0 || sc.pool != nil }

// isByCloud reports whether a cloud itself runs the upgrade.
func (sc *scenario) isByCloud() bool { return sc.managed || sc.pool != nil }

// group returns the scenario's name as a label, a namespace and a group of the cloud.
func (sc *scenario) group() string { return strings.ReplaceAll(sc.name, " ", "-") }

// groupName returns the plugin's name for the group.
func (sc *scenario) groupName() string {
	if sc.usesCloud() {
		return sc.group()
	}
	return sc.selector()
}

// selector returns the label selector of the scenario's nodes.
func (sc *scenario) selector() string { return "pool=" + sc.group() }

// args returns the plugin's arguments: those that the plan and the upgrade share, and more.
func (sc *scenario) args(more ...string) []string {
	args := []string{"nodeupgrade", "-l", sc.groupName(), "--current", "image=new", "--wait-replacement=false"}
	switch {
	case sc.pool != nil:
		args = []string{"nodeupgrade", sc.group(), "--provider=gke", "--cluster-name=" + sc.cluster}
	case sc.managed:
		args = []string{"nodeupgrade", sc.group(), "--to=1.36"}
	case sc.usesCloud():
		args = []string{"nodeupgrade", sc.group(), "--to=2"}
	}
	return append(append(args, sc.flags...), more...)
}

const second = time.Second

// withKnownTermination returns a workload whose spec shows how long its pods take to terminate: its preStop hook sleeps for that time.
func withKnownTermination(name string, replicas int32, ready, gone time.Duration) fixture.Workload {
	return fixture.Workload{Name: name, Replicas: replicas, Ready: ready, Gone: gone, Grace: gone, PreStop: gone - second}
}

// withBudget returns the workload with a budget.
func withBudget(w fixture.Workload, maxUnavailable string) fixture.Workload {
	w.MaxUnavailable = maxUnavailable
	return w
}

// copyWorkload returns n copies of the workload with different names.
func copyWorkload(n int, w fixture.Workload) []fixture.Workload {
	var all []fixture.Workload
	for i := range n {
		one := w
		one.Name = fmt.Sprintf("%s-%d", w.Name, i)
		all = append(all, one)
	}
	return all
}

// withRandomTermination gives the pods of each workload a random time to terminate, between 10 and 40 % of the grace period.
func withRandomTermination(seed uint64, grace time.Duration, workloads []fixture.Workload) []fixture.Workload {
	draw := rand.New(rand.NewPCG(seed, uint64(len(workloads))))
	for i := range workloads {
		share := 0.1 + 0.3*draw.Float64()
		workloads[i].Grace, workloads[i].Gone = grace, time.Duration(share*float64(grace)).Round(time.Millisecond)
	}
	return workloads
}
