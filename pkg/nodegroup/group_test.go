package nodegroup_test

import (
	"maps"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// TestRequiredLabelsAreAddedToLabelsOfProvider: the user's labels are added to the provider's (EKS E27).
func TestRequiredLabelsAreAddedToLabelsOfProvider(t *testing.T) {
	shared := map[string]string{"tier": "a"}
	g := nodegroup.Group{Can: nodegroup.FullControl(), WantedLabels: shared}
	own := map[string]string{"version": "7", "image": "ami-1"}
	g.RequireLabels(own)
	g.RequireLabels(map[string]string{"image": "ami-2"})
	if want := map[string]string{"version": "7", "image": "ami-2"}; !maps.Equal(g.CurrentLabels, want) {
		t.Errorf("current nodes carry %v, want %v", g.CurrentLabels, want)
	}
	if want := map[string]string{"tier": "a", "version": "7", "image": "ami-2"}; !maps.Equal(g.WantedLabels, want) {
		t.Errorf("usable nodes carry %v, want %v", g.WantedLabels, want)
	}
	if len(shared) != 1 || own["image"] != "ami-1" {
		t.Errorf("the maps that were given changed: %v, %v", shared, own)
	}
	nodes := nodegroup.Group{}
	if nodes.RequireLabels(own); nodes.CurrentLabels != nil {
		t.Error("a group without machines has labels of its own")
	}
}
