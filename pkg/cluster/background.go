package cluster

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// ReadBackground takes one list per kind. Kinds that may not be listed are left out, and named; any other
// error is returned.
func ReadBackground(ctx context.Context, client kubernetes.Interface) (*Background, error) {
	b, apps, core := &Background{}, client.AppsV1().RESTClient(), client.CoreV1().RESTClient()
	kinds := map[string]func(ctx context.Context, kind string) error{
		"deployments":            func(ctx context.Context, kind string) error { return list(ctx, apps, kind, appendTo(&b.Deployments)) },
		"replicasets":            func(ctx context.Context, kind string) error { return list(ctx, apps, kind, appendTo(&b.ReplicaSets)) },
		"statefulsets":           func(ctx context.Context, kind string) error { return list(ctx, apps, kind, appendTo(&b.StatefulSets)) },
		"persistentvolumeclaims": func(ctx context.Context, kind string) error { return list(ctx, core, kind, appendTo(&b.Claims)) },
		"persistentvolumes":      func(ctx context.Context, kind string) error { return list(ctx, core, kind, appendTo(&b.Volumes)) },
	}
	unread := make(chan string, len(kinds))
	g, ctx := errgroup.WithContext(ctx)
	for kind, read := range kinds {
		g.Go(func() error {
			err := read(ctx, kind)
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
