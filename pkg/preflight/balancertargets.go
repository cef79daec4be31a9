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

// balancerKinds are the kinds that say which load balancers send to pods, and how.
func balancerKinds() []string { return []string{"ingresses", "targetgroupbindings"} }

// findAddressTarget names what has a load balancer of AWS send to the workload's pods by their
// addresses, "" when nothing does. What people write comes first: the controller makes bindings
// of its own for it.
func findAddressTarget(w *Workload) string {
	for _, ingress := range w.Ingresses {
		if targetTypeOf(w, ingress) == "ip" {
			return nameObject("Ingress", ingress)
		}
	}
	for _, service := range w.Services {
		if isAddressService(service) {
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

// targetTypeOf is what an ingress, or one of the workload's services behind it, says of its
// targets; the service has precedence.
func targetTypeOf(w *Workload, ingress *networkingv1.Ingress) string {
	names := backendServices(ingress)
	for _, service := range w.Services {
		if said := service.Annotations[ingressTargetType]; said != "" && slices.Contains(names, service.Name) {
			return said
		}
	}
	return ingress.Annotations[ingressTargetType]
}

func isAddressService(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		(service.Annotations[serviceTargetType] == "ip" || service.Annotations[serviceType] == "nlb-ip")
}

// nameObject names an object as findings do.
func nameObject(kind string, object metav1.Object) string {
	return kind + " " + object.GetNamespace() + "/" + object.GetName()
}

// statedDelay is the deregistration delay that one of the workload's services or ingresses sets,
// and which of them; 0 where none does.
func statedDelay(w *Workload) (where string, delay time.Duration) {
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

// usualDelay is the deregistration delay of a target group for which none was set.
const usualDelay = 300 * time.Second

// readDelay is the deregistration delay that the cloud tells of a target group of the workload's
// pods, and which binding names that; 0 where it tells none, or the usual one.
func readDelay(s *Scene, w *Workload) (where string, delay time.Duration) {
	for _, binding := range w.Bindings {
		if delay := s.Facts.Delays[binding.Spec.TargetGroup]; binding.Spec.TargetType == "ip" && delay > 0 && delay != usualDelay {
			return fmt.Sprintf("the target group of TargetGroupBinding %s/%s", binding.Namespace, binding.Name), delay
		}
	}
	return "", 0
}

// isDelayRead reports whether the cloud told the deregistration delay of a target group of the
// workload's pods.
func isDelayRead(s *Scene, w *Workload) bool {
	return slices.ContainsFunc(w.Bindings, func(b *inventory.TargetGroupBinding) bool {
		return b.Spec.TargetType == "ip" && s.Facts.Delays[b.Spec.TargetGroup] > 0
	})
}

// isFollowed reports whether the upgrade follows a target group of the service or ingress, and
// waits until its load balancer has let go of a node.
func isFollowed(s *Scene, object metav1.Object) bool {
	services := []string{object.GetName()}
	if ingress, ok := object.(*networkingv1.Ingress); ok {
		services = backendServices(ingress)
	}
	return slices.ContainsFunc(s.Bindings, func(b *inventory.TargetGroupBinding) bool {
		_, followed := s.Facts.Delays[b.Spec.TargetGroup]
		return followed && b.Namespace == object.GetNamespace() && slices.Contains(services, b.Spec.ServiceRef.Name)
	})
}

// deregistrationDelay is what annotations set, 0 where they do not.
func deregistrationDelay(annotations map[string]string) time.Duration {
	for attribute := range strings.SplitSeq(cmp.Or(annotations[ingressAttributes], annotations[serviceAttributes]), ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(attribute), "=")
		if number, err := strconv.Atoi(value); err == nil && key == "deregistration_delay.timeout_seconds" {
			return time.Duration(number) * time.Second
		}
	}
	return 0
}

// isNodeBalanced reports whether a service or ingress has a load balancer that sends to nodes.
func isNodeBalanced(object metav1.Object) bool {
	switch o := object.(type) {
	case *corev1.Service:
		return o.Spec.Type == corev1.ServiceTypeLoadBalancer && !isAddressService(o)
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
