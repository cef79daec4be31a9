package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// The kinds of controllers that do otherwise than bring another pod up at once, anywhere.
const (
	statefulSet = "StatefulSet"
	daemonSet   = "DaemonSet"
)

// keepsPlace reports whether a controller of the kind brings a pod back only when the old one has
// ended.
func keepsPlace(kind string) bool { return kind == statefulSet || kind == daemonSet }

// brokenAfter is how long a pod must have been unready for its successor to be taken to fail in the
// same way.
const brokenAfter = 10 * time.Minute

// replace has a controller create the pod that takes the place of one that leaves. A pod without a
// controller does not come back, nor does one that has finished: a Job's work is done, and other
// controllers do not count it.
func (c *Cluster) replace(u *unit) {
	if u.shape.kind == "" || finished(u.pod) || u.pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return
	}
	next := c.successor(u)
	switch {
	case u.shape.kind == daemonSet:
		c.startDaemon(next, u.on)
	case u.shape.kind == statefulSet && c.workloads[u.shape.owner].Ordered:
		c.missing[u.shape.owner] = append(c.missing[u.shape.owner], next)
		c.succeed(next)
	default:
		c.create(next)
	}
}

func (c *Cluster) create(u *unit) {
	c.expect(u, +1)
	c.schedule(u)
}

// ownerName is the pod's controller for people: "ReplicaSet shop/web-7d9f".
func ownerName(pod *corev1.Pod) string {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return fmt.Sprintf("%s %s/%s", ref.Kind, pod.Namespace, ref.Name)
	}
	return ""
}

// successor is the pod that follows another.
func (c *Cluster) successor(u *unit) *unit {
	c.serial++
	pod := *u.pod
	pod.UID = types.UID(fmt.Sprintf("pod-%d", c.serial))
	pod.DeletionTimestamp = nil
	pod.CreationTimestamp = metav1.Time{Time: c.now}
	pod.Spec.NodeName = ""
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if u.shape.kind != statefulSet {
		pod.Name = fmt.Sprintf("%s-r%d", base(pod.Name), c.serial)
	}
	return &unit{pod: &pod, shape: u.shape, budgets: u.budgets, broken: u.broken || c.longUnready(u.pod)}
}

// base is a pod's name without what successor adds to it.
func base(name string) string {
	i := strings.LastIndex(name, "-r")
	if i < 0 {
		return name
	}
	if _, err := strconv.Atoi(name[i+2:]); err != nil {
		return name
	}
	return name[:i]
}

func (c *Cluster) longUnready(pod *corev1.Pod) bool {
	if drain.Ready(pod) || pod.Status.StartTime == nil {
		return false
	}
	since := pod.Status.StartTime.Time
	for i := range pod.Status.Conditions {
		if cond := &pod.Status.Conditions[i]; cond.Type == corev1.PodReady && cond.LastTransitionTime.After(since) {
			since = cond.LastTransitionTime.Time
		}
	}
	return c.now.Sub(since) >= brokenAfter
}

// order notes a pod of an ordered StatefulSet, on a node or waiting for one.
func (c *Cluster) order(u *unit) {
	id := u.shape.owner
	if u.shape.kind != statefulSet || !c.workloads[id].Ordered {
		return
	}
	if c.sets[id] == nil {
		c.sets[id] = map[types.UID]*unit{}
	}
	c.sets[id][u.pod.UID] = u
}

// succeed creates the next missing pod of an ordered StatefulSet, if all before it are ready and
// none of those is leaving (stateful_set_control.go, the monotonic branch).
func (c *Cluster) succeed(u *unit) {
	id := u.shape.owner
	missing := c.missing[id]
	if len(missing) == 0 {
		return
	}
	slices.SortFunc(missing, func(a, b *unit) int { return cmp.Compare(ordinal(a.pod), ordinal(b.pod)) })
	next := missing[0]
	for _, other := range c.sets[id] { // any one that is not ready ends the search: the order does not matter
		if ordinal(other.pod) < ordinal(next.pod) && (other.on == nil || !drain.Ready(other.pod) || other.pod.DeletionTimestamp != nil) {
			return
		}
	}
	c.missing[id] = missing[1:]
	c.create(next)
	if len(missing) > 1 {
		c.succeed(u)
	}
}

// ordinal is the number at the end of a StatefulSet's pod.
func ordinal(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Name[strings.LastIndex(pod.Name, "-")+1:])
	if err != nil {
		return 0
	}
	return n
}

// daemon is a DaemonSet that runs on the group's nodes.
type daemon struct {
	name  string
	model *unit
}

// addDaemon notes the DaemonSet of a pod on the group's nodes.
func (c *Cluster) addDaemon(u *unit) {
	if !slices.ContainsFunc(c.daemons, func(d daemon) bool { return d.model.shape.owner == u.shape.owner }) {
		c.daemons = append(c.daemons, daemon{name: metav1.GetControllerOfNoCopy(u.pod).Name, model: u})
	}
}

// startDaemons brings up the pods of DaemonSets on a new node.
func (c *Cluster) startDaemons(m *machine) {
	for _, d := range c.daemons {
		next := c.successor(d.model)
		next.broken = false
		next.pod.Name = fmt.Sprintf("%s-r%d", d.name, c.serial)
		c.startDaemon(next, m)
	}
}

// startDaemon brings a DaemonSet's pod up on the node, if it is there still and the pod may run on
// it. There is always room: the scheduler evicts others for it.
func (c *Cluster) startDaemon(u *unit, m *machine) {
	if c.machines[m.node.Name] != m {
		return
	}
	c.parse(u.shape)
	if ok, err := u.shape.affinity.Match(m.node); !ok || err != nil || tolerated(u.shape, m) != fits {
		return
	}
	c.expect(u, +1)
	c.start(u, m)
}
