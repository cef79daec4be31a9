package dump

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// kindsByType returns the supported kinds, by apiVersion/kind.
func kindsByType() map[string]*inventory.Kind {
	byType := map[string]*inventory.Kind{}
	for _, kind := range inventory.Kinds() {
		byType[kind.APIVersion+"/"+kind.Name] = &kind
	}
	return byType
}

// addDecoded decodes an object of the kind, trims it and adds it to the dump.
func (c *collector) addDecoded(kind *inventory.Kind, raw []byte, id identity) error {
	object := kind.New()
	if err := c.decodeObject(raw, object); err != nil {
		return err
	}
	c.updateTaken(object)
	c.trim(object)
	uid, err := c.uniqueUID(object.GetUID(), id)
	object.SetUID(uid)
	object.SetNamespace(id.namespace)
	kind.Keep(&c.dump.Objects, object)
	return err
}

// updateTaken updates Taken from the times in an object, before it is trimmed.
func (c *collector) updateTaken(object metav1.Object) {
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

// fillOwnerUIDs sets missing UIDs of owner references, which hand-written dumps may lack. It uses
// the UID of the owner in the dump, or the UID that the owner would get.
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
