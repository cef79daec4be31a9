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

// drawFault draws whether a fault of the kind happens now, and counts it.
func (c *cluster) drawFault(kind FaultKind) (happens bool) {
	if c.calm {
		return false
	}
	at := c.elapsed()
	for _, f := range c.plan.Faults {
		if f.Kind == kind && at >= f.From && at < f.To && c.chance(f.Percent) {
			c.onFault(kind)
			return true
		}
	}
	return false
}

// requestCourse is the course of a request: its delays, its effect, and its answer.
type requestCourse struct {
	hasEffect    bool
	requestDelay time.Duration
	answerDelay  time.Duration
	// answerLost is true if the answer is lost, so that the effect is unknown. refusal is the answer to a request without effect.
	answerLost bool
	refusal    error
}

// drawCourse draws the course of a request.
func (c *cluster) drawCourse(action nodegroup.Action) requestCourse {
	f := requestCourse{hasEffect: true, requestDelay: c.drawUpTo(200 * time.Millisecond), answerDelay: c.drawUpTo(200 * time.Millisecond)}
	if c.isDenied(action) {
		f.hasEffect, f.refusal = false, c.plan.Denial.refusalOf(action)
		return f
	}
	slow := ClusterSlow
	if nodegroup.IsCloudAction(action) {
		slow = CloudSlow
	}
	if c.drawFault(slow) {
		f.requestDelay, f.answerDelay = c.drawUpTo(20*time.Second), c.drawUpTo(20*time.Second)
	}
	if nodegroup.IsCloudAction(action) {
		c.drawCloudFaults(&f)
	} else {
		c.drawClusterFaults(&f, action)
	}
	return f
}

func (c *cluster) drawCloudFaults(f *requestCourse) {
	switch {
	case c.drawFault(CloudThrottled):
		f.hasEffect, f.refusal = false, errCloud(nodegroup.OutcomeLater, "Rate exceeded (Throttling)")
	case c.drawFault(CloudLost):
		f.answerLost = true
	case c.drawFault(CloudUnsent):
		f.hasEffect, f.answerLost = false, true
	}
}

func (c *cluster) drawClusterFaults(f *requestCourse, action nodegroup.Action) {
	_, evict := action.(schedule.Eviction)
	_, unfence := action.(nodemark.Unfence)
	_, free := action.(nodemark.UnholdNode)
	unfence = unfence || free // these two are never forbidden: an upgrade without this right could not remove its marks
	refuse := func(err error) { f.hasEffect, f.refusal = false, err }
	if _, restart := action.(schedule.Restart); restart && c.drawRestartFaults(f) {
		return
	}
	switch {
	case evict && c.drawFault(EvictOverload):
		refuse(apierrors.NewTooManyRequests("too many requests", 1))
	case evict && c.drawFault(EvictInternal):
		f.refusal = apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	case evict && c.drawFault(EvictConflict):
		refuse(apierrors.NewTimeoutError("couldn't update PodDisruptionBudget due to conflicts", 10))
	case evict && c.drawFault(EvictWebhook):
		refuse(apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(`admission webhook "guard" denied the request`)))
	case evict && c.drawFault(EvictPending):
		refuse(errBudgetRefuses(10, "is still being processed by the server"))
	case !evict && c.drawFault(NodeConflict):
		refuse(errConflict("nodes", ""))
	case !unfence && c.drawFault(Forbidden):
		refuse(apierrors.NewForbidden(corev1.Resource("nodes"), "", errNoPolicy))
	case c.drawFault(ClusterLost):
		f.answerLost = true
	case c.drawFault(ClusterRefused):
		refuse(apierrors.NewServiceUnavailable("the server is not ready"))
	}
}

// drawRestartFaults draws the faults of requests to restart a Deployment. It returns false if none happens.
func (c *cluster) drawRestartFaults(f *requestCourse) (happens bool) {
	deployments := appsv1.Resource("deployments")
	refuse := func(err error) { f.hasEffect, f.refusal = false, err }
	switch {
	case c.drawFault(RestartForbidden):
		refuse(apierrors.NewForbidden(deployments, "", errNoPolicy))
	case c.drawFault(RestartDenied):
		refuse(apierrors.NewForbidden(deployments, "", errors.New(`admission webhook "gitops" denied the request`)))
	case c.drawFault(RestartLost):
		f.answerLost = true
	default:
		return false
	}
	return true
}

// drawProcessCrash draws whether the process crashes while it sends the request. The request may still have its effect.
func (c *cluster) drawProcessCrash(action nodegroup.Action) (happens bool) {
	switch action.(type) {
	case schedule.Restart:
		return c.drawFault(RestartKills)
	case nodemark.UnholdNode:
		return c.drawFault(FreeKills)
	default:
		return false
	}
}

// carryOutRequest carries out a request and returns its answer. run is the run of the process that sent it.
func (c *cluster) carryOutRequest(action nodegroup.Action, run string) error {
	switch a := action.(type) {
	case nodemark.NodeAction:
		target := a.Target()
		return c.patchNode(target.Node, target.UID, target.Version, func(n *corev1.Node) error {
			if err := a.Apply(n, run, nodegroup.FenceTaint(c.plan.Provider)); err != nil {
				return err //nolint:wrapcheck // as in the writer of package cluster
			}
			switch action.(type) {
			case nodemark.Fence, nodemark.HoldNode:
				nodemark.SetOwner(n, expectedOwner())
			}
			return nil
		})
	case schedule.Eviction:
		return c.evictPod(a)
	case schedule.Restart:
		return c.restartDeployment(a)
	case schedule.Deletion:
		c.deletedByUpgrade[a.UID] = true
		if _, ok := c.pods[a.UID]; !ok {
			return apierrors.NewNotFound(corev1.Resource("pods"), a.Pod)
		}
		c.deletePodWithGrace(a.UID, a.Grace)
		return nil
	case nodemark.DeleteNode:
		if node, ok := c.nodes[a.Node]; !ok || node.UID != a.UID {
			return apierrors.NewNotFound(corev1.Resource("nodes"), a.Node)
		}
		c.deleteNode(a.Node)
		return nil
	default:
		return c.carryOutCloudRequest(action)
	}
}

// patchNode changes a node, if the node has the UID and the version that the patch was made for.
func (c *cluster) patchNode(name string, uid types.UID, version string, by func(*corev1.Node) error) error {
	old, ok := c.nodes[name]
	switch {
	case !ok:
		return apierrors.NewNotFound(corev1.Resource("nodes"), name)
	case old.UID != uid || old.ResourceVersion != version:
		return errConflict("nodes", name)
	}
	node := old.DeepCopy()
	if err := by(node); err != nil {
		return err
	}
	c.putNode(node)
	c.scheduleBinding()
	return nil
}

// errNoPolicy is the API server's reason when no role allows a request.
var errNoPolicy = errors.New("no RBAC policy matched")

// errAnswerLost returns the error of a client that received no answer.
func errAnswerLost() error { return context.DeadlineExceeded }
