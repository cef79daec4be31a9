package stage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// diskName is the name that a StatefulSet's pods know their volume by.
const diskName = "disk"

// claims are what a StatefulSet's pods claim: a volume each where the workload has any.
func (w Workload) claims() []corev1.PersistentVolumeClaim {
	if len(w.Disks) == 0 {
		return nil
	}
	none := ""
	return []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: diskName},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &none, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: diskSize()},
		},
	}}
}

func diskSize() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// addDisks creates the volumes of a StatefulSet's pods, one for the claim of each pod, in the zones that they are to be in.
func (s *Stage) addDisks(ctx context.Context, w Workload) error {
	for i := range int(w.Replicas) {
		if len(w.Disks) == 0 {
			return nil
		}
		claim := fmt.Sprintf("%s-%s-%d", diskName, w.Name, i)
		here := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{w.Disks[i%len(w.Disks)]}}
		_, err := s.Cluster.Client().CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-" + claim},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: diskSize(), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				ClaimRef:               &corev1.ObjectReference{Namespace: s.Namespace, Name: claim},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + claim}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{here}}},
				}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}
