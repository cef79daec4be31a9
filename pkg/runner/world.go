package runner

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// memberCache is the group's members, joined from the nodes. The next step can often use them
// again.
type memberCache struct {
	nodes   []*corev1.Node
	members []nodegroup.Member
}

// isJoinedFrom reports whether the members were joined from these nodes. All views share one list
// until a node changes.
func (r *memberCache) isJoinedFrom(nodes []*corev1.Node) bool {
	return len(r.nodes) > 0 && len(nodes) == len(r.nodes) && &nodes[0] == &r.nodes[0]
}

// joinMembers returns the group's members among the nodes.
func (s *run) joinMembers(all []*corev1.Node) []nodegroup.Member {
	var nodes []*corev1.Node
	for _, node := range all {
		if s.Cloud.Belongs(&s.Group, node) || s.isDrainStarted(node) {
			nodes = append(nodes, node)
		}
	}
	members := nodegroup.JoinMembers(s.Group, nodes, func(n *corev1.Node) bool { return s.Cloud.Outdated(&s.Group, n) })
	upgrade.MarkOutdatedByLabels(&s.Group, members, &s.Record)
	for i := range members {
		members[i].CacheTraits(&s.Group)
	}
	return members
}

// isDrainStarted reports whether the node's drain has begun, whatever its labels are now. The node
// must carry the run's fence, too: other users can write the record, and it must not be able to add
// nodes to the group.
func (s *run) isDrainStarted(node *corev1.Node) bool {
	record, started := s.Record.Nodes[node.Name]
	return started && record.UID == node.UID && node.Annotations[nodemark.AnnotationRun] == s.Record.Run &&
		nodemark.HasTaint(node, nodegroup.FenceTaint(s.Group.Provider))
}

// isDeploymentRestart reports whether the action restarts a Deployment. Only the answer shows its end,
// because the pod that it moves may stay for long.
func isDeploymentRestart(action nodegroup.Action) bool {
	_, restart := action.(schedule.Restart)
	return restart
}

// observeWorld returns everything that is known now.
func (s *run) observeWorld() upgrade.World {
	view := s.Cluster.View()
	if !s.memberCache.isJoinedFrom(view.Nodes) {
		s.memberCache = memberCache{view.Nodes, s.joinMembers(view.Nodes)}
	}
	members := s.memberCache.members
	for i := range members {
		if members[i].Node != nil {
			members[i].Pods = view.Pods[members[i].Node.Name]
		}
	}
	now := s.now()
	for key, attempt := range s.attempts {
		if !attempt.InFlight && now.Sub(attempt.Ended) > attemptMemory && !isDeploymentRestart(attempt.Action) {
			delete(s.attempts, key)
		}
	}
	world := upgrade.NewWorld(now, s.Group, members, &view, s.Record)
	world.Request, world.Open, world.Notes, world.EvictionsAtOnce = s.Request, s.attempts, s.notes, maxClusterRequests
	world.Movable, world.Controllers = s.Movable, maps.Clone(s.controllers.known)
	world.Targets = s.Targets
	world.Memo = &s.memo
	world.Stop, world.Asked, world.Stay = s.stopping, s.Requests.CurrentRequest(), s.WaitForSoak
	return world
}
