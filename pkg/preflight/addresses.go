package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// ruleAddresses is the rule of CheckAddresses.
const ruleAddresses = "NG004"

// CheckAddresses implements rule NG004: a zone has fewer free addresses than the nodes that may be
// added there need (GKE G41). A new node needs one address for itself. It needs one more for each
// pod of the node it replaces that has an address in the zone's subnets, as with the Amazon VPC
// CNI.
func CheckAddresses(members []nodegroup.Member, r *record.Request, subnets []nodegroup.Subnet) []Finding {
	if r.ReplacedBy().Traits().Expires {
		return nil
	}
	free := map[string]int{}
	for _, s := range subnets {
		free[s.Zone] += s.Free
	}
	var found []Finding
	for _, zone := range slices.Sorted(maps.Keys(free)) {
		needed := countNeededAddresses(members, zone, subnets, r.Surge)
		if needed <= free[zone] {
			continue
		}
		found = append(found, Finding{
			Rule: ruleAddresses, Severity: Warn, Object: "zone " + zone,
			Message: fmt.Sprintf("needs up to %d addresses for new nodes and their pods, but its subnets have only %d free", needed, free[zone]),
			Remedy:  describeAddressRemedy(r),
		})
	}
	return found
}

func describeAddressRemedy(r *record.Request) string {
	const free = "free addresses: until then new nodes or their pods stay Pending"
	if r.Strategy.Traits().TakesWidth {
		return fmt.Sprintf("lower --max-surge, which is %d, or %s", r.Surge, free)
	}
	return free
}

// countNeededAddresses returns the maximum number of addresses that new nodes in a zone need while its
// outdated nodes still exist.
func countNeededAddresses(members []nodegroup.Member, zone string, subnets []nodegroup.Subnet, surge int) (addresses int) {
	var taken []int
	for i := range members {
		if m := &members[i]; m.Outdated && m.Zone() == zone {
			taken = append(taken, 1+countAddresses(m, subnets))
		}
	}
	slices.SortFunc(taken, func(a, b int) int { return cmp.Compare(b, a) })
	for _, n := range taken[:min(surge, len(taken))] {
		addresses += n
	}
	return addresses
}

// countAddresses returns the number of the member's pods that have their own address in one of the
// subnets.
func countAddresses(m *nodegroup.Member, subnets []nodegroup.Subnet) (n int) {
	for _, pod := range m.Pods {
		if !pod.Spec.HostNetwork && slices.ContainsFunc(subnets, func(s nodegroup.Subnet) bool { return s.Contains(pod.Status.PodIP) }) {
			n++
		}
	}
	return n
}
