package dump

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// kind is one that says something about an upgrade.
type kind struct {
	// plural is what RBAC calls it.
	plural     string
	namespaced bool
	// keep decodes an object and puts what is needed of it into the dump; nil where its pods say it
	// all.
	keep func(*collector, []byte, identity) error
}

// kindsOf are keyed by apiVersion/kind, and keep their objects in the given dump.
func kindsOf(d *Dump) map[string]kind {
	return map[string]kind{
		"v1/Node":                                  {plural: "nodes", keep: keepIn(&d.Nodes)},
		"v1/Pod":                                   {plural: "pods", namespaced: true, keep: keepIn(&d.Pods)},
		"v1/Namespace":                             {plural: "namespaces", keep: keepIn(&d.Namespaces)},
		"v1/ResourceQuota":                         {plural: "resourcequotas", namespaced: true, keep: keepIn(&d.Quotas)},
		"v1/PersistentVolume":                      {plural: "persistentvolumes", keep: keepIn(&d.Volumes)},
		"v1/PersistentVolumeClaim":                 {plural: "persistentvolumeclaims", namespaced: true, keep: keepIn(&d.Claims)},
		"storage.k8s.io/v1/CSINode":                {plural: "csinodes", keep: keepIn(&d.CSINodes)},
		"resource.k8s.io/v1/ResourceClaim":         {plural: "resourceclaims", namespaced: true, keep: keepIn(&d.ResourceClaims)},
		"policy/v1/PodDisruptionBudget":            {plural: "poddisruptionbudgets", namespaced: true, keep: keepIn(&d.Budgets)},
		"apps/v1/ReplicaSet":                       {plural: "replicasets", namespaced: true, keep: keepIn(&d.ReplicaSets)},
		"apps/v1/StatefulSet":                      {plural: "statefulsets", namespaced: true, keep: keepIn(&d.StatefulSets)},
		"apps/v1/Deployment":                       {plural: "deployments", namespaced: true, keep: keepIn(&d.Deployments)},
		"apps/v1/DaemonSet":                        {plural: "daemonsets", namespaced: true, keep: keepIn(&d.DaemonSets)},
		"batch/v1/Job":                             {plural: "jobs", namespaced: true, keep: keepIn(&d.Jobs)},
		"networking.k8s.io/v1/Ingress":             {plural: "ingresses", namespaced: true, keep: keepIn(&d.Ingresses)},
		"v1/ConfigMap":                             {plural: "configmaps", namespaced: true, keep: keepIn(&d.ConfigMaps)},
		"autoscaling/v2/HorizontalPodAutoscaler":   {plural: "horizontalpodautoscalers", namespaced: true, keep: keepIn(&d.Scalers)},
		"elbv2.k8s.aws/v1beta1/TargetGroupBinding": {plural: "targetgroupbindings", namespaced: true, keep: (*collector).keepBinding},
		"v1/Service":                               {plural: "services", namespaced: true, keep: keepIn(&d.Services)},
		"admissionregistration.k8s.io/v1/MutatingWebhookConfiguration":   {plural: "mutatingwebhookconfigurations", keep: keepIn(&d.Mutating)},
		"admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration": {plural: "validatingwebhookconfigurations", keep: keepIn(&d.Validating)},
	}
}

// keepIn trims objects of one kind and appends them to a list of the dump.
func keepIn[T any, P interface {
	*T
	metav1.Object
}](list *[]P) func(*collector, []byte, identity) error {
	return func(c *collector, raw []byte, id identity) error {
		var object P = new(T)
		if err := c.decodeObject(raw, object); err != nil {
			return err
		}
		c.noteTimes(object)
		c.trim(object)
		uid, err := c.claimUID(object.GetUID(), id)
		object.SetUID(uid)
		object.SetNamespace(id.namespace)
		*list = append(*list, object)
		return err
	}
}

func (c *collector) keepBinding(raw []byte, id identity) error {
	var object inventory.BindingObject
	err := c.decodeObject(raw, &object)
	binding := object.Binding()
	binding.Namespace = id.namespace
	c.dump.Bindings = append(c.dump.Bindings, binding)
	return err
}

// noteTimes notes the moments that an object tells of, before it is trimmed.
func (c *collector) noteTimes(object metav1.Object) {
	times := []metav1.Time{object.GetCreationTimestamp()}
	switch o := object.(type) {
	case *corev1.Node:
		for i := range o.Status.Conditions {
			times = append(times, o.Status.Conditions[i].LastHeartbeatTime, o.Status.Conditions[i].LastTransitionTime)
		}
	case *corev1.Pod:
		for i := range o.Status.Conditions {
			times = append(times, o.Status.Conditions[i].LastTransitionTime)
		}
	}
	for _, at := range times {
		if at.After(c.dump.Taken) {
			c.dump.Taken = at.UTC().Truncate(time.Second)
		}
	}
}

// fillOwnerUIDs gives references to owners that have no UID, as written by hand, the UID of the
// object they name, or the one it would get.
func (c *collector) fillOwnerUIDs() {
	uids := make(map[identity]types.UID, len(c.uids))
	for uid, id := range c.uids {
		uids[id] = uid
	}
	for _, pod := range c.dump.Pods {
		for i := range pod.OwnerReferences {
			owner := &pod.OwnerReferences[i]
			id := identity{kind: owner.Kind, namespace: pod.Namespace, name: owner.Name}
			owner.UID = cmp.Or(owner.UID, uids[id], makeUID(id))
		}
	}
}
