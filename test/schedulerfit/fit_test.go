package schedulerfit

import (
	"flag"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

var (
	samples = flag.Int("samples", 1000, "how many random clusters to compare")
	first   = flag.Uint64("first", 1, "the seed of the first one")
)

// TestSimulatorRefusesAsKubeScheduler checks that the simulator and kube-scheduler give the same answer for each node: the node takes
// the pod, or the reasons why not. The simulator's objects are trimmed, as are objects that are read from a cluster or a dump.
func TestSimulatorRefusesAsKubeScheduler(t *testing.T) {
	kube, err := newKubeScheduler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	met, wrong := map[string]int{}, 0
	for seed := *first; seed < *first+uint64(*samples); seed++ {
		c := newSample(seed)
		want, err := kube.refusals(t.Context(), c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, node := range c.nodes {
			for _, reason := range want[node.Name] {
				met[reason]++
			}
		}
		met["(takes it)"] += len(c.nodes) - len(want)
		if got := ourRefusals(c); !hasSameRefusals(got, want) {
			if wrong++; wrong <= 3 {
				t.Errorf("seed %d: the simulator says\n%v\nkube-scheduler says\n%v\n%s", seed, got, want, show(c))
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d differ", wrong, *samples)
	}
	for _, reason := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%7d %s", met[reason], reason)
	}
	if reasons := len(met); *samples >= 1000 && reasons < 18 {
		t.Errorf("only %d different answers were met: the samples leave constraints out", reasons)
	}
}

// ourRefusals returns the simulator's refusals.
func ourRefusals(c *sample) map[string][]string {
	spec := simulate.Spec{
		Now: began, Others: copies(c.nodes), Pods: copies(append(slices.Clone(c.pods), c.waiting)), Namespaces: copies(c.namespaces),
		Claims: copies(c.claims), Volumes: copies(c.volumes), CSINodes: copies(c.csiNodes), ResourceClaims: copies(c.resourceClaims),
		Outdated: func(*corev1.Node) bool { return false },
	}
	return simulate.New(spec).Refusals(types.NamespacedName{Namespace: c.waiting.Namespace, Name: c.waiting.Name})
}

// copies returns trimmed copies.
func copies[P interface{ DeepCopy() P }](all []P) []P {
	var copied []P
	for _, object := range all {
		object = object.DeepCopy()
		trim.Object(object)
		copied = append(copied, object)
	}
	return copied
}

// hasSameRefusals compares the reasons in any order: kube-scheduler gives those of scalar resources in no fixed order.
func hasSameRefusals(got, want map[string][]string) bool {
	return maps.EqualFunc(got, want, func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	})
}

// show returns the sample as YAML.
func show(c *sample) string {
	text, err := yaml.Marshal([]any{c.nodes, c.pods, c.waiting, c.namespaces, c.csiNodes})
	if err != nil {
		return err.Error()
	}
	return string(text)
}
