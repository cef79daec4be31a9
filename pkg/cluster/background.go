package cluster

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// Background is what stands behind the pods: the controllers that bring them back and the volumes that bind them to
// places. A plan is closer with it, and an upgrade does without. Of each object there is what plans look at.
type Background struct {
	Deployments  []*appsv1.Deployment
	ReplicaSets  []*appsv1.ReplicaSet
	StatefulSets []*appsv1.StatefulSet
	Claims       []*corev1.PersistentVolumeClaim
	Volumes      []*corev1.PersistentVolume
	// Unread are the kinds, as RBAC names them, that the user may not list; sorted.
	Unread []string
}

// ReadBackground takes one paged list per kind. Kinds that may not be listed are left out, and named; any other
// error is returned.
func ReadBackground(ctx context.Context, client kubernetes.Interface) (*Background, error) {
	b := &Background{}
	kinds := map[string]func(context.Context) error{
		"deployments": func(ctx context.Context) error {
			return list(ctx, "deployments", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.AppsV1().Deployments("").List(ctx, o)
			}, &b.Deployments)
		},
		"replicasets": func(ctx context.Context) error {
			return list(ctx, "replicasets", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.AppsV1().ReplicaSets("").List(ctx, o)
			}, &b.ReplicaSets)
		},
		"statefulsets": func(ctx context.Context) error {
			return list(ctx, "statefulsets", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.AppsV1().StatefulSets("").List(ctx, o)
			}, &b.StatefulSets)
		},
		"persistentvolumeclaims": func(ctx context.Context) error {
			return list(ctx, "persistentvolumeclaims", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.CoreV1().PersistentVolumeClaims("").List(ctx, o)
			}, &b.Claims)
		},
		"persistentvolumes": func(ctx context.Context) error {
			return list(ctx, "persistentvolumes", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.CoreV1().PersistentVolumes().List(ctx, o)
			}, &b.Volumes)
		},
	}
	unread := make(chan string, len(kinds))
	g, ctx := errgroup.WithContext(ctx)
	for kind, read := range kinds {
		g.Go(func() error {
			err := read(ctx)
			if apierrors.IsForbidden(err) {
				unread <- kind
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	close(unread)
	for kind := range unread {
		b.Unread = append(b.Unread, kind)
	}
	slices.Sort(b.Unread)
	return b, nil
}

// trimBackground keeps of a controller or a volume what plans look at.
func trimBackground(object any) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		trimMeta(&o.ObjectMeta)
		o.Spec, o.Status = appsv1.DeploymentSpec{Replicas: o.Spec.Replicas}, appsv1.DeploymentStatus{}
	case *appsv1.ReplicaSet:
		trimMeta(&o.ObjectMeta)
		o.Spec, o.Status = appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas}, appsv1.ReplicaSetStatus{}
	case *appsv1.StatefulSet:
		trimMeta(&o.ObjectMeta)
		o.Spec = appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas, PodManagementPolicy: o.Spec.PodManagementPolicy}
		o.Status = appsv1.StatefulSetStatus{}
	case *corev1.PersistentVolumeClaim:
		trimMeta(&o.ObjectMeta)
		o.Spec, o.Status = corev1.PersistentVolumeClaimSpec{VolumeName: o.Spec.VolumeName}, corev1.PersistentVolumeClaimStatus{}
	case *corev1.PersistentVolume:
		trimMeta(&o.ObjectMeta)
		o.Spec, o.Status = corev1.PersistentVolumeSpec{NodeAffinity: o.Spec.NodeAffinity}, corev1.PersistentVolumeStatus{}
	}
}
