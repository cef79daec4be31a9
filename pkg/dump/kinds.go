package dump

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// kind is one that says something about an upgrade.
type kind struct {
	namespaced bool
	// keep decodes an object and puts what is needed of it into the dump; nil where its pods say it
	// all.
	keep func(*collector, []byte, identity) error
}

// kinds are keyed by apiVersion/kind.
func kinds() map[string]kind {
	return map[string]kind{
		"v1/Node":                       {keep: (*collector).keepNode},
		"v1/Pod":                        {namespaced: true, keep: (*collector).keepPod},
		"v1/Namespace":                  {keep: (*collector).keepNamespace},
		"v1/PersistentVolume":           {keep: (*collector).keepVolume},
		"v1/PersistentVolumeClaim":      {namespaced: true, keep: (*collector).keepClaim},
		"policy/v1/PodDisruptionBudget": {namespaced: true, keep: (*collector).keepBudget},
		"apps/v1/ReplicaSet":            {namespaced: true, keep: (*collector).keepReplicaSet},
		"apps/v1/StatefulSet":           {namespaced: true, keep: (*collector).keepStatefulSet},
		"apps/v1/Deployment":            {namespaced: true, keep: (*collector).keepDeployment},
		"apps/v1/DaemonSet":             {namespaced: true},
		"v1/Service":                    {namespaced: true, keep: (*collector).keepService},
		"admissionregistration.k8s.io/v1/MutatingWebhookConfiguration":   {keep: (*collector).keepMutating},
		"admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration": {keep: (*collector).keepValidating},
	}
}

// meta settles what the object is called.
func (c *collector) meta(m *metav1.ObjectMeta, id identity) (err error) {
	m.Namespace = id.namespace
	c.saw(m.CreationTimestamp)
	m.UID, err = c.claim(m.UID, id)
	return err
}

// saw notes a moment that an object tells of.
func (c *collector) saw(at metav1.Time) {
	if at.After(c.dump.Taken) {
		c.dump.Taken = at.UTC().Truncate(time.Second)
	}
}

func (c *collector) keepNode(raw []byte, id identity) error {
	node := &corev1.Node{}
	if err := c.decode(raw, node); err != nil {
		return err
	}
	for i := range node.Status.Conditions {
		c.saw(node.Status.Conditions[i].LastHeartbeatTime)
		c.saw(node.Status.Conditions[i].LastTransitionTime)
	}
	trim.Object(node)
	node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil
	c.dump.Nodes = append(c.dump.Nodes, node)
	return c.meta(&node.ObjectMeta, id)
}

func (c *collector) keepPod(raw []byte, id identity) error {
	pod := &corev1.Pod{}
	if err := c.decode(raw, pod); err != nil {
		return err
	}
	for i := range pod.Status.Conditions {
		c.saw(pod.Status.Conditions[i].LastTransitionTime)
	}
	trim.Object(pod)
	c.dump.Pods = append(c.dump.Pods, pod)
	return c.meta(&pod.ObjectMeta, id)
}

func (c *collector) keepNamespace(raw []byte, id identity) error {
	namespace := &corev1.Namespace{}
	if err := c.decode(raw, namespace); err != nil {
		return err
	}
	if namespace.Status.Phase == corev1.NamespaceTerminating {
		c.dump.EndingNamespaces[id.name] = true
	}
	return nil
}

func (c *collector) keepBudget(raw []byte, id identity) error {
	budget := &policyv1.PodDisruptionBudget{}
	if err := c.decode(raw, budget); err != nil {
		return err
	}
	trim.Object(budget)
	c.dump.Budgets = append(c.dump.Budgets, budget)
	return c.meta(&budget.ObjectMeta, id)
}

func (c *collector) keepDeployment(raw []byte, id identity) error {
	deployment := &appsv1.Deployment{}
	if err := c.decode(raw, deployment); err != nil {
		return err
	}
	trim.Object(deployment)
	c.dump.Deployments = append(c.dump.Deployments, deployment)
	return c.meta(&deployment.ObjectMeta, id)
}

func (c *collector) keepReplicaSet(raw []byte, id identity) error {
	set := &appsv1.ReplicaSet{}
	if err := c.decode(raw, set); err != nil {
		return err
	}
	trim.Object(set)
	c.dump.ReplicaSets = append(c.dump.ReplicaSets, set)
	return c.meta(&set.ObjectMeta, id)
}

func (c *collector) keepStatefulSet(raw []byte, id identity) error {
	set := &appsv1.StatefulSet{}
	if err := c.decode(raw, set); err != nil {
		return err
	}
	trim.Object(set)
	c.dump.StatefulSets = append(c.dump.StatefulSets, set)
	return c.meta(&set.ObjectMeta, id)
}

func (c *collector) keepClaim(raw []byte, id identity) error {
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.decode(raw, claim); err != nil {
		return err
	}
	trim.Object(claim)
	c.dump.Claims = append(c.dump.Claims, claim)
	return c.meta(&claim.ObjectMeta, id)
}

func (c *collector) keepVolume(raw []byte, id identity) error {
	volume := &corev1.PersistentVolume{}
	if err := c.decode(raw, volume); err != nil {
		return err
	}
	trim.Object(volume)
	c.dump.Volumes = append(c.dump.Volumes, volume)
	return c.meta(&volume.ObjectMeta, id)
}

func (c *collector) keepService(raw []byte, id identity) error {
	service := &corev1.Service{}
	if err := c.decode(raw, service); err != nil {
		return err
	}
	trim.Object(service)
	c.dump.Services = append(c.dump.Services, service)
	return c.meta(&service.ObjectMeta, id)
}

func (c *collector) keepMutating(raw []byte, id identity) error {
	config := &admissionv1.MutatingWebhookConfiguration{}
	if err := c.decode(raw, config); err != nil {
		return err
	}
	trim.Object(config)
	c.dump.Mutating = append(c.dump.Mutating, config)
	return c.meta(&config.ObjectMeta, id)
}

func (c *collector) keepValidating(raw []byte, id identity) error {
	config := &admissionv1.ValidatingWebhookConfiguration{}
	if err := c.decode(raw, config); err != nil {
		return err
	}
	trim.Object(config)
	c.dump.Validating = append(c.dump.Validating, config)
	return c.meta(&config.ObjectMeta, id)
}

// adopt gives references to owners that have no UID, as written by hand, the UID of the object they
// name, or the one it would get.
func (c *collector) adopt() {
	uids := make(map[identity]types.UID, len(c.uids))
	for uid, id := range c.uids {
		uids[id] = uid
	}
	for _, pod := range c.dump.Pods {
		for i := range pod.OwnerReferences {
			owner := &pod.OwnerReferences[i]
			if owner.UID != "" {
				continue
			}
			id := identity{kind: owner.Kind, namespace: pod.Namespace, name: owner.Name}
			if owner.UID = uids[id]; owner.UID == "" {
				owner.UID = madeUID(id)
			}
		}
	}
}
