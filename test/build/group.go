package build

import (
	"fmt"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// ZoneSizes returns the number of the group's instances that are not being terminated, by the last part of the zone's name: "a:3 b:2".
func ZoneSizes(group *nodegroup.Group) string {
	sizes := map[string]int{}
	for _, instance := range group.Instances {
		if instance.State != nodegroup.InstanceLeaving {
			sizes[instance.Zone]++
		}
	}
	var parts []string
	for _, zone := range group.Zones {
		parts = append(parts, fmt.Sprintf("%s:%d", zone[strings.LastIndex(zone, "-")+1:], sizes[zone]))
	}
	return strings.Join(parts, " ")
}
