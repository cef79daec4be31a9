package preflight_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestMissingSubnetAddressesAreFound checks free addresses before nodes are added (G41). Zone a has three outdated nodes and a current
// one. Each of the first two has two pods with addresses of the subnet. Zone b has one outdated node.
func TestMissingSubnetAddressesAreFound(t *testing.T) {
	subnet := func(zone, cidr string, free int) nodegroup.Subnet {
		return nodegroup.Subnet{Zone: zone, CIDR: netip.MustParsePrefix(cidr), Free: free}
	}
	const own, overlay = "10.0.0.0/19", "192.168.0.0/16"
	cases := map[string]struct {
		surge    int
		strategy record.Strategy
		subnets  []nodegroup.Subnet
		says     string
	}{
		"NG004 nodes and their pods":        {2, record.Surge, []nodegroup.Subnet{subnet("a", own, 5)}, "zone a: needs up to 6 addresses for new nodes and their pods, but its subnets have only 5 free: lower --max-surge, which is 2, or free addresses"},
		"NG004 each gets one beside it":     {4, record.BlueGreen, []nodegroup.Subnet{subnet("a", own, 6)}, "needs up to 7 addresses"},
		"NG004 pods have addresses else":    {4, record.BlueGreen, []nodegroup.Subnet{subnet("a", overlay, 2)}, "needs up to 3 addresses"},
		"NG004 two subnets of a zone":       {2, record.Surge, []nodegroup.Subnet{subnet("a", own, 3), subnet("a", overlay, 2)}, "have only 5 free"},
		"NG004 the zone that lacks them":    {4, record.BlueGreen, []nodegroup.Subnet{subnet("a", own, 7), subnet("b", own, 0)}, "zone b: needs up to 1 addresses for new nodes and their pods, but its subnets have only 0 free: free addresses"},
		"as many as are needed":             {2, record.Surge, []nodegroup.Subnet{subnet("a", own, 6)}, ""},
		"nothing is added":                  {0, record.Surge, []nodegroup.Subnet{subnet("a", own, 0)}, ""},
		"the group replaces what has ended": {2, record.ShortLived, []nodegroup.Subnet{subnet("a", own, 0)}, ""},
		"no one says":                       {2, record.Surge, nil, ""},
	}
	members := []nodegroup.Member{
		{Node: build.Node("a-1", "a"), Outdated: true, Pods: withAddresses("10.0.0.7", "10.0.0.8", "")},
		{Node: build.Node("a-2", "a"), Outdated: true, Pods: withAddresses("10.0.1.7", "10.0.1.8")},
		{Node: build.Node("a-3", "a"), Outdated: true},
		{Node: build.Node("a-4", "a"), Pods: withAddresses("10.0.1.9", "10.0.1.10", "10.0.1.11")},
		{Node: build.Node("b-1", "b"), Outdated: true},
	}
	host := withAddresses("10.0.2.1")[0]
	host.Spec.HostNetwork = true
	members[2].Pods = []*corev1.Pod{host}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found := preflight.CheckAddresses(members, &record.Request{Surge: c.surge, Strategy: c.strategy}, c.subnets)
			if c.says == "" && len(found) > 0 || c.says != "" && (len(found) != 1 || !strings.Contains(found[0].String(), c.says)) {
				t.Errorf("got %v, want %q", found, c.says)
			}
		})
	}
}

func withAddresses(addresses ...string) (pods []*corev1.Pod) {
	for i, address := range addresses {
		pods = append(pods, build.Pod(fmt.Sprintf("web-%d", i), func(p *corev1.Pod) { p.Status.PodIP = address }))
	}
	return pods
}
