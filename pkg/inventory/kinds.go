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

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
)

// Use is a purpose for which objects are read. A Kind has a set of them, joined by |.
type Use uint8

const (
	// ForChecks is for the rules of package preflight, and for a plan that contains their findings.
	ForChecks Use = 1 << iota
	// ForForecasts is for a forecast that already has nodes, pods and budgets: controllers, volumes and services.
	ForForecasts
	// ForViews is for a View without pods.
	ForViews
	// ForFacts is only for Objects.Facts.
	ForFacts
	// ForMoves is for drain.Movable, the pods that a restart may move.
	ForMoves
	// ForBalancers is for finding the target groups of load balancers.
	ForBalancers
	// ForNodePools is for the provider of Karpenter's NodePools.
	ForNodePools
)

// Kind is a kind of objects, and how it is read.
type Kind struct {
	// Resource is the plural name in RBAC and in the API's paths: "persistentvolumes".
	Resource string
	// APIVersion and Name are the apiVersion and kind of the objects: "apps/v1" and "Deployment".
	APIVersion, Name string
	Namespaced       bool
	// Short is the name in the command that prints a dump, "" if the command omits the kind.
	Short string
	// Required and Optional are the uses that read the kind. If the user may not list it, the required uses fail, and the
	// optional uses continue without it.
	Required, Optional Use
	// MayBeAbsent is true if the API of some clusters lacks this kind.
	MayBeAbsent bool
	// Names, unless empty, are the only objects that are read. Each is read by its name from namespace kube-system.
	Names []string
	typed
}

// Group returns the API group, "" for the core API.
func (k *Kind) Group() string {
	group, _, isNamed := strings.Cut(k.APIVersion, "/")
	if !isNamed {
		return ""
	}
	return group
}

// Versioned returns the kind with its version as kubectl get takes it: "poddisruptionbudgets.v1.policy".
func (k *Kind) Versioned() string {
	version := strings.TrimPrefix(k.APIVersion, k.Group()+"/")
	return k.Resource + "." + version + "." + k.Group()
}

// Path returns the path of the kind's API, without the resource: "/api/v1" or "/apis/apps/v1".
func (k *Kind) Path() string {
	if k.Group() == "" {
		return "/api/" + k.APIVersion
	}
	return "/apis/" + k.APIVersion
}

// IsReadFor reports whether the kind is read for one of the uses.
func (k *Kind) IsReadFor(use Use) bool { return (k.Required|k.Optional)&use != 0 }

// typed creates and stores objects of a kind's Go type.
type typed struct {
	create func() metav1.Object
	keep   func(*Objects, metav1.Object)
}

// New returns an empty object of the kind's Go type.
func (t typed) New() metav1.Object { return t.create() }

// Keep appends an object that New made to the kind's list of o.
func (t typed) Keep(o *Objects, object metav1.Object) { t.keep(o, object) }

// listed returns a typed that appends objects to the list of Objects that field returns.
func listed[T any, P interface {
	*T
	metav1.Object
}](field func(*Objects) *[]P) typed {
	return typed{
		create: func() metav1.Object { return P(new(T)) },
		keep: func(o *Objects, object metav1.Object) {
			if own, ok := object.(P); ok {
				list := field(o)
				*list = append(*list, own)
			}
		},
	}
}

// Kinds returns every kind that is read from a cluster. The kinds of the dump command come first, in its order.
func Kinds() []Kind {
	return slices.Concat(podKinds(), controllerKinds(), serviceKinds(), volumeKinds(), admissionKinds(), otherKinds())
}

// FindKind returns the kind of the resource, the zero Kind if there is none.
func FindKind(resource string) Kind {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Resource == resource })
	if i < 0 {
		return Kind{}
	}
	return kinds[i]
}

func podKinds() []Kind {
	return []Kind{
		{
			Resource: "nodes", APIVersion: "v1", Name: "Node", Short: "nodes", Required: ForChecks | ForViews,
			typed: listed(func(o *Objects) *[]*corev1.Node { return &o.Nodes }),
		},
		{
			Resource: "namespaces", APIVersion: "v1", Name: "Namespace", Short: "namespaces", Required: ForChecks | ForViews, Optional: ForForecasts,
			typed: listed(func(o *Objects) *[]*corev1.Namespace { return &o.Namespaces }),
		},
		{
			Resource: "pods", APIVersion: "v1", Name: "Pod", Namespaced: true, Short: "pods", Required: ForChecks,
			typed: listed(func(o *Objects) *[]*corev1.Pod { return &o.Pods }),
		},
		{
			Resource: "poddisruptionbudgets", APIVersion: "policy/v1", Name: "PodDisruptionBudget", Namespaced: true, Short: "pdb", Required: ForChecks | ForViews,
			typed: listed(func(o *Objects) *[]*policyv1.PodDisruptionBudget { return &o.Budgets }),
		},
	}
}

func controllerKinds() []Kind {
	return []Kind{
		{
			Resource: "deployments", APIVersion: "apps/v1", Name: "Deployment", Namespaced: true, Short: "deploy", Required: ForMoves, Optional: ForChecks | ForForecasts,
			typed: listed(func(o *Objects) *[]*appsv1.Deployment { return &o.Deployments }),
		},
		{
			Resource: "replicasets", APIVersion: "apps/v1", Name: "ReplicaSet", Namespaced: true, Short: "rs", Optional: ForChecks | ForForecasts,
			typed: listed(func(o *Objects) *[]*appsv1.ReplicaSet { return &o.ReplicaSets }),
		},
		{
			Resource: "statefulsets", APIVersion: "apps/v1", Name: "StatefulSet", Namespaced: true, Short: "sts", Optional: ForChecks | ForForecasts,
			typed: listed(func(o *Objects) *[]*appsv1.StatefulSet { return &o.StatefulSets }),
		},
		{
			Resource: "daemonsets", APIVersion: "apps/v1", Name: "DaemonSet", Namespaced: true, Short: "ds", Optional: ForChecks,
			typed: listed(func(o *Objects) *[]*appsv1.DaemonSet { return &o.DaemonSets }),
		},
		{
			Resource: "jobs", APIVersion: "batch/v1", Name: "Job", Namespaced: true, Short: "jobs", Optional: ForChecks,
			typed: listed(func(o *Objects) *[]*batchv1.Job { return &o.Jobs }),
		},
		{
			Resource: "horizontalpodautoscalers", APIVersion: "autoscaling/v2", Name: "HorizontalPodAutoscaler", Namespaced: true, Short: "hpa", Optional: ForChecks,
			typed: listed(func(o *Objects) *[]*autoscalingv2.HorizontalPodAutoscaler { return &o.Scalers }),
		},
	}
}

func serviceKinds() []Kind {
	return []Kind{
		{
			Resource: "services", APIVersion: "v1", Name: "Service", Namespaced: true, Short: "svc", Optional: ForChecks | ForForecasts | ForFacts,
			typed: listed(func(o *Objects) *[]*corev1.Service { return &o.Services }),
		},
		{
			Resource: "ingresses", APIVersion: "networking.k8s.io/v1", Name: "Ingress", Namespaced: true, Short: "ingress", Optional: ForChecks,
			typed: listed(func(o *Objects) *[]*networkingv1.Ingress { return &o.Ingresses }),
		},
	}
}

func volumeKinds() []Kind {
	return []Kind{
		{
			Resource: "resourcequotas", APIVersion: "v1", Name: "ResourceQuota", Namespaced: true, Short: "quota", Optional: ForChecks,
			typed: listed(func(o *Objects) *[]*corev1.ResourceQuota { return &o.Quotas }),
		},
		{
			Resource: "persistentvolumeclaims", APIVersion: "v1", Name: "PersistentVolumeClaim", Namespaced: true, Short: "pvc",
			Required: ForMoves, Optional: ForChecks | ForForecasts,
			typed: listed(func(o *Objects) *[]*corev1.PersistentVolumeClaim { return &o.Claims }),
		},
		{
			Resource: "persistentvolumes", APIVersion: "v1", Name: "PersistentVolume", Short: "pv", Optional: ForChecks | ForForecasts,
			typed: listed(func(o *Objects) *[]*corev1.PersistentVolume { return &o.Volumes }),
		},
		{
			Resource: "csinodes", APIVersion: "storage.k8s.io/v1", Name: "CSINode", Short: "csinodes", Optional: ForForecasts,
			typed: listed(func(o *Objects) *[]*storagev1.CSINode { return &o.CSINodes }),
		},
	}
}

func admissionKinds() []Kind {
	return []Kind{
		{
			Resource: "mutatingwebhookconfigurations", APIVersion: "admissionregistration.k8s.io/v1", Name: "MutatingWebhookConfiguration",
			Short: "mutatingwebhookconfigurations", Optional: ForChecks | ForForecasts | ForFacts,
			typed: listed(func(o *Objects) *[]*admissionv1.MutatingWebhookConfiguration { return &o.Mutating }),
		},
		{
			Resource: "validatingwebhookconfigurations", APIVersion: "admissionregistration.k8s.io/v1", Name: "ValidatingWebhookConfiguration",
			Short: "validatingwebhookconfigurations", Optional: ForChecks | ForForecasts | ForFacts,
			typed: listed(func(o *Objects) *[]*admissionv1.ValidatingWebhookConfiguration { return &o.Validating }),
		},
	}
}

// otherKinds are not in the command that prints a dump: kubectl fails for a kind that the cluster lacks, and there may be many
// ConfigMaps.
func otherKinds() []Kind {
	return []Kind{
		{
			Resource: "resourceclaims", APIVersion: "resource.k8s.io/v1", Name: "ResourceClaim", Namespaced: true, Optional: ForChecks | ForForecasts, MayBeAbsent: true,
			typed: listed(func(o *Objects) *[]*resourcev1.ResourceClaim { return &o.ResourceClaims }),
		},
		{
			Resource: "targetgroupbindings", APIVersion: "elbv2.k8s.aws/v1beta1", Name: "TargetGroupBinding", Namespaced: true,
			Optional: ForChecks | ForBalancers, MayBeAbsent: true,
			typed: listed(func(o *Objects) *[]*TargetGroupBinding { return &o.Bindings }),
		},
		{
			Resource: "nodepools", APIVersion: nodepool.APIVersion, Name: "NodePool", Optional: ForChecks | ForNodePools, MayBeAbsent: true,
			typed: listed(func(o *Objects) *[]*nodepool.NodePool { return &o.NodePools }),
		},
		{
			Resource: "nodeclaims", APIVersion: nodepool.APIVersion, Name: "NodeClaim", Optional: ForChecks | ForNodePools, MayBeAbsent: true,
			typed: listed(func(o *Objects) *[]*nodepool.NodeClaim { return &o.NodeClaims }),
		},
		{ // names of the policy in the descheduler's chart and in its manifests
			Resource: "configmaps", APIVersion: "v1", Name: "ConfigMap", Namespaced: true, Optional: ForChecks, Names: []string{"descheduler", "descheduler-policy-configmap"},
			typed: listed(func(o *Objects) *[]*corev1.ConfigMap { return &o.ConfigMaps }),
		},
	}
}
