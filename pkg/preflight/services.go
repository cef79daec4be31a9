package preflight

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// CheckServices implements rule LB006: a service that is reachable only on nodes with its pods
// loses traffic if several of these nodes are drained concurrently (GKE G21).
func CheckServices(members []nodegroup.Member, r *record.Request, services []*corev1.Service) []Finding {
	if r.Window < 2 || r.ReplacedBy().Traits().Expires {
		return nil
	}
	var found []Finding
	for _, service := range services {
		nodes := countNodesServing(members, service)
		if nodes < 2 || service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
			continue
		}
		found = append(found, Finding{
			Rule: "LB006", Severity: Warn, Object: "Service " + service.Namespace + "/" + service.Name,
			Message: fmt.Sprintf("with externalTrafficPolicy: Local only nodes with its pods accept requests, and %d of these nodes may be drained at the same time", min(nodes, r.Window)),
			Remedy:  "drain one node at a time, or set the policy to Cluster until the upgrade is over",
		})
	}
	return found
}

// countNodesServing returns the number of outdated nodes with pods of the service.
func countNodesServing(members []nodegroup.Member, service *corev1.Service) (n int) {
	if len(service.Spec.Selector) == 0 {
		return 0 // its endpoints were written by hand
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for i := range members {
		for _, pod := range members[i].Pods {
			if members[i].Outdated && pod.Namespace == service.Namespace && selector.Matches(labels.Set(pod.Labels)) {
				n++
				break
			}
		}
	}
	return n
}
