package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// Watcher keeps a View up to date through one watch per kind.
type Watcher struct {
	mu      sync.Mutex
	index   *clusterIndex
	changed chan struct{}
	nodes   chan struct{}
	failed  chan error
	// now is the clock for the times in Views.
	now func() time.Time
}

// syncLimit is how long the first View may take. Even 150,000 pods need only a small part of that.
const syncLimit = 2 * time.Minute

// syncPatience is the divisor of syncLimit: WatchCluster gives up after this part of it if every
// try has failed.
const syncPatience = 4

// WatchCluster starts the watches and returns when the first View is complete. The watches end with
// the context. It returns an error immediately if a kind may not be read, and after two minutes if
// the server was not reached. The facts that influence the order of the pods (drain.Facts) are
// listed only once; facts that may not be listed are left out. now is the clock for the times in
// Views.
func WatchCluster(ctx context.Context, client kubernetes.Interface, now func() time.Time) (*Watcher, error) {
	return watchClusterWithin(ctx, client, now, syncLimit)
}

func watchClusterWithin(ctx context.Context, client kubernetes.Interface, now func() time.Time, limit time.Duration) (*Watcher, error) {
	w := &Watcher{index: newClusterIndex(), changed: make(chan struct{}, 1), nodes: make(chan struct{}, 1), now: now}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(newTrimmer()))
	kinds := map[string]cache.SharedIndexInformer{
		"nodes":                factory.Core().V1().Nodes().Informer(),
		"pods":                 factory.Core().V1().Pods().Informer(),
		"namespaces":           factory.Core().V1().Namespaces().Informer(),
		"poddisruptionbudgets": factory.Policy().V1().PodDisruptionBudgets().Informer(),
	}
	failed := make(chan error, len(kinds))
	w.failed = failed
	var synced []cache.DoneChecker
	for kind, informer := range kinds {
		registration, err := addHandlers(kind, informer, failed, cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.storeObject(o, true) },
			UpdateFunc: w.updateObject,
			DeleteFunc: w.removeObject,
		})
		if err != nil {
			return nil, err
		}
		synced = append(synced, registration.HasSyncedChecker())
	}
	factory.Start(ctx.Done())
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	if err := waitForSync(ctx, synced, failed, limit/syncPatience); err != nil {
		return nil, err
	}
	o, err := ReadObjects(ctx, client, inventory.ForFacts)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	w.setFacts(o.Facts())
	return w, nil
}

// setFacts sets the facts of all later Views. They are read only once, because the pods that others
// depend on seldom change.
func (w *Watcher) setFacts(facts drain.Facts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index.facts = facts
	w.index.workloads.SetFacts(facts)
}

// newTrimmer returns the transform of the informers. It trims the objects, and lets pods share
// equal parts. Every informer calls it from its own goroutine.
func newTrimmer() cache.TransformFunc {
	sharer := trim.NewSharer()
	return func(object any) (any, error) {
		trim.Object(object)
		if pod, ok := object.(*corev1.Pod); ok {
			sharer.Pod(pod) // only one informer calls this
		}
		return object, nil
	}
}

// addHandlers sends an informer's events to the handlers, and the errors of its watch to failed.
func addHandlers(
	kind string, informer cache.SharedIndexInformer, failed chan<- error, handlers cache.ResourceEventHandlerFuncs,
) (cache.ResourceEventHandlerRegistration, error) {
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		select {
		case failed <- fmt.Errorf("watching %s: %w", kind, err):
		default: // failed has an unread error already; the informer tries again by itself
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(handlers)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", kind, err)
	}
	return registration, nil
}

// waitForSync waits for the first View. It returns an error immediately if a kind may not be read,
// and after the patience if reading still fails. The informers try again after other failures. When
// the context ends, waitForSync returns the last failure.
func waitForSync(ctx context.Context, synced []cache.DoneChecker, failed <-chan error, patience time.Duration) error {
	done := make(chan bool, 1)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { done <- cache.WaitFor(waiting, "", synced...) }()
	var last error
	var failing time.Time
	for {
		select {
		case last = <-failed:
			if apierrors.IsForbidden(last) || apierrors.IsUnauthorized(last) {
				return last
			}
			switch {
			case failing.IsZero():
				failing = time.Now()
			case time.Since(failing) > patience:
				return fmt.Errorf("reading the cluster: it has failed for %s: %w", time.Since(failing).Round(time.Second), last)
			}
		case ok := <-done:
			switch {
			case ok:
				return nil
			case last != nil:
				return fmt.Errorf("reading the cluster: %w: %w", context.Cause(ctx), last)
			default:
				return fmt.Errorf("reading the cluster: %w", context.Cause(ctx))
			}
		}
	}
}

// updateObject stores the newer state of an object. After a gap in the watch it may be a new object
// of the same name, and then the old one is removed.
func (w *Watcher) updateObject(before, object any) {
	was, known := before.(metav1.Object)
	is, ok := object.(metav1.Object)
	replaced := known && ok && was.GetUID() != is.GetUID()
	if replaced {
		w.removeObject(before)
	}
	w.storeObject(object, replaced)
}

func (w *Watcher) storeObject(object any, added bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := object.(type) {
	case *corev1.Node:
		if old := w.index.nodes[o.Name]; added || old == nil || nodegroup.IsNodeReady(old) != nodegroup.IsNodeReady(o) {
			notifyListener(w.nodes)
		}
		w.index.storeNode(o)
	case *corev1.Pod:
		before := w.index.pods[o.UID]
		w.index.storePod(o)
		if !w.index.affectsDecision(before, o) {
			return
		}
	case *policyv1.PodDisruptionBudget:
		w.index.storeBudget(o, w.now())
	case *corev1.Namespace:
		w.index.storeNamespace(o)
	}
	notifyListener(w.changed)
}

func (w *Watcher) removeObject(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := object.(type) {
	case *corev1.Node:
		w.index.removeNode(o)
		notifyListener(w.nodes)
	case *corev1.Pod:
		w.index.removePod(o)
	case *policyv1.PodDisruptionBudget:
		w.index.removeBudget(o)
	case *corev1.Namespace:
		delete(w.index.endingNamespaces, o.Name)
	}
	notifyListener(w.changed)
}

func notifyListener(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // the listener has an unread notification already
	}
}

// View returns the cluster's current state, as far as it is known.
func (w *Watcher) View() drain.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.index.buildView()
}

// Changed receives when the View has changed since it was last taken. It ignores the status of pods
// on nodes that are not cordoned. It may receive once for several changes.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// NodesChanged receives when a node was added or removed, or became ready or unready. The groups
// should then be read from the cloud again.
func (w *Watcher) NodesChanged() <-chan struct{} { return w.nodes }

// Failures receives the error of a watch that could not be opened. The watch is tried again by
// itself. Until it succeeds, the View does not change.
func (w *Watcher) Failures() <-chan error { return w.failed }

// currentNode returns the node's current state, as far as it is known.
func (w *Watcher) currentNode(name string) (*corev1.Node, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	node, ok := w.index.nodes[name]
	return node, ok
}

// currentPod returns the pod's current state, as far as it is known.
func (w *Watcher) currentPod(uid types.UID) (*corev1.Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod, ok := w.index.pods[uid]
	return pod, ok
}
