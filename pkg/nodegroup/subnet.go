package nodegroup

import "net/netip"

// Subnet is a subnet from which machines, and on some networks pods, get their addresses.
type Subnet struct {
	Zone string
	CIDR netip.Prefix
	// Free is the number of free addresses.
	Free int
}

// Contains reports whether the address is in the subnet. It returns false for "".
func (s Subnet) Contains(address string) bool {
	parsed, err := netip.ParseAddr(address)
	return err == nil && s.CIDR.Contains(parsed)
}
