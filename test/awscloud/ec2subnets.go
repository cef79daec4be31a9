package awscloud

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// subnetSize is the number of addresses for machines in a /19 subnet. EC2 reserves five addresses.
const subnetSize = 1<<13 - 5

type ec2Subnet struct {
	SubnetID string `xml:"subnetId"`
	State    string `xml:"state"`
	CIDR     string `xml:"cidrBlock"`
	Free     int    `xml:"availableIpAddressCount"`
	Zone     string `xml:"availabilityZone"`
	ZoneID   string `xml:"availabilityZoneId"`
}

type ec2Subnets struct {
	XMLName struct{}    `xml:"subnetSet"`
	Subnets []ec2Subnet `xml:"item"`
}

// describeSubnets lists the subnet of each zone that has had an instance.
func (r *region) describeSubnets(form ec2Form, _ time.Time) (ec2Answer, error) {
	out := []ec2Subnet{}
	for _, zone := range slices.Sorted(maps.Keys(r.addresses)) {
		s := ec2Subnet{
			SubnetID: subnetID(zone), State: "available", CIDR: fmt.Sprintf("10.0.%d.0/19", zoneIndex(zone)*32), Free: r.freeAddresses(zone),
			Zone: zone, ZoneID: zoneID(zone),
		}
		ok, err := matchesFilters(form.filters(), map[string]string{
			"subnet-id": s.SubnetID, "state": s.State, "cidr-block": s.CIDR, "availability-zone": s.Zone,
		}, nil)
		if err != nil {
			return ec2Answer{}, err
		}
		if ok {
			out = append(out, s)
		}
	}
	out, next, err := ec2Page(out, form, 5, 1000)
	return ec2Answer{Content: ec2Subnets{Subnets: out}, NextToken: next}, err
}

// freeAddresses returns the number of free addresses in the zone's subnet.
func (r *region) freeAddresses(zone string) int {
	free := subnetSize - r.otherAddresses[zone]
	for _, i := range r.instances {
		if i.zone == zone && i.power != powerTerminated {
			free--
		}
	}
	return free
}

// SetFreeAddresses leaves n addresses free in the subnet of a zone, as if other machines used the other addresses. A launch
// without a free address fails with InsufficientFreeAddressesInSubnet.
func (c *Cloud) SetFreeAddresses(zone string, n int) {
	_ = c.home.update(func(time.Time) error {
		c.home.otherAddresses[zone] += c.home.freeAddresses(zone) - n
		return nil
	})
}
