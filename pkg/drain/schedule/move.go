package schedule

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Restart moves the only ready pod of a Deployment without a gap, by the same rolling restart as kubectl rollout restart.
// It is a nodegroup.Action.
type Restart struct {
	Namespace, Deployment string
	UID                   types.UID
	// Pod is the UID of the pod to move. Node is its node.
	Pod  types.UID
	Node string
}

// Key implements nodegroup.Action.
func (r Restart) Key() string { return "restart/" + string(r.Pod) }

// String implements nodegroup.Action.
func (r Restart) String() string {
	return fmt.Sprintf("restart Deployment %s/%s to move its pod from node %s", r.Namespace, r.Deployment, r.Node)
}

// moveByRestart reports whether the pod leaves its node by a restart of its Deployment, and adds the restart if it was
// not accepted yet. If the restart is permanently refused, the pod is evicted instead.
func (p *Plan) moveByRestart(node *Node, pod *corev1.Pod) (moves bool) {
	if !p.canMove(node, pod) {
		return false
	}
	replicas := p.in.Workloads.Of(pod)
	if replicas == nil {
		return false
	}
	uid, why := p.in.Movable.FindDeployment(pod)
	restart := Restart{Namespace: pod.Namespace, Deployment: replicas.Name, UID: uid, Pod: pod.UID, Node: node.Name}
	attempt := p.in.Open[restart.Key()]
	begun := !attempt.Begun.IsZero() // once the restart has begun, the Deployment's controller deletes the pod
	if why != "" || isRestartGivenUp(attempt) || (!begun && !p.awaitOnlyReady(replicas, pod)) {
		return false
	}
	p.addBlocked(node, pod, drain.Obstacle{Kind: drain.Moving, Detail: describeSuccessor(replicas, attempt)})
	if !attempt.InFlight && attempt.Outcome != nodegroup.OutcomeDone && !p.in.Now.Before(attempt.NotBefore) {
		p.restarts = append(p.restarts, restart)
	}
	p.decideAgainAt(attempt.NotBefore)
	return true
}

// canMove reports whether the pod may be moved by a restart: it is ready, and it did not come up on the node after the
// drain began. Otherwise each restart would start another pod there (EKS E51).
func (p *Plan) canMove(node *Node, pod *corev1.Pod) bool {
	return p.in.Movable.IsKnown() && drain.Ready(pod) && returnOf(node, pod) == (Return{})
}

// awaitOnlyReady waits until the pod is known to be the workload's only ready pod.
func (p *Plan) awaitOnlyReady(r *drain.Replicas, pod *corev1.Pod) (known bool) {
	return r.Ready == 1 && (r.Most == 1 || p.awaitSuccessor(pod, p.lastReadyLimitOf(r.Workload)))
}

// maxRestarts limits how often the restart of a Deployment is tried that changes at the same time.
const maxRestarts = 3

func isRestartGivenUp(attempt nodegroup.Attempt) bool {
	return attempt.Outcome == nodegroup.OutcomeFatal || (attempt.Outcome == nodegroup.OutcomeMoved && attempt.Tries >= maxRestarts)
}

// describeSuccessor describes the new pod that the pod waits for, or why no new pod was requested.
func describeSuccessor(r *drain.Replicas, attempt nodegroup.Attempt) string {
	unready := r.Unready()
	switch {
	case attempt.Outcome == nodegroup.OutcomeLater:
		return "a restart of its Deployment is denied: " + attempt.Detail
	case len(unready) == 0:
		return "its Deployment is restarted to start another pod first"
	}
	first := slices.MinFunc(unready, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return fmt.Sprintf("pod %s must be ready first", first.Name)
}
