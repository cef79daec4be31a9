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
	// now is the clock by which Views tell times.
	now func() time.Time
}

// syncLimit is how long the first View may take; it is many times what 150,000 pods need.
const syncLimit = 2 * time.Minute

// syncPatience is which part of that may pass while every try fails.
const syncPatience = 4

// WatchCluster starts the watches and returns when the first View is complete. The watches end with
// the context. It returns an error at once when a kind may not be read, and after two minutes when
// the server was not reached; of what tells the pods' order (drain.Facts), which is listed once, it
// goes without what may not be listed. now is the clock by which Views tell times.
func WatchCluster(ctx context.Context, client kubernetes.Interface, now func() time.Time) (*Watcher, error) {
	return watchWithin(ctx, client, now, syncLimit)
}

func watchWithin(ctx context.Context, client kubernetes.Interface, now func() time.Time, limit time.Duration) (*Watcher, error) {
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

// setFacts puts the facts into every View. They are read once: which pods others need seldom
// changes.
func (w *Watcher) setFacts(facts drain.Facts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index.facts = facts
	w.index.workloads.SetFacts(facts)
}

// newTrimmer is the informers' transform: it trims what is read, and lets pods share what they have
// alike. Every informer calls it from a goroutine of its own.
func newTrimmer() cache.TransformFunc {
	sharer := trim.NewSharer()
	return func(object any) (any, error) {
		trim.Object(object)
		if pod, ok := object.(*corev1.Pod); ok {
			sharer.Pod(pod) // by one informer alone
		}
		return object, nil
	}
}

// addHandlers sends an informer's events to the handlers, and what goes wrong with its kind to
// failed.
func addHandlers(
	kind string, informer cache.SharedIndexInformer, failed chan<- error, handlers cache.ResourceEventHandlerFuncs,
) (cache.ResourceEventHandlerRegistration, error) {
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		select {
		case failed <- fmt.Errorf("watching %s: %w", kind, err):
		default: // who listens has heard of enough: the informer tries again by itself
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

// waitForSync waits for the first View. It ends early when a kind may not be read, and when reading
// one still fails after the patience; other failures are tried again by the informers, and the last
// of them is told when the context ends.
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

// updateObject puts an object's newer state. After a gap in the watch it may be that of another
// object of the same name, and the one before is gone.
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
	default: // another actor is told already
	}
}

// View is the cluster as it is known now.
func (w *Watcher) View() drain.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.index.buildView()
}

// Changed receives when the View is no longer the one that was taken last, but for how pods fare on
// nodes that are not cordoned. Several changes may be one receipt.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// NodesChanged receives when a node came, went, or became ready or unready: a reason to ask the
// cloud again.
func (w *Watcher) NodesChanged() <-chan struct{} { return w.nodes }

// Failures receives why a watch could not be opened. It is tried again by itself, and the View is
// as old as its last change meanwhile.
func (w *Watcher) Failures() <-chan error { return w.failed }

// currentNode returns the node as it is known now.
func (w *Watcher) currentNode(name string) (*corev1.Node, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	node, ok := w.index.nodes[name]
	return node, ok
}

// currentPod returns the pod as it is known now.
func (w *Watcher) currentPod(uid types.UID) (*corev1.Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod, ok := w.index.pods[uid]
	return pod, ok
}
