package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// GroupsWatcher keeps the nodes of a cluster and the records of all upgrades up to date, through one watch each.
type GroupsWatcher struct {
	nodes, records cache.Store
	changed        chan struct{}
	nodesChanged   chan struct{}
}

// WatchGroups starts the watches and returns when nodes and records are known. The watches end with the context. It returns an error
// if one of them may not be opened, and after two minutes without an answer.
func WatchGroups(ctx context.Context, client kubernetes.Interface, namespace string) (*GroupsWatcher, error) {
	w := &GroupsWatcher{changed: make(chan struct{}, 1), nodesChanged: make(chan struct{}, 1)}
	nodes := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(newTrimmer()))
	maps := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = LabelManagedBy + "=" + FieldManager
	}))
	failed := make(chan error, 2)
	changed := func(any) { notifyListener(w.changed) }
	ofRecords, err := addHandlers("configmaps", maps.Core().V1().ConfigMaps().Informer(), failed, cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, _ any) { notifyListener(w.changed) }, DeleteFunc: changed,
	})
	if err != nil {
		return nil, err
	}
	nodeSetChanged := func(any) {
		notifyListener(w.changed)
		notifyListener(w.nodesChanged)
	}
	ofNodes, err := addHandlers("nodes", nodes.Core().V1().Nodes().Informer(), failed, cache.ResourceEventHandlerFuncs{
		AddFunc: nodeSetChanged, DeleteFunc: nodeSetChanged, UpdateFunc: func(before, now any) {
			notifyListener(w.changed)
			if !isSameReadiness(before, now) {
				notifyListener(w.nodesChanged)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	nodes.Start(ctx.Done())
	maps.Start(ctx.Done())
	syncing, cancel := context.WithTimeoutCause(ctx, syncLimit, fmt.Errorf("it took longer than %s", syncLimit))
	defer cancel()
	if err := waitForSync(syncing, []cache.DoneChecker{ofRecords.HasSyncedChecker(), ofNodes.HasSyncedChecker()}, failed, syncLimit/syncPatience); err != nil {
		return nil, err
	}
	w.nodes, w.records = nodes.Core().V1().Nodes().Informer().GetStore(), maps.Core().V1().ConfigMaps().Informer().GetStore()
	return w, nil
}

// isSameReadiness reports whether both states of a node are ready, or both are not.
func isSameReadiness(before, now any) bool {
	was, wasNode := before.(*corev1.Node)
	is, isNode := now.(*corev1.Node)
	return wasNode && isNode && nodegroup.IsNodeReady(was) == nodegroup.IsNodeReady(is)
}

// Nodes returns the nodes by name.
func (w *GroupsWatcher) Nodes() []*corev1.Node {
	var nodes []*corev1.Node
	for _, object := range w.nodes.List() {
		if node, ok := object.(*corev1.Node); ok {
			nodes = append(nodes, node)
		}
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// Records returns the records as [LoadRecords] does.
func (w *GroupsWatcher) Records() (records map[string]record.Record, unreadable map[string]error) {
	var maps []corev1.ConfigMap
	for _, object := range w.records.List() {
		if stored, ok := object.(*corev1.ConfigMap); ok {
			maps = append(maps, *stored)
		}
	}
	return decodeRecords(maps)
}

// Changed receives when a node or a record has changed. It may receive once for several changes.
func (w *GroupsWatcher) Changed() <-chan struct{} { return w.changed }

// NodesChanged receives when a node was added or removed, or became ready or unready. The groups should then be read from the
// cloud again.
func (w *GroupsWatcher) NodesChanged() <-chan struct{} { return w.nodesChanged }
