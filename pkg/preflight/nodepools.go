package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// nodePoolRules returns the rules about Karpenter's NodePools. They apply to groups whose nodes belong to one.
func nodePoolRules() []Rule {
	return []Rule{
		{
			ID: "KRP001", Severity: Warn, find: ofNodePool(findUnlimitedDrift),
			Text:   "At some time of the next seven days no budget of the NodePool limits how many drifted nodes Karpenter replaces at once. A budget with a schedule limits only while it is active. The rest of the time it does not count.",
			Source: "karpenter, apis/v1/nodepool.go; karpenter-provider-aws#7842",
		},
		{
			ID: "KRP002", Severity: Error, find: ofNodePool(findClosedPool),
			Text:   "The budgets of the NodePool never allow Karpenter to replace a drifted node, or one of them cannot be read. Its nodes stay outdated until they expire.",
			Source: "karpenter, apis/v1/nodepool.go",
		},
		{
			ID: "KRP003", Severity: Warn, find: ofNodePool(findKeptNodes),
			Text:   "An annotation of a node, or of a pod on it, keeps Karpenter from replacing the node when it has drifted. One pod keeps the whole node. Budgets that are closed have rules of their own.",
			Source: "karpenter, state/statenode.go, utils/pod/scheduling.go; karpenter#1176, karpenter#1961",
		},
		{
			ID: "KRP004", Severity: Error, find: ofNodePool(findEndlessDrains),
			Text:   "Karpenter has begun to terminate a node, which cannot be taken back, and an annotation of a pod on it keeps the drain from ending. Without a terminationGracePeriod it waits without end.",
			Source: "karpenter, node/termination/terminator.go; open-bank-oss#9691",
		},
		{
			ID: "KRP005", Severity: Warn, find: ofNodePool(findShortGrace),
			Text:   "The NodeClaim's terminationGracePeriod is shorter than the grace period of a pod. Karpenter deletes the pod past its budgets so early that it ends within that time, and if it is longer than the whole time, the pod is killed.",
			Source: "karpenter, apis/v1/nodepool.go, node/termination/eviction.go",
		},
		{
			ID: "KRP006", Severity: Warn, find: ofNodePool(findExpiringNodes),
			Text:   "Nodes expire within a day. Karpenter then terminates them past the NodePool's budgets, and begins to drain them before their replacements are ready.",
			Source: "karpenter, nodeclaim/expiration/controller.go; karpenter#1750",
		},
		{
			ID: "KRP007", Severity: Error, find: ofNodePool(findLimitsReached),
			Text:   "The NodePool's limits leave no room for one more node of the size that its nodes have. Karpenter launches the replacement of a drifted node first, so it replaces none whose pods need one.",
			Source: "karpenter, apis/v1/nodepool.go, provisioning/scheduling",
		},
		{
			ID: "KRP008", Severity: Error, find: ofNodePool(findUnlaunched),
			Text:   "A NodeClaim has had no machine for more than a minute. As long as there is one, Karpenter disrupts no node of any NodePool.",
			Source: "karpenter, state/cluster.go; this project",
		},
	}
}

// poolScene is the NodePool of a group with its NodeClaims.
type poolScene struct {
	*Scene
	pool   *nodepool.NodePool
	claims []*nodepool.NodeClaim
}

// ofNodePool calls find with the NodePool of the group. It finds nothing for groups whose nodes are not Karpenter's. If NodePools or
// NodeClaims were not read, the finding is that.
func ofNodePool(find func(*poolScene) []Finding) func(*Scene) []Finding {
	return func(s *Scene) []Finding {
		name := s.nodePoolName()
		if name == "" {
			return nil
		}
		if why := s.DescribeUnread("nodepools", "nodeclaims"); why != "" {
			return []Finding{{Severity: Unknown, Message: "not checked: " + why}}
		}
		i := slices.IndexFunc(s.NodePools, func(p *nodepool.NodePool) bool { return p.Name == name })
		if i < 0 {
			return []Finding{{Severity: Unknown, Message: "not checked: there is no NodePool " + name + " of " + nodepool.APIVersion}}
		}
		own := slices.DeleteFunc(slices.Clone(s.NodeClaims), func(c *nodepool.NodeClaim) bool { return c.PoolName() != name })
		return find(&poolScene{s, s.NodePools[i], own})
	}
}

// nodePoolName returns the name of the NodePool that all nodes of the group belong to, "" if they belong to none.
func (s *Scene) nodePoolName() string {
	name := ""
	for i := range s.World.Members {
		node := s.World.Members[i].Node
		if node == nil {
			continue
		}
		if own := node.Labels[nodepool.Label]; own == "" || name != "" && own != name {
			return ""
		}
		name = node.Labels[nodepool.Label]
	}
	return name
}

// object returns the pool's name for findings.
func (s *poolScene) object() string { return "NodePool " + s.pool.Name }

// countNodes returns the number of nodes of which the percentages of budgets are taken.
func (s *poolScene) countNodes() int {
	n := 0
	for _, c := range s.claims {
		if c.IsInitialized() {
			n++
		}
	}
	return n
}

const (
	// week is how far KRP001 looks ahead, sight how far KRP002 does.
	week  = 7 * 24 * time.Hour
	sight = 35 * 24 * time.Hour
	// day is the time within which KRP006 reports expiring nodes.
	day = 24 * time.Hour
)

// formatMoment returns a time for findings. Karpenter's schedules are in UTC.
func formatMoment(t time.Time) string { return t.UTC().Format("Mon 2006-01-02 15:04 UTC") }

// findUnlimitedDrift implements rule KRP001.
func findUnlimitedDrift(s *poolScene) []Finding {
	nodes := s.countNodes()
	changes := s.pool.Changes(s.World.Now, s.World.Now.Add(week), nodes)
	i := slices.IndexFunc(changes, func(c nodepool.Change) bool { return c.Allowed == nodepool.Unlimited })
	if i < 0 || nodes < 2 {
		return nil
	}
	message := fmt.Sprintf("from %s", formatMoment(changes[i].At))
	if i == 0 {
		message = "now"
	}
	if i+1 < len(changes) {
		message += " until " + formatMoment(changes[i+1].At)
	}
	return []Finding{{
		Object:  s.object(),
		Message: fmt.Sprintf("%s no budget limits how many of its %d drifted nodes Karpenter replaces at once", message, nodes),
		Remedy:  `add a budget without a schedule, for example nodes: "1"`,
	}}
}

// findClosedPool implements rule KRP002.
func findClosedPool(s *poolScene) []Finding {
	nodes := max(s.countNodes(), 1)
	f := Finding{Object: s.object(), Remedy: "correct spec.disruption.budgets"}
	if err := s.pool.FindUnreadable(nodes); err != nil {
		f.Message = "Karpenter replaces none of its nodes: " + err.Error()
		return []Finding{f}
	}
	opens := func(c nodepool.Change) bool { return c.Allowed > 0 }
	if slices.ContainsFunc(s.pool.Changes(s.World.Now, s.World.Now.Add(sight), nodes), opens) {
		return nil
	}
	f.Message = "its budgets allow no drifted node to be replaced in the next 35 days"
	return []Finding{f}
}

// claimOf returns the NodeClaim of a member, nil if there is none.
func (s *poolScene) claimOf(m *nodegroup.Member) *nodepool.NodeClaim {
	i := slices.IndexFunc(s.claims, func(c *nodepool.NodeClaim) bool { return m.Node != nil && c.Status.NodeName == m.Node.Name })
	if i < 0 {
		return nil
	}
	return s.claims[i]
}

// findKeptNodes implements rule KRP003.
func findKeptNodes(s *poolScene) []Finding {
	var found []Finding
	for i := range s.World.Members {
		m := &s.World.Members[i]
		claim := s.claimOf(m)
		if !m.Outdated || claim == nil || claim.IsLeaving() {
			continue
		}
		if drain.IsNodeKept(m.Node) {
			found = append(found, Finding{
				Object: "node " + m.Node.Name, Node: m.Node.Name, Message: "its annotation " + nodepool.Keep + " keeps Karpenter from replacing it",
				Remedy: "remove it", Fix: shell.Command("kubectl annotate node", m.Node.Name, nodepool.Keep+"-"),
			})
		}
		if _, limited := claim.GracePeriod(); limited {
			continue // drift begins in spite of the pods
		}
		found = append(found, s.findKeepers(m)...)
	}
	return found
}

// findKeepers returns a finding for each pod whose annotation keeps the node.
func (s *poolScene) findKeepers(m *nodegroup.Member) []Finding {
	var found []Finding
	for _, pod := range m.Pods {
		if o := drain.FindKeeper(pod, drain.Budgets{}, s.World.Now); o.Kind == drain.Keeps {
			found = append(found, Finding{
				Object: nameObject("pod", pod), Workload: s.workloadName(pod), Node: m.Node.Name,
				Message: o.String(), Remedy: "remove the annotation, or wait until the pod has ended",
			})
		}
	}
	return found
}

// workloadName returns the name of the pod's workload if the scene has it, "" otherwise.
func (s *poolScene) workloadName(pod *corev1.Pod) string {
	for _, w := range s.Workloads {
		if slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool { return p.UID == pod.UID }) {
			return w.String()
		}
	}
	return ""
}

// findEndlessDrains implements rule KRP004.
func findEndlessDrains(s *poolScene) []Finding {
	var found []Finding
	for i := range s.World.Members {
		m := &s.World.Members[i]
		claim := s.claimOf(m)
		if claim == nil || !claim.IsLeaving() {
			continue
		}
		if _, limited := claim.GracePeriod(); limited {
			continue
		}
		for _, f := range s.findKeepers(m) {
			f.Message = "Karpenter is terminating node " + m.Node.Name + ", which cannot be taken back, and waits for it without end: " + f.Message
			f.Remedy = "remove the annotation or delete the pod"
			found = append(found, f)
		}
	}
	return found
}

// findShortGrace implements rule KRP005.
func findShortGrace(s *poolScene) []Finding {
	var found []Finding
	told := map[types.UID]bool{}
	for i := range s.World.Members {
		m := &s.World.Members[i]
		claim := s.claimOf(m)
		if claim == nil {
			continue
		}
		limit, limited := claim.GracePeriod()
		for _, pod := range m.Pods {
			grace := pod.Spec.TerminationGracePeriodSeconds
			owner := drain.ControllerOf(pod)
			if !limited || grace == nil || time.Duration(*grace)*time.Second <= limit || told[owner] {
				continue
			}
			told[owner] = true
			found = append(found, Finding{
				Object: nameObject("pod", pod), Workload: s.workloadName(pod), Node: m.Node.Name,
				Message: fmt.Sprintf("its grace period of %s is longer than the terminationGracePeriod of its node, %s: Karpenter kills it", time.Duration(*grace)*time.Second, limit),
				Remedy:  "raise terminationGracePeriod in the template of NodePool " + s.pool.Name,
			})
		}
	}
	return found
}

// findExpiringNodes implements rule KRP006.
func findExpiringNodes(s *poolScene) []Finding {
	var first time.Time
	n := 0
	for _, c := range s.claims {
		at := c.ExpiresAt()
		if at.IsZero() || c.IsLeaving() || at.After(s.World.Now.Add(day)) {
			continue
		}
		if n++; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if n == 0 {
		return nil
	}
	return []Finding{{
		Object:  s.object(),
		Message: fmt.Sprintf("within a day Karpenter terminates %s because of their age, past all budgets, the first at %s", formatCount(n, "node"), formatMoment(first)),
		Remedy:  "let drift replace them before, or raise expireAfter",
	}}
}

// findLimitsReached implements rule KRP007.
func findLimitsReached(s *poolScene) []Finding {
	var smallest *corev1.Node
	for i := range s.World.Members {
		node := s.World.Members[i].Node
		if node != nil && (smallest == nil || node.Status.Capacity.Cpu().Cmp(*smallest.Status.Capacity.Cpu()) < 0) {
			smallest = node
		}
	}
	var short []string
	for name, limit := range s.pool.Spec.Limits {
		used := s.pool.Status.Resources[name].DeepCopy()
		if name == "nodes" {
			used.Add(resource.MustParse("1"))
		} else {
			used.Add(smallest.Status.Capacity[name])
		}
		if used.Cmp(limit) > 0 {
			short = append(short, fmt.Sprintf("%s (%s of %s used)", name, new(s.pool.Status.Resources[name]).String(), limit.String()))
		}
	}
	if len(short) == 0 {
		return nil
	}
	slices.Sort(short)
	return []Finding{{
		Object: s.object(), Message: "its limits leave no room for another node: " + strings.Join(short, ", "), Remedy: "raise spec.limits",
	}}
}

// findUnlaunched implements rule KRP008.
func findUnlaunched(s *poolScene) []Finding {
	var found []Finding
	for _, c := range s.NodeClaims {
		if !c.IsStalled(s.World.Now) {
			continue
		}
		message := fmt.Sprintf("it has had no machine for %s, so Karpenter replaces no node of any NodePool", s.World.Now.Sub(c.CreationTimestamp.Time).Round(time.Second))
		if why := c.WhyNotLaunched(); why != "" {
			message += ": " + why
		}
		found = append(found, Finding{Object: "NodeClaim " + c.Name, Message: message, Remedy: "correct its NodePool or NodeClass, or delete the NodeClaim"})
	}
	return found
}
