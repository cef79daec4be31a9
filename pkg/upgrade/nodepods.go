package upgrade

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// nodePods has one node's pods, classified for the drain.
type nodePods struct {
	drain.Leavers
	staying int
}

func (v *nodePods) countPodsLeft() int { return len(v.Evict) + len(v.Leaving) + len(v.Held) }

// uidsOfRunning returns the UIDs of the pods whose deletion has not begun.
func (v *nodePods) uidsOfRunning() []types.UID {
	var running []types.UID
	for _, pod := range slices.Concat(v.Evict, v.Held) {
		running = append(running, pod.UID)
	}
	return running
}

// classifyPods sorts the pods of a node by what its drain does with them. lost is true if the node counts as lost.
func classifyPods(pods []*corev1.Pod, policy drain.Policy, lost bool) *nodePods {
	v := &nodePods{}
	ready, unready := make([]*corev1.Pod, 0, len(pods)), []*corev1.Pod(nil)
	for _, pod := range pods {
		switch drain.Judge(pod, policy, lost).Fate {
		case drain.Go:
			if drain.Ready(pod) {
				ready = append(ready, pod)
			} else {
				unready = append(unready, pod)
			}
		case drain.Leaving:
			v.Leaving = append(v.Leaving, pod)
		case drain.Held:
			v.Held = append(v.Held, pod)
		default:
			v.staying++
		}
	}
	// Pods that are not ready use up no budget and go first. The order by name makes equal steps equal.
	slices.SortFunc(unready, comparePodNames)
	slices.SortFunc(ready, comparePodNames)
	v.Evict = ready
	if len(unready) > 0 {
		v.Evict = slices.Concat(unready, ready)
	}
	return v
}

func comparePodNames(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// lostAt returns when a node that is not Ready counts as lost, drain.LostAfter after it was last Ready. It returns zero for a Ready
// node, and for one whose kubelet has never reported.
func lostAt(node *corev1.Node) time.Time {
	c := nodegroup.ReadyCondition(node)
	if c == nil || c.Status == corev1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Add(drain.LostAfter)
}

// isNodeLost reports whether the node has not been Ready for drain.LostAfter.
func isNodeLost(node *corev1.Node, now time.Time) bool {
	at := lostAt(node)
	return !at.IsZero() && !now.Before(at)
}
