package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// domains are the values of a topology key, as one workload sees them: only those of nodes that it may run on.
type domains struct {
	// open are the domains with a node that takes new pods, outdated are the domains with an outdated node.
	open, outdated map[string]bool
	// pods is the number of the workload's pods in each domain.
	pods map[string]int
}

func (s *Scene) findDomains(w *Workload, key string) domains {
	d := domains{open: map[string]bool{}, outdated: map[string]bool{}, pods: s.countByDomain(w, key)}
	may := placementOf(w.Model())
	for _, node := range s.Nodes {
		domain, has := node.Labels[key]
		switch {
		case !has:
		case s.outdated[node.Name] && may.selectsNode(node):
			d.outdated[domain] = true
		case !s.outdated[node.Name] && !node.Spec.Unschedulable && may.canRunOn(node):
			d.open[domain] = true
		}
	}
	return d
}

// countByDomain returns the number of the workload's pods for each value of the nodes' label.
func (s *Scene) countByDomain(w *Workload, key string) map[string]int {
	pods := map[string]int{}
	for _, pod := range w.Pods {
		node := s.nodes[pod.Spec.NodeName]
		if node == nil || pod.DeletionTimestamp != nil {
			continue
		}
		if domain, has := node.Labels[key]; has {
			pods[domain]++
		}
	}
	return pods
}

// closedDomains returns the domains without a node that takes new pods, those with the most pods first.
func (d *domains) closedDomains() []string {
	var fenced []string
	for domain := range d.outdated {
		if !d.open[domain] {
			fenced = append(fenced, domain)
		}
	}
	slices.SortFunc(fenced, func(a, b string) int { return cmp.Or(d.pods[b]-d.pods[a], strings.Compare(a, b)) })
	return fenced
}

// crowdedMoment is a moment of an upgrade at which there are too few domains for the pods.
type crowdedMoment struct {
	pods, domains, missing int
	// hasNoNode is true if no node stays and none is added first, so that no pod finds a node at that moment.
	hasNoNode bool
}

// findWorstCrowding returns the worst moment at which not all pods of the workload can be placed, nil if there is none. most is how
// many pods a domain may have. At that moment pods wait until a node is added, and if a budget counts them, the drain waits too.
//
// Counting is enough: if fewer than domains × most pods are placed, one of the domains has room. Nodes are drained in the worst
// order, the ones with the most pods first. As many nodes as the window allows are drained concurrently. Each removed node is
// replaced, unless the users have added all nodes already.
func (s *Scene) findWorstCrowding(w *Workload, key string, most int) *crowdedMoment {
	d := s.findDomains(w, key)
	fenced, surge := d.closedDomains(), s.countAddedFirst()
	if key != corev1.LabelHostname && (surge >= len(fenced) || s.World.Request.TakesTurns() && surge > 0) {
		return nil // each domain gets a new node before its drain
	}
	placed, worst := 0, (*crowdedMoment)(nil)
	for domain := range d.open {
		placed += d.pods[domain]
	}
	for i, domain := range fenced {
		if d.pods[domain] == 0 {
			break
		}
		placed += d.pods[domain]
		replaced := max(0, i+1-max(1, s.World.Request.Window))
		if s.hasAllNodes() {
			replaced = 0
		}
		room := len(d.open) + max(surge, min(surge+replaced, len(s.outdated)))
		if missing := (placed - room*most + most - 1) / most; missing > 0 && (worst == nil || missing > worst.missing) {
			worst = &crowdedMoment{pods: placed, domains: room, missing: missing, hasNoNode: len(d.open) == 0 && surge == 0}
		}
	}
	return worst
}

// hasAllNodes reports whether no more nodes are expected to join the group: users add them, and either have added some or the
// upgrade does not wait for them. Forecasts assume the same.
func (s *Scene) hasAllNodes() bool {
	isCurrent := func(m nodegroup.Member) bool { return !m.Outdated }
	return s.World.Group.Can.Refill == nodegroup.RefillByUser && (!s.World.Request.WaitReplacement || slices.ContainsFunc(s.World.Members, isCurrent))
}

// countAddedFirst returns how many nodes the upgrade adds before it drains the first one.
func (s *Scene) countAddedFirst() int {
	if s.World.Request.ReplacedBy().Traits().ByAutoscaler {
		return len(s.outdated) // an autoscaler adds nodes for pods that wait
	}
	return s.World.Request.Surge
}

// describe returns the moment in words: "5 pods would have to share 2 nodes".
func (c *crowdedMoment) describe(key string) string {
	return fmt.Sprintf("%s would have to share %s", formatCount(c.pods, "pod"), formatCount(c.domains, nameDomain(key)))
}

// nameDomain returns the word for a domain of the key.
func nameDomain(key string) string {
	switch {
	case key == corev1.LabelHostname:
		return "node"
	case slices.Contains(zoneKeys(), key):
		return "zone"
	default:
		return "value of " + key
	}
}

// formatCount returns a number with its noun: "1 node", "2 nodes", "2 values of rack".
func formatCount(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	head, rest, _ := strings.Cut(thing, " ")
	return strings.TrimSpace(fmt.Sprintf("%d %ss %s", n, head, rest))
}

// findExtremes returns the domains with the most and with the fewest pods in which the workload may run. fair is the maximum in
// each domain if the pods were spread evenly. Nodes without a pod are left out, because they may be new.
func (d *domains) findExtremes(key string) (fullest, emptiest string, fair int) {
	union := maps.Clone(d.open)
	maps.Copy(union, d.outdated)
	all, total := slices.Sorted(maps.Keys(union)), 0
	if key == corev1.LabelHostname {
		all = slices.DeleteFunc(all, func(domain string) bool { return d.pods[domain] == 0 })
	}
	if len(all) == 0 {
		return "", "", 0
	}
	byPods := func(a, b string) int { return d.pods[a] - d.pods[b] }
	for _, domain := range all {
		total += d.pods[domain]
	}
	return slices.MaxFunc(all, byPods), slices.MinFunc(all, byPods), (total + len(all) - 1) / len(all)
}
