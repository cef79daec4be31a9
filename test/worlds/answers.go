package worlds

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// befalls draws whether a fault of the given kind strikes now.
func (c *cluster) befalls(kind FaultKind) bool {
	if c.calm {
		return false
	}
	at := c.since()
	for _, f := range c.plan.Faults {
		if f.Kind == kind && at >= f.From && at < f.To && c.chance(f.Percent) {
			c.struck(kind)
			return true
		}
	}
	return false
}

// flight is a request under way: whether and when it has its effect, and when and with what it is answered.
type flight struct {
	effect bool
	there  time.Duration
	back   time.Duration
	// lost is true if the answer is lost, so that the effect is unknown. refusal is the answer to a request without effect.
	lost    bool
	refusal error
}

// flightOf draws the course of a request.
func (c *cluster) flightOf(action nodegroup.Action) flight {
	f := flight{effect: true, there: c.draw(200 * time.Millisecond), back: c.draw(200 * time.Millisecond)}
	if c.denies(action) {
		f.effect, f.refusal = false, c.plan.Denial.answer(action)
		return f
	}
	slow := ClusterSlow
	if nodegroup.IsCloudAction(action) {
		slow = CloudSlow
	}
	if c.befalls(slow) {
		f.there, f.back = c.draw(20*time.Second), c.draw(20*time.Second)
	}
	if nodegroup.IsCloudAction(action) {
		c.cloudFaults(&f)
	} else {
		c.clusterFaults(&f, action)
	}
	return f
}

func (c *cluster) cloudFaults(f *flight) {
	switch {
	case c.befalls(CloudThrottled):
		f.effect, f.refusal = false, answered(nodegroup.OutcomeLater, "Rate exceeded (Throttling)")
	case c.befalls(CloudLost):
		f.lost = true
	case c.befalls(CloudUnsent):
		f.effect, f.lost = false, true
	}
}

func (c *cluster) clusterFaults(f *flight, action nodegroup.Action) {
	_, evict := action.(schedule.Eviction)
	_, unfence := action.(nodemark.Unfence)
	_, free := action.(nodemark.UnholdNode)
	unfence = unfence || free // a user who may write nothing else could not remove the marks either
	refuse := func(err error) { f.effect, f.refusal = false, err }
	if _, restart := action.(schedule.Restart); restart && c.restartFaults(f) {
		return
	}
	switch {
	case evict && c.befalls(EvictOverload):
		refuse(apierrors.NewTooManyRequests("too many requests", 1))
	case evict && c.befalls(EvictInternal):
		f.refusal = apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	case evict && c.befalls(EvictConflict):
		refuse(apierrors.NewTimeoutError("couldn't update PodDisruptionBudget due to conflicts", 10))
	case evict && c.befalls(EvictWebhook):
		refuse(apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(`admission webhook "guard" denied the request`)))
	case evict && c.befalls(EvictPending):
		refuse(tooMany(10, "is still being processed by the server"))
	case !evict && c.befalls(NodeConflict):
		refuse(conflict("nodes", ""))
	case !unfence && c.befalls(Forbidden):
		refuse(apierrors.NewForbidden(corev1.Resource("nodes"), "", errNoPolicy))
	case c.befalls(ClusterLost):
		f.lost = true
	case c.befalls(ClusterRefused):
		refuse(apierrors.NewServiceUnavailable("the server is not ready"))
	}
}

// restartFaults draws faults that strike only requests to restart a Deployment. It returns false if none does.
func (c *cluster) restartFaults(f *flight) bool {
	deployments := appsv1.Resource("deployments")
	refuse := func(err error) { f.effect, f.refusal = false, err }
	switch {
	case c.befalls(RestartForbidden):
		refuse(apierrors.NewForbidden(deployments, "", errNoPolicy))
	case c.befalls(RestartDenied):
		refuse(apierrors.NewForbidden(deployments, "", errors.New(`admission webhook "gitops" denied the request`)))
	case c.befalls(RestartLost):
		f.lost = true
	default:
		return false
	}
	return true
}

// kills draws whether the process crashes when it sends the request. The request may still have its effect.
func (c *cluster) kills(action nodegroup.Action) bool {
	switch action.(type) {
	case schedule.Restart:
		return c.befalls(RestartKills)
	case nodemark.UnholdNode:
		return c.befalls(FreeKills)
	default:
		return false
	}
}

// do carries out a request and returns its answer. run is the run of the process that sent it.
func (c *cluster) do(action nodegroup.Action, run string) error {
	switch a := action.(type) {
	case nodemark.NodeAction:
		target := a.Target()
		return c.patch(target.Node, target.UID, target.Version, func(n *corev1.Node) error {
			if err := a.Apply(n, run, nodegroup.FenceTaint(c.plan.Provider)); err != nil {
				return err //nolint:wrapcheck // as in the writer of package cluster
			}
			switch action.(type) {
			case nodemark.Fence, nodemark.HoldNode:
				nodemark.SetOwner(n, owner())
			}
			return nil
		})
	case schedule.Eviction:
		return c.evict(a)
	case schedule.Restart:
		return c.restart(a)
	case schedule.Deletion:
		c.forced[a.UID] = true
		if _, ok := c.pods[a.UID]; !ok {
			return apierrors.NewNotFound(corev1.Resource("pods"), a.Pod)
		}
		c.deleteWithin(a.UID, a.Grace)
		return nil
	case nodemark.DeleteNode:
		if node, ok := c.nodes[a.Node]; !ok || node.UID != a.UID {
			return apierrors.NewNotFound(corev1.Resource("nodes"), a.Node)
		}
		c.dropNode(a.Node)
		return nil
	default:
		return c.doCloud(action)
	}
}

// patch changes a node, if the node has the UID and the version that the patch was made for.
func (c *cluster) patch(name string, uid types.UID, version string, by func(*corev1.Node) error) error {
	old, ok := c.nodes[name]
	switch {
	case !ok:
		return apierrors.NewNotFound(corev1.Resource("nodes"), name)
	case old.UID != uid || old.ResourceVersion != version:
		return conflict("nodes", name)
	}
	node := old.DeepCopy()
	if err := by(node); err != nil {
		return err
	}
	c.putNode(node)
	c.place()
	return nil
}

// errNoPolicy is the API server's reason when no role allows a request.
var errNoPolicy = errors.New("no RBAC policy matched")

// errLost returns a client's error for an answer that never came.
func errLost() error { return context.DeadlineExceeded }
