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

// FieldManager is the field manager of all writes of this program.
const FieldManager = "kubectl-nodeupgrade"

// Writer carries out actions on the cluster.
type Writer struct {
	client  kubernetes.Interface
	watcher *Watcher
	run     string
	fence   corev1.Taint
	owner   nodemark.Owner
}

// NewWriter returns a Writer for one run. Its fences use the taint, and the nodes it marks name the
// owner.
func NewWriter(client kubernetes.Interface, watcher *Watcher, run string, fence corev1.Taint, owner nodemark.Owner) *Writer {
	return &Writer{client: client, watcher: watcher, run: run, fence: fence, owner: owner}
}

// Do carries out one action of package upgrade that concerns the cluster. If the object is known to
// have changed, it sends no request and returns nodegroup.ErrMoved. Otherwise it returns the API
// server's error.
func (w *Writer) Do(ctx context.Context, action nodegroup.Action) error {
	switch a := action.(type) {
	case nodemark.NodeAction:
		target := a.Target()
		return w.patchNode(ctx, target.Node, target.UID, target.Version, func(n *corev1.Node) error { return w.applyNodeAction(a, n) })
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

// applyNodeAction applies the action to the node. Fence and HoldNode also write the owner on it.
func (w *Writer) applyNodeAction(action nodemark.NodeAction, node *corev1.Node) error {
	if err := action.Apply(node, w.run, w.fence); err != nil {
		return err
	}
	switch action.(type) {
	case nodemark.Fence, nodemark.HoldNode:
		nodemark.SetOwner(node, w.owner)
	}
	return nil
}

// TakeOver writes the lease's epoch on the nodes in flight. It changes their resourceVersion, so late requests of the
// previous holder fail. nodes has the nodes' UIDs by name. Nodes that are gone or were replaced are skipped.
func (w *Writer) TakeOver(ctx context.Context, nodes map[string]types.UID, epoch int64) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(8)
	for name, uid := range nodes {
		work.Go(func() error {
			err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				node, err := w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}) // the previous holder may have seen a newer version than our watch
				if err != nil || node.UID != uid {
					return err
				}
				return w.patchNodeFrom(ctx, node, func(n *corev1.Node) error { nodemark.SetEpoch(n, epoch); return nil })
			})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("taking over node %q from the earlier process: %w", name, err)
			}
			return nil
		})
	}
	return work.Wait()
}

// evictPod asks the eviction API once. client-go would repeat a request up to ten times if the
// answer has Retry-After (rest/request.go), so retries are off. An eviction with a wrong UID still
// uses up the budget for two minutes (Kubernetes K01), so evictPod looks at the watch first.
func (w *Writer) evictPod(ctx context.Context, a schedule.Eviction) error {
	if pod, ok := w.watcher.currentPod(a.UID); !ok || pod.Spec.NodeName != a.Node {
		return nodegroup.ErrMoved
	}
	return Evict(ctx, w.client, a, metav1.DeleteOptions{})
}

// Evict sends one eviction with the pod's UID as its precondition. It never repeats it.
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

// patchNode changes the node with one patch, which fails if the node is no longer at the version.
// spec.taints is an atomic list (core/v1 types.go). Without this check the patch could overwrite
// taints of other writers.
func (w *Writer) patchNode(ctx context.Context, name string, uid types.UID, version string, change func(*corev1.Node) error) error {
	old, ok := w.watcher.currentNode(name)
	if !ok || old.UID != uid || old.ResourceVersion != version {
		return nodegroup.ErrMoved
	}
	return w.patchNodeFrom(ctx, old, change)
}

// patchNodeFrom is patchNode for a node that the caller has read.
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

// newNodePatch returns the patch from one state of a node to the other, bound to the first one's
// UID and resourceVersion. It returns nil if they are equal.
func newNodePatch(old, changed *corev1.Node) ([]byte, error) {
	if equality.Semantic.DeepEqual(old, changed) {
		return nil, nil
	}
	unbound := *old // fields that are missing here become part of the patch
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
