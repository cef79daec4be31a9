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
)

// scenario is one upgrade.
type scenario struct {
	name string
	// nodes is how many are outdated. With zones they are a group of the cloud, otherwise labelled nodes with as many
	// current ones beside them.
	nodes     int
	zones     []string
	workloads []fixture.Workload
	// placeholders fill the current nodes of a group that no cloud knows, and are preempted.
	placeholders []fixture.Workload
	// lost is a pod that somebody deletes before the plan is made, and again before the upgrade; "" for none.
	lost string
	// managed has EKS carry the upgrade out: by its own strategy, so many nodes at a time.
	managed  bool
	strategy ekstypes.NodegroupUpdateStrategies
	width    int
	// flags are the user's; code is what kubectl ends with.
	flags []string
	code  int
	// random says that the pods' ends are left to chance.
	random bool
	// newZone is where the current nodes of a group that no cloud knows are; "" for both zones.
	newZone string
	// fewer is how many current nodes are missing, of a group that no cloud knows. oldHave and newHave are what
	// its nodes have beside CPU and memory, and newCPU is the CPU of the current ones; "" for the usual.
	fewer            int
	oldHave, newHave corev1.ResourceList
	newCPU           string
	// keepIn is the folder that the plan and the events are kept in; "" for none.
	keepIn string
}

// The zones of all groups.
const (
	zoneA = "us-east-1a"
	zoneB = "us-east-1b"
)

// keep writes what was said to a file for who wants to look at it.
func (sc *scenario) keep(suffix string, text []byte) error {
	if sc.keepIn == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(sc.keepIn, sc.group()+suffix), text, 0o644)
}

func (sc *scenario) aws() bool { return len(sc.zones) > 0 }

// group is the scenario's name as a label, a namespace and a group of the cloud.
func (sc *scenario) group() string { return strings.ReplaceAll(sc.name, " ", "-") }

// groupName is what the plugin calls the group.
func (sc *scenario) groupName() string {
	if sc.aws() {
		return sc.group()
	}
	return sc.selector()
}

// selector is the label that its nodes carry.
func (sc *scenario) selector() string { return "pool=" + sc.group() }

// args are the plugin's: the same for the plan and for the upgrade, but for those given.
func (sc *scenario) args(more ...string) []string {
	args := []string{"nodeupgrade", "-l", sc.groupName(), "--current", "image=new", "--wait-replacement=false"}
	switch {
	case sc.managed:
		args = []string{"nodeupgrade", sc.group(), "--to=1.36"}
	case sc.aws():
		args = []string{"nodeupgrade", sc.group(), "--to=2"}
	}
	return append(append(args, sc.flags...), more...)
}

const second = time.Second

// known is a workload whose pods say themselves how long they take to end: as long as they sleep before they are told to.
func known(name string, replicas int32, ready, gone time.Duration) fixture.Workload {
	return fixture.Workload{Name: name, Replicas: replicas, Ready: ready, Gone: gone, Grace: gone, PreStop: gone - second}
}

// keeping gives the workload a budget of so many unavailable pods.
func keeping(w fixture.Workload, maxUnavailable string) fixture.Workload {
	w.MaxUnavailable = maxUnavailable
	return w
}

// several are workloads alike but for their names.
func several(n int, w fixture.Workload) []fixture.Workload {
	var all []fixture.Workload
	for i := range n {
		one := w
		one.Name = fmt.Sprintf("%s-%d", w.Name, i)
		all = append(all, one)
	}
	return all
}

// atRandom has the pods of each workload take a random share of their grace period to end, between 10 and 40 %.
func atRandom(seed uint64, grace time.Duration, workloads []fixture.Workload) []fixture.Workload {
	draw := rand.New(rand.NewPCG(seed, uint64(len(workloads))))
	for i := range workloads {
		share := 0.1 + 0.3*draw.Float64()
		workloads[i].Grace, workloads[i].Gone = grace, time.Duration(share*float64(grace)).Round(time.Millisecond)
	}
	return workloads
}
