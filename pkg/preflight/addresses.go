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

// CheckAddresses is NG004: a zone has fewer free addresses than the nodes that may be added there
// take (GKE G41). A new node takes one, and one for each pod of the node it replaces whose address
// is of the zone's subnets, as those of the Amazon VPC CNI are.
func CheckAddresses(members []nodegroup.Member, r *record.Request, subnets []nodegroup.Subnet) []Finding {
	if r.Strategy.Traits().Expires {
		return nil
	}
	free := map[string]int{}
	for _, s := range subnets {
		free[s.Zone] += s.Free
	}
	var found []Finding
	for _, zone := range slices.Sorted(maps.Keys(free)) {
		needed := countNeeded(members, zone, subnets, r.Surge)
		if needed <= free[zone] {
			continue
		}
		found = append(found, Finding{
			Rule: ruleAddresses, Severity: Warn, Object: "zone " + zone,
			Message: fmt.Sprintf("needs up to %d addresses for new nodes and their pods, and has %d free in its subnets", needed, free[zone]),
			Remedy:  describeAddressRemedy(r),
		})
	}
	return found
}

func describeAddressRemedy(r *record.Request) string {
	const free = "free addresses: until then new nodes or their pods wait"
	if r.Strategy.Traits().TakesWidth {
		return fmt.Sprintf("add fewer at a time with --max-surge, which is %d, or %s", r.Surge, free)
	}
	return free
}

// countNeeded is the most addresses that nodes take which are added to a zone beside its outdated
// ones.
func countNeeded(members []nodegroup.Member, zone string, subnets []nodegroup.Subnet, surge int) (addresses int) {
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

// countAddresses counts the pods of a member that have an address of their own in one of the
// subnets.
func countAddresses(m *nodegroup.Member, subnets []nodegroup.Subnet) (n int) {
	for _, pod := range m.Pods {
		if !pod.Spec.HostNetwork && slices.ContainsFunc(subnets, func(s nodegroup.Subnet) bool { return s.Contains(pod.Status.PodIP) }) {
			n++
		}
	}
	return n
}
