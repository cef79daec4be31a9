package aws

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
)

// providerIDPattern matches the provider ID of an EC2 node. It ends with the instance ID: i- and then 8 or 17 hexadecimal
// digits. The provider ID of a Fargate node does not match.
var providerIDPattern = cloud.CompileLater(`^aws:///?(?:([^/]*)/)?(i-[0-9a-f]{8,17})$`)

// ParseProviderID splits the spec.providerID of a node, aws:///us-east-1a/i-0123456789abcdef0, into zone and instance. The zone is
// "" if the ID has no zone. ok is false if the ID is not that of an EC2 instance. (Forms: cloud-provider-aws,
// pkg/providers/v1/instances.go.)
func ParseProviderID(id string) (zone, instance string, ok bool) {
	found := providerIDPattern().FindStringSubmatch(id)
	if found == nil {
		return "", "", false
	}
	return found[1], found[2], true
}

// zoneRegionPattern matches the region at the beginning of a zone's name: us-east-1a, us-gov-west-1b, the
// local zone us-east-1-bos-1a and the Wavelength zone us-east-1-wl1-bos-wlz-1.
var zoneRegionPattern = cloud.CompileLater(`^[a-z]+(?:-[a-z]+)+?-[0-9]+`)

// RegionOf returns the region of the nodes, "" if no node shows its region. The region label takes precedence over the zone in
// the provider ID.
func RegionOf(nodes []*corev1.Node) string {
	region := ""
	for _, node := range nodes {
		zone, _, ok := ParseProviderID(node.Spec.ProviderID)
		if !ok {
			continue
		}
		if label := node.Labels[corev1.LabelTopologyRegion]; label != "" {
			return label
		}
		if region == "" {
			region = zoneRegionPattern().FindString(zone)
		}
	}
	return region
}

// instancesIn lists the IDs of the nodes' instances in the region, in the order of the nodes. It returns an error if all
// instances are in other regions.
func instancesIn(region string, nodes []*corev1.Node) ([]string, error) {
	var here []string
	elsewhere := ""
	for _, node := range nodes {
		zone, instance, ok := ParseProviderID(node.Spec.ProviderID)
		switch {
		case !ok:
		case zone == "" || strings.HasPrefix(zone, region):
			here = append(here, instance)
		default:
			elsewhere = zone
		}
	}
	if len(here) == 0 && elsewhere != "" {
		return nil, fmt.Errorf("the nodes are in zone %s and the AWS configuration names region %s: set AWS_REGION=%s",
			elsewhere, region, zoneRegionPattern().FindString(elsewhere))
	}
	return here, nil
}
