package stage

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

// Workload is a Deployment, or another kind of workload, with the budget that guards it.
type Workload struct {
	Name     string
	Kind     string // Deployment (default), StatefulSet, DaemonSet or Pod
	Replicas int32
	// Ready and Gone are how long its pods take to become ready and to end.
	Ready, Gone time.Duration
	// Grace is the pods' termination grace period, 30 s by default; with PreStop a hook sleeps so much of it.
	Grace, PreStop time.Duration
	// Ordered has a StatefulSet bring its pods up one after the other.
	Ordered bool
	// Disks are the zones of the volumes that a StatefulSet's pods have, one pod after the other; none without.
	Disks []string
	// MaxUnavailable or MinAvailable, "1" or "50%", make a budget; both empty for none.
	MaxUnavailable, MinAvailable string
	Annotations                  map[string]string
	NodeSelector                 map[string]string
	Tolerations                  []corev1.Toleration
	// CPU is what each pod requests, "100m" by default.
	CPU string
	// Service has its pods serve under its name.
	Service bool
	// Change is what else is particular to its pods; nil for nothing.
	Change func(*corev1.PodSpec)
}

// Add creates the workload, its Service and its budget. It does not wait for its pods.
func (s *Stage) Add(ctx context.Context, w Workload) error {
	if err := s.addDisks(ctx, w); err != nil {
		return fmt.Errorf("creating the volumes of workload %q: %w", w.Name, err)
	}
	if err := s.addPods(ctx, w); err != nil {
		return fmt.Errorf("creating workload %q: %w", w.Name, err)
	}
	if w.Service {
		if err := s.AddService(ctx, w.Name, w.Name); err != nil {
			return err
		}
	}
	if w.MaxUnavailable == "" && w.MinAvailable == "" {
		return nil
	}
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.Name}}},
	}
	if w.MaxUnavailable != "" {
		value := intstr.Parse(w.MaxUnavailable)
		pdb.Spec.MaxUnavailable = &value
	} else {
		value := intstr.Parse(w.MinAvailable)
		pdb.Spec.MinAvailable = &value
	}
	if _, err := s.Cluster.Client().PolicyV1().PodDisruptionBudgets(s.Namespace).Create(ctx, pdb, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the budget of workload %q: %w", w.Name, err)
	}
	return nil
}

// AddService creates a Service that leads to the pods of a workload.
func (s *Stage) AddService(ctx context.Context, name, workload string) error {
	_, err := s.Cluster.Client().CoreV1().Services(s.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": workload}, Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating service %q: %w", name, err)
	}
	return nil
}

func (s *Stage) addPods(ctx context.Context, w Workload) error {
	client := s.Cluster.Client()
	meta := metav1.ObjectMeta{Name: w.Name}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.Name}}
	template := w.template()
	var err error
	switch w.Kind {
	case "", "Deployment":
		_, err = client.AppsV1().Deployments(s.Namespace).Create(ctx, &appsv1.Deployment{
			ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &w.Replicas, Selector: selector, Template: template},
		}, metav1.CreateOptions{})
	case "StatefulSet":
		management := appsv1.ParallelPodManagement
		if w.Ordered {
			management = appsv1.OrderedReadyPodManagement
		}
		_, err = client.AppsV1().StatefulSets(s.Namespace).Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
				Replicas: &w.Replicas, Selector: selector, Template: template,
				PodManagementPolicy: management, VolumeClaimTemplates: w.claims(),
			},
		}, metav1.CreateOptions{})
	case "DaemonSet":
		_, err = client.AppsV1().DaemonSets(s.Namespace).Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
		}, metav1.CreateOptions{})
	case "Pod":
		_, err = client.CoreV1().Pods(s.Namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: w.Name, Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec,
		}, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("kind %q is not known", w.Kind)
	}
	return err
}

func (w Workload) template() corev1.PodTemplateSpec {
	annotations := map[string]string{
		controlplane.AnnotationReadyAfter: w.Ready.String(), controlplane.AnnotationGoneAfter: w.Gone.String(),
	}
	for key, value := range w.Annotations {
		annotations[key] = value
	}
	cpu := w.CPU
	if cpu == "" {
		cpu = "100m"
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": w.Name}, Annotations: annotations},
		Spec: corev1.PodSpec{
			NodeSelector: w.NodeSelector, Tolerations: w.Tolerations,
			Containers: []corev1.Container{{
				Name: "app", Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}},
		},
	}
	w.takeTime(&template.Spec)
	if w.Change != nil {
		w.Change(&template.Spec)
	}
	return template
}

// takeTime says in the pods' own words how long they take to end.
func (w Workload) takeTime(spec *corev1.PodSpec) {
	if w.Grace > 0 {
		grace := int64(w.Grace / time.Second)
		spec.TerminationGracePeriodSeconds = &grace
	}
	if w.PreStop > 0 {
		spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(w.PreStop / time.Second)}}}
	}
}
