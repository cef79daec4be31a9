package stage

import (
	"cmp"
	"fmt"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// Images of the two revisions a stage knows.
const (
	OldImage = "ami-0aaaaaaaaaaaaaaa1"
	NewImage = "ami-0bbbbbbbbbbbbbbb2"
)

// Group describes an Auto Scaling group whose template has a newer version than its instances.
type Group struct {
	Name string
	// Zones and Counts say where its nodes are.
	Zones  []string
	Counts []int
	// Max is its maximum size; 0 for the number of its nodes.
	Max int
	// Suspended processes, from the start.
	Suspended []string
	// Version of the template that the group launches; "" for the newer one, "2".
	Version string
	// Current makes the instances current from the start.
	Current bool
	// More, unless nil, may change what the group is created from.
	More func(*awscloud.GroupSpec)
}

// AddGroup creates a launch template of two versions and a group on the newer, with instances of the older.
func (s *Stage) AddGroup(g Group) error {
	labels := "--node-labels=pool=" + g.Name
	s.Cloud.AddImage(OldImage, "v1.35.4", "x86_64")
	s.Cloud.AddImage(NewImage, "v1.36.1", "x86_64")
	template := s.Cloud.AddTemplate(g.Name,
		awscloud.TemplateVersion{Image: OldImage, InstanceType: "m7i.large", UserData: labels + ",image=" + OldImage},
		awscloud.TemplateVersion{Image: NewImage, InstanceType: "m7i.large", UserData: labels + ",image=" + NewImage},
	)
	size := 0
	for _, n := range g.Counts {
		size += n
	}
	initial := 1
	if g.Current {
		initial = 2
	}
	spec := awscloud.GroupSpec{
		Name: g.Name, Zones: g.Zones, Counts: g.Counts, Min: 1, Max: max(g.Max, size),
		Template: awscloud.TemplateRef{ID: template, Version: cmp.Or(g.Version, "2")}, InitialVersion: initial, Suspended: g.Suspended,
	}
	if g.More != nil {
		g.More(&spec)
	}
	if err := s.Cloud.AddGroup(spec); err != nil {
		return fmt.Errorf("creating group %q: %w", g.Name, err)
	}
	return nil
}
