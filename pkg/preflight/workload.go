package preflight

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// Workload is the controller that creates pods again: a Deployment, a StatefulSet, a Job or another
// controller. A pod without a controller is a Workload of kind Pod.
type Workload struct {
	Namespace, Kind, Name string
	// Pods are all of its pods that have not ended. Leaving are those pods on outdated nodes that a
	// drain must move, at least one.
	Pods, Leaving []*corev1.Pod
	// Budgets cover its pods, and Services select them. Ingresses and Bindings name one of the
	// services.
	Budgets   []*drain.Budget
	Services  []*corev1.Service
	Ingresses []*networkingv1.Ingress
	Bindings  []*inventory.TargetGroupBinding
	// Deployment, StatefulSet or Job is set if the workload is of that kind and was read. Scaler is
	// set if an autoscaler changes its size.
	Deployment  *appsv1.Deployment
	StatefulSet *appsv1.StatefulSet
	Job         *batchv1.Job
	Scaler      *autoscalingv2.HorizontalPodAutoscaler
}

// String returns the name of the workload in findings: "Deployment shop/cart".
func (w *Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// Model returns the newest pod, which represents all pods of the workload.
func (w *Workload) Model() *corev1.Pod {
	return slices.MaxFunc(w.Pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// Replicas returns how many pods the workload should have according to its controller. If that was
// not read, it returns the number of pods.
func (w *Workload) Replicas() int {
	switch {
	case w.Deployment != nil && w.Deployment.Spec.Replicas != nil:
		return int(*w.Deployment.Spec.Replicas)
	case w.StatefulSet != nil && w.StatefulSet.Spec.Replicas != nil:
		return int(*w.StatefulSet.Spec.Replicas)
	default:
		return len(w.Pods)
	}
}

// templateNodeName returns spec.nodeName of the workload's pod template, or "".
func (w *Workload) templateNodeName() string {
	switch {
	case w.Deployment != nil:
		return w.Deployment.Spec.Template.Spec.NodeName
	case w.StatefulSet != nil:
		return w.StatefulSet.Spec.Template.Spec.NodeName
	default:
		return ""
	}
}

// IsScaled reports whether the workload has replicas that serve together: it is a Deployment, a
// ReplicaSet or a StatefulSet.
func (w *Workload) IsScaled() bool {
	return w.Kind == "Deployment" || w.Kind == "StatefulSet" || w.Kind == "ReplicaSet"
}

// IsServing reports whether a service selects the workload's pods.
func (w *Workload) IsServing() bool { return len(w.Services) > 0 }

// annotation returns the value of an annotation of the workload, of one of its budgets or of its
// newest pod.
func (w *Workload) annotation(key string) string {
	var all []metav1.Object
	switch {
	case w.Deployment != nil:
		all = append(all, w.Deployment)
	case w.StatefulSet != nil:
		all = append(all, w.StatefulSet)
	case w.Job != nil:
		all = append(all, w.Job)
	}
	for _, budget := range w.Budgets {
		all = append(all, budget.PodDisruptionBudget)
	}
	for _, object := range append(all, w.Model()) {
		if value := object.GetAnnotations()[key]; value != "" {
			return value
		}
	}
	return ""
}

// workloadIndex finds workloads by their pods.
type workloadIndex struct {
	deployments  map[types.UID]*appsv1.Deployment
	replicaSets  map[types.UID]*appsv1.ReplicaSet
	statefulSets map[types.UID]*appsv1.StatefulSet
	jobs         map[types.UID]*batchv1.Job
	workloads    map[string]*Workload
	// byOwner is the workload of a pod's controller.
	byOwner map[types.UID]*Workload
}

func workloadsWithLeavingPods(s *Scene) []*Workload {
	x := &workloadIndex{
		deployments: indexBy(s.Deployments, metav1.Object.GetUID), replicaSets: indexBy(s.ReplicaSets, metav1.Object.GetUID),
		statefulSets: indexBy(s.StatefulSets, metav1.Object.GetUID), jobs: indexBy(s.Jobs, metav1.Object.GetUID),
		workloads: map[string]*Workload{}, byOwner: map[types.UID]*Workload{},
	}
	policy := s.World.Request.Policy()
	for _, pod := range s.Pods {
		if s.outdated[pod.Spec.NodeName] && drain.Judge(pod, policy, false).Fate != drain.Stay {
			w := x.workloadOf(pod)
			w.Leaving = append(w.Leaving, pod)
			x.workloads[w.String()] = w
		}
	}
	for _, pod := range s.Pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if w := x.workloads[x.workloadOf(pod).String()]; w != nil {
			w.Pods = append(w.Pods, pod)
		}
	}
	x.addRelatedObjects(s)
	return slices.SortedFunc(maps.Values(x.workloads), func(a, b *Workload) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
}

func indexBy[K comparable, P metav1.Object](objects []P, key func(metav1.Object) K) map[K]P {
	index := make(map[K]P, len(objects))
	for _, object := range objects {
		index[key(object)] = object
	}
	return index
}

// workloadOf returns the workload of a pod. It returns a new one if the index does not have it.
func (x *workloadIndex) workloadOf(pod *corev1.Pod) *Workload {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		w := &Workload{Namespace: pod.Namespace, Kind: "Pod", Name: pod.Name}
		return cmp.Or(x.workloads[w.String()], w)
	}
	if w := x.byOwner[owner.UID]; w != nil {
		return w
	}
	w := x.makeWorkload(pod, owner)
	w = cmp.Or(x.workloads[w.String()], w) // another ReplicaSet of the Deployment
	x.byOwner[owner.UID] = w
	return w
}

func (x *workloadIndex) makeWorkload(pod *corev1.Pod, owner *metav1.OwnerReference) *Workload {
	w := &Workload{Namespace: pod.Namespace, Kind: owner.Kind, Name: owner.Name}
	w.StatefulSet, w.Job = x.statefulSets[owner.UID], x.jobs[owner.UID]
	if owner.Kind != "ReplicaSet" {
		return w
	}
	if set := x.replicaSets[owner.UID]; set != nil {
		if deployment := metav1.GetControllerOfNoCopy(set); deployment != nil {
			w.Kind, w.Name, w.Deployment = deployment.Kind, deployment.Name, x.deployments[deployment.UID]
		}
		return w
	}
	// ReplicaSets were not read. The name of a Deployment's ReplicaSet ends with the hash in its
	// pods' label.
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			w.Kind, w.Name = "Deployment", name
		}
	}
	return w
}

// addRelatedObjects adds to each workload the objects that cover, select or scale its pods.
func (x *workloadIndex) addRelatedObjects(s *Scene) {
	services := map[string][]*corev1.Service{}
	for _, service := range s.Services {
		services[service.Namespace] = append(services[service.Namespace], service)
	}
	for _, w := range x.workloads {
		model := w.Model()
		w.Budgets = s.World.Budgets.Covering(model)
		for _, service := range services[w.Namespace] {
			if selectsPod(service, model) {
				w.Services = append(w.Services, service)
			}
		}
		w.addIngressesAndBindings(s)
		for _, scaler := range s.Scalers {
			target := scaler.Spec.ScaleTargetRef
			if scaler.Namespace == w.Namespace && target.Kind == w.Kind && target.Name == w.Name {
				w.Scaler = scaler
			}
		}
	}
}

func selectsPod(service *corev1.Service, pod *corev1.Pod) bool {
	return len(service.Spec.Selector) > 0 && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))
}

// addIngressesAndBindings adds the ingresses and bindings that name one of the workload's services.
func (w *Workload) addIngressesAndBindings(s *Scene) {
	isOurs := func(name string) bool {
		return slices.ContainsFunc(w.Services, func(service *corev1.Service) bool { return service.Name == name })
	}
	for _, ingress := range s.Ingresses {
		if ingress.Namespace == w.Namespace && slices.ContainsFunc(backendServices(ingress), isOurs) {
			w.Ingresses = append(w.Ingresses, ingress)
		}
	}
	for _, binding := range s.Bindings {
		if binding.Namespace == w.Namespace && isOurs(binding.Spec.ServiceRef.Name) {
			w.Bindings = append(w.Bindings, binding)
		}
	}
}

// backendServices returns the names of the services that an ingress sends to.
func backendServices(ingress *networkingv1.Ingress) []string {
	var names []string
	add := func(backend *networkingv1.IngressBackend) {
		if backend != nil && backend.Service != nil {
			names = append(names, backend.Service.Name)
		}
	}
	add(ingress.Spec.DefaultBackend)
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for i := range rule.HTTP.Paths {
			add(&rule.HTTP.Paths[i].Backend)
		}
	}
	return names
}
