// Package inventory has the table of the kinds that are read of a cluster, and holds their objects as they were read, from its
// API server or from a file.
package inventory

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Objects are the objects of a cluster as they were read, by kind. Of each there is what
// package trim keeps.
type Objects struct {
	Nodes        []*corev1.Node
	Pods         []*corev1.Pod
	Namespaces   []*corev1.Namespace
	Quotas       []*corev1.ResourceQuota
	Budgets      []*policyv1.PodDisruptionBudget
	Deployments  []*appsv1.Deployment
	ReplicaSets  []*appsv1.ReplicaSet
	StatefulSets []*appsv1.StatefulSet
	DaemonSets   []*appsv1.DaemonSet
	Jobs         []*batchv1.Job
	Claims       []*corev1.PersistentVolumeClaim
	Volumes      []*corev1.PersistentVolume
	// CSINodes tell how many volumes each node may attach, ResourceClaims which devices pods have.
	CSINodes       []*storagev1.CSINode
	ResourceClaims []*resourcev1.ResourceClaim

	Services   []*corev1.Service
	Ingresses  []*networkingv1.Ingress
	Scalers    []*autoscalingv2.HorizontalPodAutoscaler
	Mutating   []*admissionv1.MutatingWebhookConfiguration
	Validating []*admissionv1.ValidatingWebhookConfiguration
	// ConfigMaps are those that hold the descheduler's policy.
	ConfigMaps []*corev1.ConfigMap
	// Bindings bind services to target groups of AWS load balancers.
	Bindings []*TargetGroupBinding
	// Unread are the kinds, as RBAC names them, of whose objects not all are known: the user may not list them or, where
	// IsDump, the dump has none of them and no empty list of them either, or has some in a version that is not read.
	Unread []string
	IsDump bool
	// OtherVersions has the apiVersion of objects that a dump has and that were not read, and what to do about it, by the kind as in
	// Unread.
	OtherVersions map[string]string
}

// WhyUnread says which of the kinds were not read, and why; "" when all were.
func (o *Objects) WhyUnread(kinds ...string) string {
	unread := slices.DeleteFunc(slices.Clone(o.Unread), func(kind string) bool { return !slices.Contains(kinds, kind) })
	switch {
	case len(unread) == 0:
		return ""
	case o.IsDump:
		return "the dump has " + o.describeMissing(unread)
	default:
		return "you may not list " + strings.Join(unread, ", ")
	}
}

// describeMissing says which of the kinds the dump does not have, and which it has in a version that is not read.
func (o *Objects) describeMissing(unread []string) string {
	var others []string
	for _, kind := range Kinds() {
		version, found := o.OtherVersions[kind.Resource]
		if found && slices.Contains(unread, kind.Resource) {
			others = append(others, kind.Resource+" of "+version)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(unread), func(kind string) bool { return o.OtherVersions[kind] != "" })
	if len(missing) > 0 {
		others = slices.Insert(others, 0, "no "+strings.Join(missing, ", "))
	}
	return strings.Join(others, "; and ")
}

// Facts returns which pods others need, as far as services and admission webhooks were read.
func (o *Objects) Facts() drain.Facts {
	webhooks := drain.Webhooks{}
	for _, config := range o.Mutating {
		webhooks.AddMutating(config)
	}
	for _, config := range o.Validating {
		webhooks.AddValidating(config)
	}
	return webhooks.FactsOf(o.Services)
}

// EndingNamespaces are those that are being deleted.
func (o *Objects) EndingNamespaces() map[string]bool {
	ending := map[string]bool{}
	for _, namespace := range o.Namespaces {
		if namespace.Status.Phase == corev1.NamespaceTerminating {
			ending[namespace.Name] = true
		}
	}
	return ending
}

// TargetGroupBinding is what is read of an object of the AWS Load Balancer Controller.
type TargetGroupBinding struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              TargetGroupBindingSpec `json:"spec"`
}

// TargetGroupBindingSpec binds a service of the binding's namespace to a target group.
type TargetGroupBindingSpec struct {
	// TargetType is "ip" or "instance".
	TargetType string `json:"targetType"`
	// TargetGroup is the target group's ARN. The controller's webhook fills it in where the object has the group's name.
	TargetGroup string `json:"targetGroupARN"`
	ServiceRef  struct {
		Name string `json:"name"`
	} `json:"serviceRef"`
}
