package report

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func TestValuesAreConvertedToKebabCase(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "succeeded": "succeeded", "left-behind": "left-behind", "scale up": "scale-up", "create green": "create-green", "Draining": "draining",
		"PodEvictionFailure": "pod-eviction-failure",
	} {
		if got := KebabCase(value); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}

// TestDocumentsShowPhasesAndResultsInKebabCase checks each kind of document. The original document does not change.
func TestDocumentsShowPhasesAndResultsInKebabCase(t *testing.T) {
	ends := &PlanEnds{Fast: simulate.Ending{Result: record.PodEvictionFailure}, Slow: simulate.Ending{Result: record.WorkloadUnhealthy}}
	status := UpgradeStatus{
		Result: record.NodeCreationFailure, TimeLeft: TimeLeft{RemainingEnds: ends},
		Status: record.Status{Phase: record.PhaseScaleUp, Nodes: []record.NodeStatus{{State: record.NodeDraining}}},
	}
	const endings = "pod-eviction-failure workload-unhealthy "
	for want, document := range map[string]runtime.Object{
		"scale-up":          &NodeGroupList{Items: []NodeGroup{{Phase: string(record.PhaseScaleUp)}}},
		endings + "(plan)":  &Plan{Ends: ends},
		endings + "(plans)": &PlanList{Items: []Plan{{Ends: ends}}},
		endings + "node-creation-failure scale-up draining":        &status,
		endings + "node-creation-failure scale-up draining (list)": &List[UpgradeStatus]{Items: []UpgradeStatus{status}},
		"workload-unhealthy": &Comparison{Ways: []Way{{WayForecast: &WayForecast{Result: record.WorkloadUnhealthy}}}},
	} {
		before := encodeDocument(t, document)
		got := encodeDocument(t, KebabCaseValues(document))
		for _, value := range []string{"PodEvictionFailure", "WorkloadUnhealthy", "NodeCreationFailure", "scale up", "Draining"} {
			if strings.Contains(got, value) {
				t.Errorf("%s has %q", got, value)
			}
		}
		for _, value := range strings.Fields(want) {
			if !strings.HasPrefix(value, "(") && !strings.Contains(got, `"`+value+`"`) {
				t.Errorf("%s has no %q", got, value)
			}
		}
		if after := encodeDocument(t, document); after != before {
			t.Errorf("the document itself was changed: got %s, want %s", after, before)
		}
	}
}

func encodeDocument(t *testing.T, document runtime.Object) string {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
