// Package inventory has the table of all kinds that are read from a cluster. It also has the type that contains their objects,
// read from an API server or from a file.
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
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
)

// Objects are the objects of a cluster, by kind. They have only the fields that package trim keeps.
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
	// CSINodes have the number of volumes that each node may attach, ResourceClaims the devices of pods.
	CSINodes       []*storagev1.CSINode
	ResourceClaims []*resourcev1.ResourceClaim

	Services   []*corev1.Service
	Ingresses  []*networkingv1.Ingress
	Scalers    []*autoscalingv2.HorizontalPodAutoscaler
	Mutating   []*admissionv1.MutatingWebhookConfiguration
	Validating []*admissionv1.ValidatingWebhookConfiguration
	// ConfigMaps are the ConfigMaps with the descheduler's policy.
	ConfigMaps []*corev1.ConfigMap
	// Bindings bind services to target groups of AWS load balancers.
	Bindings []*TargetGroupBinding
	// NodePools and NodeClaims are Karpenter's.
	NodePools  []*nodepool.NodePool
	NodeClaims []*nodepool.NodeClaim
	// Unread lists the kinds, as RBAC names them, that were not read completely. Without IsDump the user may not list them. With
	// IsDump the dump has neither objects nor an empty list of the kind, or has some objects in a version that is not supported.
	Unread []string
	IsDump bool
	// OtherVersions has the unsupported apiVersion of objects in a dump and the remedy, by the kind as in Unread.
	OtherVersions map[string]string
}

// DescribeUnread returns which of the kinds were not read, and why; "" if all were.
func (o *Objects) DescribeUnread(kinds ...string) string {
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

// describeMissing returns which of the kinds the dump lacks, and which it has in an unsupported version.
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

// Facts returns which pods others depend on, according to the services and admission webhooks that were read.
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

// EndingNamespaces returns the namespaces that are being deleted.
func (o *Objects) EndingNamespaces() map[string]bool {
	ending := map[string]bool{}
	for _, namespace := range o.Namespaces {
		if namespace.Status.Phase == corev1.NamespaceTerminating {
			ending[namespace.Name] = true
		}
	}
	return ending
}

// TargetGroupBinding is the part of the AWS Load Balancer Controller's object that is read.
type TargetGroupBinding struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              TargetGroupBindingSpec `json:"spec"`
}

// TargetGroupBindingSpec binds a Service of the binding's namespace to a target group.
type TargetGroupBindingSpec struct {
	// TargetType is "ip" or "instance".
	TargetType string `json:"targetType"`
	// TargetGroup is the target group's ARN. If the object has only the group's name, the controller's webhook sets the ARN.
	TargetGroup string `json:"targetGroupARN"`
	ServiceRef  struct {
		Name string `json:"name"`
	} `json:"serviceRef"`
}
