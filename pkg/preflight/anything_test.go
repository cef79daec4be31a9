package preflight_test

import (
	"math/rand"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

var shared = map[string]string{"app": "web"}

// drawObjects returns three random objects of a kind that are related to each other.
func drawObjects[T any, P interface {
	*T
	metav1.Object
}](fill *randfill.Filler) []P {
	var all []P
	for range 3 {
		var object P = new(T)
		fill.Fill(object)
		object.SetNamespace("shop")
		object.SetLabels(shared)
		all = append(all, object)
	}
	return all
}

// TestRulesTakeAnyObjects checks that a plan gets an answer for any objects.
func TestRulesTakeAnyObjects(t *testing.T) {
	found := map[string]bool{}
	for seed := range int64(400) {
		fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), serializer.NewCodecFactory(scheme.Scheme))
		o := &inventory.Objects{
			Pods: drawObjects[corev1.Pod](fill), Namespaces: drawObjects[corev1.Namespace](fill), Budgets: drawObjects[policyv1.PodDisruptionBudget](fill),
			Deployments: drawObjects[appsv1.Deployment](fill), ReplicaSets: drawObjects[appsv1.ReplicaSet](fill), StatefulSets: drawObjects[appsv1.StatefulSet](fill),
			DaemonSets: drawObjects[appsv1.DaemonSet](fill), Jobs: drawObjects[batchv1.Job](fill), Claims: drawObjects[corev1.PersistentVolumeClaim](fill),
			Volumes: drawObjects[corev1.PersistentVolume](fill), Services: drawObjects[corev1.Service](fill), Ingresses: drawObjects[networkingv1.Ingress](fill),
			Scalers: drawObjects[autoscalingv2.HorizontalPodAutoscaler](fill), Mutating: drawObjects[admissionv1.MutatingWebhookConfiguration](fill),
			Validating: drawObjects[admissionv1.ValidatingWebhookConfiguration](fill), ConfigMaps: drawObjects[corev1.ConfigMap](fill), Nodes: drawObjects[corev1.Node](fill),
		}
		relateObjects(o)
		trimAll(o)
		w := &upgrade.World{Snapshot: drain.Snapshot{Budgets: drain.NewBudgets(o.Budgets)}, Members: []nodegroup.Member{{Node: o.Nodes[0], Outdated: true, Pods: o.Pods}}}
		fill.Fill(&w.Request)
		w.Request.Strategy = record.Surge
		for _, f := range preflight.Check(preflight.NewScene(w, preflight.Facts{ServerVersion: "v1.34.0"}, o), preflight.Catalogue(), nil) {
			found[f.Rule] = true
		}
	}
	if len(found) < 10 {
		t.Errorf("only the rules %v found anything", found)
	}
}

// relateObjects makes the objects select, own and use each other.
func relateObjects(o *inventory.Objects) {
	deployment, replicaSet := appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	for i, pod := range o.Pods {
		pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp = o.Nodes[0].Name, corev1.PodRunning, nil
		pod.Annotations = nil
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.ReplicaSets[min(i, 1)], replicaSet)}
		o.ReplicaSets[i].OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.Deployments[i], deployment)}
		o.Services[i].Spec.Selector = shared
		o.Budgets[i].Spec.Selector = &metav1.LabelSelector{MatchLabels: shared}
	}
}

func trimAll(o *inventory.Objects) {
	for i := range o.Pods {
		for _, object := range []any{o.Pods[i], o.Budgets[i], o.Deployments[i], o.ReplicaSets[i], o.StatefulSets[i], o.Services[i], o.Volumes[i], o.Claims[i]} {
			trim.ForChecks(object)
		}
	}
}
