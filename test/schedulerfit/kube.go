package schedulerfit

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// kubeScheduler is kube-scheduler's default profile, without its queue and without an API server. The test sets the objects that its
// plugins list.
type kubeScheduler struct {
	profile   framework.Framework
	snapshot  *lister
	informers map[string]*instant
}

// lister gives the plugins the current sample's snapshot.
type lister struct{ fwk.SharedLister }

// instant is an informer without a watch: the test sets its objects, and it calls its handlers immediately.
type instant struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
	version  int
}

// AddEventHandler implements cache.SharedInformer.
func (i *instant) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return nil, nil
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *instant) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// replace sets the informer's objects.
func (i *instant) replace(objects []runtime.Object) error {
	for _, old := range i.GetIndexer().List() {
		if err := i.GetIndexer().Delete(old); err != nil {
			return err
		}
		for _, h := range i.handlers {
			h.OnDelete(old)
		}
	}
	for _, object := range objects {
		i.version++
		object.(metav1.Object).SetResourceVersion(fmt.Sprint(i.version))
		if err := i.GetIndexer().Add(object); err != nil {
			return err
		}
		for _, h := range i.handlers {
			h.OnAdd(object, true)
		}
	}
	return nil
}

// newKubeScheduler builds the default profile of kube-scheduler.
func newKubeScheduler(ctx context.Context) (*kubeScheduler, error) {
	metrics.Register()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"}) // no request is sent to it
	if err != nil {
		return nil, err
	}
	k := &kubeScheduler{snapshot: &lister{}, informers: map[string]*instant{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	for name, object := range map[string]runtime.Object{
		"namespaces": &corev1.Namespace{}, "claims": &corev1.PersistentVolumeClaim{}, "volumes": &corev1.PersistentVolume{},
		"csinodes": &storagev1.CSINode{}, "resourceclaims": &resourcev1.ResourceClaim{},
	} {
		k.informers[name] = k.register(factory, object)
	}
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices(), KubeClient: client})
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(klog.Background(), k.informers["resourceclaims"], "ResourceClaim", "", nil)
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := defaults.Profiles[0]
	k.profile, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithClientSet(client), frameworkruntime.WithSnapshotSharedLister(k.snapshot),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, slices, factory)),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	)
	return k, err
}

// register puts an instant informer into the factory.
func (k *kubeScheduler) register(factory informers.SharedInformerFactory, object runtime.Object) *instant {
	i := &instant{}
	factory.InformerFor(object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		i.SharedIndexInformer = cache.NewSharedIndexInformer(&cache.ListWatch{}, object, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		return i
	})
	return i
}

// refusals returns the reasons for which each node refuses the pod. Nodes that take it are left out.
func (k *kubeScheduler) refusals(ctx context.Context, c *sample) (map[string][]string, error) {
	if err := k.load(c); err != nil {
		return nil, err
	}
	var running []*corev1.Pod
	for _, pod := range c.pods {
		if pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed { // as kube-scheduler's informer leaves them out
			running = append(running, pod)
		}
	}
	k.snapshot.SharedLister = schedulercache.NewSnapshot(running, c.nodes)
	state := framework.NewCycleState()
	_, status, _ := k.profile.RunPreFilterPlugins(ctx, state, c.waiting)
	if status.Code() == fwk.Error {
		return nil, status.AsError()
	}
	nodes, err := k.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	refused := map[string][]string{}
	for _, node := range nodes {
		answer := status
		if status.IsSuccess() {
			answer = k.profile.RunFilterPlugins(ctx, state, c.waiting, node)
		}
		if answer.Code() == fwk.Error {
			return nil, answer.AsError()
		}
		if !answer.IsSuccess() {
			refused[node.Node().Name] = answer.Reasons()
		}
	}
	return refused, nil
}

// load gives the plugins the sample's objects.
func (k *kubeScheduler) load(c *sample) error {
	for name, objects := range map[string][]runtime.Object{
		"namespaces": objectsOf(c.namespaces), "claims": objectsOf(c.claims), "volumes": objectsOf(c.volumes),
		"csinodes": objectsOf(c.csiNodes), "resourceclaims": objectsOf(c.resourceClaims),
	} {
		if err := k.informers[name].replace(objects); err != nil {
			return err
		}
	}
	return nil
}

// objectsOf returns copies of the objects, since an informer owns its objects.
func objectsOf[P runtime.Object](all []P) []runtime.Object {
	var objects []runtime.Object
	for _, object := range all {
		objects = append(objects, object.DeepCopyObject())
	}
	return objects
}
