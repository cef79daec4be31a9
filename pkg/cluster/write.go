package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// FieldManager signs our writes.
const FieldManager = "kubectl-nodeupgrade"

// Writer carries out actions on the cluster.
type Writer struct {
	client  kubernetes.Interface
	watcher *Watcher
	run     string
	fence   corev1.Taint
	owner   nodemark.Owner
}

// NewWriter makes a Writer for one run, whose fence uses the taint and whose marks name the owner.
func NewWriter(client kubernetes.Interface, watcher *Watcher, run string, fence corev1.Taint, owner nodemark.Owner) *Writer {
	return &Writer{client: client, watcher: watcher, run: run, fence: fence, owner: owner}
}

// Do carries out one action of package upgrade that concerns the cluster. It returns
// nodegroup.ErrMoved without a request when the object is known to have changed, and the API server's
// error otherwise.
func (w *Writer) Do(ctx context.Context, action nodegroup.Action) error {
	switch a := action.(type) {
	case nodemark.NodeAction:
		target := a.Target()
		return w.patchNode(ctx, target.Node, target.UID, target.Version, func(n *corev1.Node) error { return w.applyToNode(a, n) })
	case schedule.Eviction:
		return w.evictPod(ctx, a)
	case schedule.Restart:
		return w.restartDeployment(ctx, a)
	case schedule.Deletion:
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}}
		if a.Grace > 0 {
			options.GracePeriodSeconds = &a.Grace
		}
		return w.client.CoreV1().Pods(a.Namespace).Delete(ctx, a.Pod, options)
	case nodemark.DeleteNode:
		return w.client.CoreV1().Nodes().Delete(ctx, a.Node, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
	default:
		return fmt.Errorf("the cluster cannot %s", action)
	}
}

// applyToNode changes the node as the action means it. What marks a node names the owner, too.
func (w *Writer) applyToNode(action nodemark.NodeAction, node *corev1.Node) error {
	if err := action.Apply(node, w.run, w.fence); err != nil {
		return err
	}
	switch action.(type) {
	case nodemark.Fence, nodemark.HoldNode:
		nodemark.SetOwner(node, w.owner)
	}
	return nil
}

// TakeOver marks the nodes, which are those in flight by name, with the number of the lease's
// holder: what the holder before may still send to them fails on their resourceVersion. Nodes that
// are gone, or others by now, are left out.
func (w *Writer) TakeOver(ctx context.Context, nodes map[string]types.UID, epoch int64) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(8)
	for name, uid := range nodes {
		work.Go(func() error {
			err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				node, err := w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}) // the holder before may have seen more than we
				if err != nil || node.UID != uid {
					return err
				}
				return w.patchNodeFrom(ctx, node, func(n *corev1.Node) error { nodemark.SetEpoch(n, epoch); return nil })
			})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("taking node %q over from the holder before: %w", name, err)
			}
			return nil
		})
	}
	return work.Wait()
}

// evictPod asks the eviction API once. client-go would repeat an answer that carries
// Retry-After up to ten times by itself (rest/request.go), so retries are off. A UID that does not
// match costs the budget for two minutes (Kubernetes K01), so the watch is asked first.
func (w *Writer) evictPod(ctx context.Context, a schedule.Eviction) error {
	if pod, ok := w.watcher.currentPod(a.UID); !ok || pod.Spec.NodeName != a.Node {
		return nodegroup.ErrMoved
	}
	return Evict(ctx, w.client, a, metav1.DeleteOptions{})
}

// Evict sends one eviction with the pod's UID as its precondition, and never a second one.
func Evict(ctx context.Context, client kubernetes.Interface, a schedule.Eviction, options metav1.DeleteOptions) error {
	options.Preconditions = &metav1.Preconditions{UID: &a.UID}
	return client.CoreV1().RESTClient().Post().
		Namespace(a.Namespace).Resource("pods").Name(a.Pod).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Pod},
			DeleteOptions: &options,
		}).
		MaxRetries(0).Do(ctx).Error()
}

// patchNode sends what change does to the node as one patch that fails when the node is not at
// version. spec.taints is an atomic list (core/v1 types.go), so nothing less keeps other people's
// taints.
func (w *Writer) patchNode(ctx context.Context, name string, uid types.UID, version string, change func(*corev1.Node) error) error {
	old, ok := w.watcher.currentNode(name)
	if !ok || old.UID != uid || old.ResourceVersion != version {
		return nodegroup.ErrMoved
	}
	return w.patchNodeFrom(ctx, old, change)
}

// patchNodeFrom is patch for a node as it was read.
func (w *Writer) patchNodeFrom(ctx context.Context, old *corev1.Node, change func(*corev1.Node) error) error {
	changed := old.DeepCopy()
	if err := change(changed); err != nil {
		return err
	}
	patch, err := newNodePatch(old, changed)
	if err != nil || patch == nil {
		return err
	}
	_, err = w.client.CoreV1().Nodes().Patch(ctx, old.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

// newNodePatch is the difference between two states of a node, bound to the first one's UID and
// resourceVersion; nil when there is none.
func newNodePatch(old, changed *corev1.Node) ([]byte, error) {
	if equality.Semantic.DeepEqual(old, changed) {
		return nil, nil
	}
	unbound := *old // what it lacks is in the difference
	unbound.UID, unbound.ResourceVersion = "", ""
	before, err := json.Marshal(&unbound)
	if err != nil {
		return nil, fmt.Errorf("encoding node %q: %w", old.Name, err)
	}
	after, err := json.Marshal(changed)
	if err != nil {
		return nil, fmt.Errorf("encoding node %q: %w", old.Name, err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Node{})
	if err != nil {
		return nil, fmt.Errorf("comparing node %q: %w", old.Name, err)
	}
	return patch, nil
}
