package preflight

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// systemRules returns the rules about workloads that all others, and the upgrade itself, depend on.
func systemRules() []Rule {
	return []Rule{
		{
			ID: "SYS001", Severity: Error, Reads: []string{budgetKind}, find: perWorkload(findWeakDNS),
			Text:   "The cluster's DNS has a single replica, has all ready replicas on one outdated node, or has no budget. While none of its pods is ready, no name resolves in the cluster. That also affects new nodes and the pods that move.",
			Source: "kubeadm#1672, kubeadm#1657",
		},
		{
			ID: "SYS002", Severity: Warn, Reads: []string{budgetKind}, find: perWorkload(findWeakController),
			Text:   "A controller that the upgrade needs (cluster-autoscaler, Karpenter, the AWS Load Balancer Controller, a CSI driver's controller) must leave an outdated node, and has a single replica, all ready replicas on one node, or no budget. Its work for the pods that move is delayed until it is ready again.",
			Source: "this project; kubernetes-sigs/aws-load-balancer-controller#1719",
		},
	}
}

// dnsLabel is the value of k8s-app on the pods of the cluster's DNS, whichever server it uses.
const dnsLabel = "kube-dns"

func isDNS(w *Workload) bool {
	return w.Kind == "Deployment" && w.Namespace == metav1.NamespaceSystem && w.Model().Labels["k8s-app"] == dnsLabel
}

// findWeakDNS implements rule SYS001.
func findWeakDNS(s *Scene, w *Workload) *Finding {
	if !isDNS(w) {
		return nil
	}
	f := s.findOutageRisk(w)
	if f != nil {
		f.Message = "the cluster's DNS " + f.Message
	}
	return f
}

// findWeakController implements rule SYS002.
func findWeakController(s *Scene, w *Workload) *Finding {
	name, work := describeController(w)
	if name == "" {
		return nil
	}
	f := s.findOutageRisk(w)
	if f != nil {
		f.Message = fmt.Sprintf("%s %s; while it moves, %s", name, f.Message, work)
		f.Remedy += ", or drain its node last"
	}
	return f
}

// describeController returns the name of a controller that the upgrade needs, and what waits
// without it. It returns "" for other workloads.
func describeController(w *Workload) (name, work string) {
	if !w.IsScaled() {
		return "", ""
	}
	labels := w.Model().Labels
	has := func(app string) bool {
		for _, key := range []string{"app.kubernetes.io/name", "k8s-app", "app"} {
			if value := labels[key]; value == app || strings.HasSuffix(value, "-"+app) {
				return true
			}
		}
		return w.Name == app
	}
	switch {
	case has("cluster-autoscaler"):
		return "cluster-autoscaler", "no node is added for Pending pods"
	case has("karpenter"):
		return "Karpenter", "no node is added for Pending pods"
	case has("aws-load-balancer-controller"):
		return "the AWS Load Balancer Controller", "no pod is registered with a target group or deregistered"
	case drain.TierOf(w.Model(), drain.Facts{}) == drain.Storage:
		return "the CSI driver's controller", "no volume is attached or detached"
	default:
		return "", ""
	}
}

// findOutageRisk returns a finding if a drain may leave the workload without a ready pod. Otherwise it returns nil. The
// finding has the reasons and the remedies.
func (s *Scene) findOutageRisk(w *Workload) *Finding {
	var faults, remedies, fixes []string
	note := func(fault, remedy, fix string) {
		faults, remedies = append(faults, fault), append(remedies, remedy)
		if fix != "" {
			fixes = append(fixes, fix)
		}
	}
	at := s.locateReadyPods(w)
	switch {
	case w.Replicas() < 2 && !isMovedBySurge(s.World, w.Model()):
		note("a single replica", "run 2 replicas", w.secondReplicaCommand())
	case at.pods > 0 && len(at.nodes) == 1 && at.isLeaving:
		note("all of its ready pods on node "+at.nodes.UnsortedList()[0], "spread it over nodes with topologySpreadConstraints", "")
	}
	if len(w.Budgets) == 0 {
		note("no budget", "give it a PodDisruptionBudget with maxUnavailable: 1", w.createBudgetCommand())
	}
	if len(faults) == 0 {
		return nil
	}
	return &Finding{Message: "has " + strings.Join(faults, " and "), Remedy: strings.Join(remedies, " and "), Fix: strings.Join(fixes, " && ")}
}
