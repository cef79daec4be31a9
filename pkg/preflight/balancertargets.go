package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// Annotations of the AWS Load Balancer Controller.
const (
	ingressTargetType = "alb.ingress.kubernetes.io/target-type"
	ingressAttributes = "alb.ingress.kubernetes.io/target-group-attributes"
	serviceTargetType = "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type"
	serviceAttributes = "service.beta.kubernetes.io/aws-load-balancer-target-group-attributes"
	serviceType       = "service.beta.kubernetes.io/aws-load-balancer-type"
	ingressClass      = "kubernetes.io/ingress.class"
)

// balancerKinds returns the kinds that show which load balancers send to pods, and how.
func balancerKinds() []string { return []string{"ingresses", "targetgroupbindings"} }

// findAddressTarget returns the name of the object that makes an AWS load balancer send to the
// addresses of the workload's pods, "" if there is none. Ingresses and services come before
// bindings, because the controller creates bindings for them.
func findAddressTarget(w *Workload) string {
	for _, ingress := range w.Ingresses {
		if targetTypeOf(w, ingress) == "ip" {
			return nameObject("Ingress", ingress)
		}
	}
	for _, service := range w.Services {
		if sendsToPodAddresses(service) {
			return nameObject("Service", service)
		}
	}
	for _, binding := range w.Bindings {
		if binding.Spec.TargetType == "ip" {
			return fmt.Sprintf("TargetGroupBinding %s/%s", binding.Namespace, binding.Name)
		}
	}
	return ""
}

// targetTypeOf returns the target type in the annotations of the ingress or of a workload's service
// behind it. The service takes precedence.
func targetTypeOf(w *Workload, ingress *networkingv1.Ingress) string {
	names := backendServices(ingress)
	for _, service := range w.Services {
		if said := service.Annotations[ingressTargetType]; said != "" && slices.Contains(names, service.Name) {
			return said
		}
	}
	return ingress.Annotations[ingressTargetType]
}

func sendsToPodAddresses(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		(service.Annotations[serviceTargetType] == "ip" || service.Annotations[serviceType] == "nlb-ip")
}

// nameObject returns an object's name as findings write it.
func nameObject(kind string, object metav1.Object) string {
	return kind + " " + object.GetNamespace() + "/" + object.GetName()
}

// annotatedDelay returns the deregistration delay that a service or ingress of the workload sets, and
// the name of that object. It returns 0 if none does.
func annotatedDelay(w *Workload) (where string, delay time.Duration) {
	for _, service := range w.Services {
		if delay := deregistrationDelay(service.Annotations); delay > 0 {
			return nameObject("Service", service), delay
		}
	}
	for _, ingress := range w.Ingresses {
		if delay := deregistrationDelay(ingress.Annotations); delay > 0 {
			return nameObject("Ingress", ingress), delay
		}
	}
	return "", 0
}

// defaultDelay is the default deregistration delay of a target group.
const defaultDelay = 300 * time.Second

// readDelay returns the deregistration delay that the cloud reports for a target group of the
// workload's pods, and the binding that names the group. It returns 0 if the cloud reports none or
// the default.
func readDelay(s *Scene, w *Workload) (where string, delay time.Duration) {
	for _, binding := range w.Bindings {
		if delay := s.Facts.Delays[binding.Spec.TargetGroup]; binding.Spec.TargetType == "ip" && delay > 0 && delay != defaultDelay {
			return fmt.Sprintf("the target group of TargetGroupBinding %s/%s", binding.Namespace, binding.Name), delay
		}
	}
	return "", 0
}

// isDelayRead reports whether the cloud reported the deregistration delay of a target group of the
// workload's pods.
func isDelayRead(s *Scene, w *Workload) bool {
	return slices.ContainsFunc(w.Bindings, func(b *inventory.TargetGroupBinding) bool {
		return b.Spec.TargetType == "ip" && s.Facts.Delays[b.Spec.TargetGroup] > 0
	})
}

// isWatched reports whether the upgrade watches a target group of the service or ingress. If so,
// it waits until the load balancer has deregistered a node.
func isWatched(s *Scene, object metav1.Object) bool {
	services := []string{object.GetName()}
	if ingress, ok := object.(*networkingv1.Ingress); ok {
		services = backendServices(ingress)
	}
	return slices.ContainsFunc(s.Bindings, func(b *inventory.TargetGroupBinding) bool {
		_, followed := s.Facts.Delays[b.Spec.TargetGroup]
		return followed && b.Namespace == object.GetNamespace() && slices.Contains(services, b.Spec.ServiceRef.Name)
	})
}

// deregistrationDelay returns the delay in the annotations, 0 if there is none.
func deregistrationDelay(annotations map[string]string) time.Duration {
	for attribute := range strings.SplitSeq(cmp.Or(annotations[ingressAttributes], annotations[serviceAttributes]), ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(attribute), "=")
		if number, err := strconv.Atoi(value); err == nil && key == "deregistration_delay.timeout_seconds" {
			return time.Duration(number) * time.Second
		}
	}
	return 0
}

// sendsToNodes reports whether a service or ingress has a load balancer that sends to nodes.
func sendsToNodes(object metav1.Object) bool {
	switch o := object.(type) {
	case *corev1.Service:
		return o.Spec.Type == corev1.ServiceTypeLoadBalancer && !sendsToPodAddresses(o)
	case *networkingv1.Ingress:
		class := o.Annotations[ingressClass]
		if o.Spec.IngressClassName != nil {
			class = *o.Spec.IngressClassName
		}
		return class == "alb" && o.Annotations[ingressTargetType] != "ip"
	default:
		return false
	}
}
