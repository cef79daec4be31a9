package nodegroup

import "net/netip"

// Subnet is where machines, and on some networks their pods, take their addresses from.
type Subnet struct {
	Zone string
	CIDR netip.Prefix
	// Free is how many addresses no one has.
	Free int
}

// Contains tells whether an address, which may be none, is one of the subnet's.
func (s Subnet) Contains(address string) bool {
	parsed, err := netip.ParseAddr(address)
	return err == nil && s.CIDR.Contains(parsed)
}
