package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/bench/fleet"
)

// fleetPlanning returns the planning of a group with this many outdated nodes.
func fleetPlanning(nodes int) *planning {
	spec := fleet.New(nodes)
	read := &clusterReading{view: drain.Snapshot{Nodes: spec.Nodes, Pods: map[string][]*corev1.Pod{}, PDBs: spec.Budgets}, objects: &inventory.Objects{}}
	p := &planning{
		groupContext: &groupContext{
			observation: observation{provider: everyNodeOutdated{}, group: spec.Group, now: spec.Now, cluster: read},
			resolution:  resolution{request: fleet.Request(1)},
		},
		s: &session{command: &command{&commandLine{}, &connection{}}},
	}
	for _, pod := range spec.Pods {
		read.view.Pods[pod.Spec.NodeName] = append(read.view.Pods[pod.Spec.NodeName], pod)
	}
	p.joinNodes(&p.record)
	p.s.line.settings.BootTimeout = p.request.BootTimeout.Duration
	return p
}

// BenchmarkCompare compares the ways to upgrade 300 nodes with 9,000 pods. It reports the time as a multiple of the
// requested way's forecast, which is a part of the comparison.
func BenchmarkCompare(b *testing.B) {
	const nodes = 300
	p := fleetPlanning(nodes)
	ways := p.listWays(p.s.line.settings)
	var one, all time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := p.forecastWay(b.Context(), &ways[0]); err != nil {
			b.Fatal(err)
		}
		one += time.Since(began)
		for i := range ways {
			ways[i].WayForecast = nil
		}
		began = time.Now()
		if _, err := p.forecastWays(b.Context(), ways); err != nil {
			b.Fatal(err)
		}
		all += time.Since(began)
	}
	for _, way := range ways {
		if way.Evictions < nodes {
			b.Fatalf("%s: %d evictions %s", way.Flags, way.Evictions, way.Refused)
		}
	}
	b.ReportMetric(float64(all)/float64(one), "×one")
}

// everyNodeOutdated is a provider for which every node belongs to the group and is outdated.
type everyNodeOutdated struct{ cloud.Provider }

func (everyNodeOutdated) Belongs(*nodegroup.Group, *corev1.Node) bool  { return true }
func (everyNodeOutdated) Outdated(*nodegroup.Group, *corev1.Node) bool { return true }
