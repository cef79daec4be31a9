package simulate_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// cloudBlueGreen is a group that its cloud upgrades blue-green, with batches of one node and a soak of an hour.
type cloudBlueGreen struct {
	spec   simulate.Spec
	record record.Record
}

func newCloudBlueGreen() *cloudBlueGreen {
	c := &cloudBlueGreen{spec: shop()}
	c.spec.Outdated = func(n *corev1.Node) bool { return n.Name[:3] == "old" }
	c.spec.Group.Managed = &nodegroup.Managed{}
	return c
}

// addGreen shows that the cloud has added a new node for each old one, has cordoned all old ones, and has drained the first n.
func (c *cloudBlueGreen) addGreen(n int) {
	c.spec.Group.Desired, c.spec.Group.Max = 6, 6
	for i, name := range []string{"new-0", "new-1", "new-2"} {
		c.spec.Nodes[i].Spec.Unschedulable = true
		added := node(name, "a", allocatable("2", "4Gi", "10"))
		added.Spec.ProviderID = "sim:///a/i-" + name
		c.spec.Nodes = append(c.spec.Nodes, added)
		c.spec.Group.Instances = append(c.spec.Group.Instances, nodegroup.Instance{ID: "i-" + name, Zone: "a", State: nodegroup.InstanceInService})
		for _, pod := range c.spec.Pods {
			if pod.Spec.NodeName == c.spec.Nodes[i].Name && i < n {
				pod.Spec.NodeName = name
			}
		}
	}
	c.record = record.Record{
		Run: "r1", Started: start.Add(-time.Minute), Phase: record.PhaseFollow, Delegation: &record.Delegation{ID: "u1"}, Total: 3, Target: c.spec.Group.Wanted, Provider: "aws",
		Sizes: nodegroup.Sizes{Desired: 3, Max: 3, Zones: map[string]int{"a": 3}},
	}
}

func (c *cloudBlueGreen) forecast(t *testing.T) simulate.Forecast {
	t.Helper()
	req := request()
	req.Strategy, req.CloudStrategy, req.Surge, req.Window, req.OnTimeout = record.Delegated, record.BlueGreen, 3, 1, record.Force
	req.BlueGreen = &record.BlueGreenRequest{Batch: 1, Soak: record.Duration{Duration: time.Hour}}
	c.record.Request = req
	var members []nodegroup.Member
	for _, n := range c.spec.Nodes {
		i := slices.IndexFunc(c.spec.Group.Instances, func(i nodegroup.Instance) bool { return i.ID == "i-"+n.Name })
		m := nodegroup.Member{Node: n, Instance: c.spec.Group.Instances[i], Outdated: c.spec.Outdated(n)}
		for _, pod := range c.spec.Pods {
			if pod.Spec.NodeName == n.Name {
				m.Pods = append(m.Pods, pod)
			}
		}
		members = append(members, m)
	}
	c.spec.Group, c.spec.Record, req = upgrade.DelegatedAsOwn(c.spec.Group, members, &c.record, req, start)
	c.spec.Times, _ = simulate.Estimate(&c.spec)
	f, err := simulate.Predict(t.Context(), c.spec, req)
	if err != nil {
		t.Fatal(err)
	}
	if f.Slow.Result != record.Succeeded {
		t.Errorf("it ends with %s: %s", f.Slow.Result, f.Slow.Why)
	}
	return f
}

// TestForecastOfCloudsBlueGreenUpgradeContinuesAtItsPhase: each pod moves once, and the soak is part of the time until it has passed.
func TestForecastOfCloudsBlueGreenUpgradeContinuesAtItsPhase(t *testing.T) {
	whole := newCloudBlueGreen().forecast(t)
	if whole.Peak != 6 || whole.Evictions != 6 || whole.Duration.Earliest.Duration < time.Hour {
		t.Errorf("from the start: peak %d, %d evictions, %s", whole.Peak, whole.Evictions, whole.Duration)
	}
	drains := newCloudBlueGreen()
	drains.addGreen(1)
	left := drains.forecast(t)
	if left.Evictions != 4 || left.Duration.Earliest.Duration < time.Hour || left.Duration.Latest.Duration >= whole.Duration.Latest.Duration {
		t.Errorf("with one of three nodes drained: %d evictions, %s of %s", left.Evictions, left.Duration, whole.Duration)
	}
	soaks := newCloudBlueGreen()
	soaks.addGreen(3)
	soaks.record.Phase, soaks.record.Soak.Until = record.PhaseSoak, start.Add(20*time.Minute)
	if left = soaks.forecast(t); left.Evictions != 0 || left.Duration.Earliest.Duration < 20*time.Minute || left.Duration.Latest.Duration > 25*time.Minute {
		t.Errorf("with 20 minutes of the soak left: %d evictions, %s", left.Evictions, left.Duration)
	}
	soaks = newCloudBlueGreen()
	soaks.addGreen(3)
	soaks.record.Phase, soaks.record.Soak.Until, soaks.record.Delegation.Completing = record.PhaseSoak, start.Add(20*time.Minute), "u1"
	if left = soaks.forecast(t); left.Duration.Latest.Duration > 5*time.Minute {
		t.Errorf("after a user has ended the soak: %s", left.Duration)
	}
	soaks = newCloudBlueGreen()
	soaks.addGreen(3)
	soaks.record.Phase = record.PhaseDeleteBlue
	if left = soaks.forecast(t); left.Evictions != 0 || left.Duration.Latest.Duration > 5*time.Minute {
		t.Errorf("after the soak: %d evictions, %s", left.Evictions, left.Duration)
	}
}

// TestForecastOfCloudsRollbackDoesNotSoak: the nodes of the earlier revision take pods again, and each pod moves back once (GKE G56).
func TestForecastOfCloudsRollbackDoesNotSoak(t *testing.T) {
	c := newCloudBlueGreen()
	c.addGreen(3)
	c.record.Rollback = true
	c.spec.Outdated = func(n *corev1.Node) bool { return n.Name[:3] == "new" }
	for i := range c.spec.Group.Instances {
		c.spec.Group.Instances[i].Outdated = !c.spec.Group.Instances[i].Outdated
	}
	for _, n := range c.spec.Nodes {
		n.Spec.Unschedulable = false
	}
	if back := c.forecast(t); back.Evictions != 6 || back.Duration.Earliest.Duration < 30*time.Second || back.Duration.Latest.Duration > 10*time.Minute {
		t.Errorf("%d evictions, %s", back.Evictions, back.Duration)
	}
}
