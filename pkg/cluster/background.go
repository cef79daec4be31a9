package cluster

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// Background is what stands around the pods: the controllers that bring them back, the volumes that
// bind them to places and the services by which others need them. A plan is closer with it, and an
// upgrade does without. Of each object there is what plans look at.
type Background struct {
	inventory.Objects
	// Facts tell which pods others need: those behind admission webhooks and the cluster's DNS.
	Facts drain.Facts
}

// ReadBackground takes one list per kind. Kinds that may not be listed are left out, and named; any
// other error is returned.
func ReadBackground(ctx context.Context, client kubernetes.Interface) (*Background, error) {
	b, apps, core := &Background{}, client.AppsV1().RESTClient(), client.CoreV1().RESTClient()
	kinds := map[string]kindReader{
		"deployments":            trimmedReader(apps, &b.Deployments),
		"replicasets":            trimmedReader(apps, &b.ReplicaSets),
		"statefulsets":           trimmedReader(apps, &b.StatefulSets),
		"persistentvolumeclaims": trimmedReader(core, &b.Claims),
		"persistentvolumes":      trimmedReader(core, &b.Volumes),
		"namespaces":             trimmedReader(core, &b.Namespaces),
		"csinodes":               trimmedReader(client.StorageV1().RESTClient(), &b.CSINodes),
		"resourceclaims":         ignoreUnknown(trimmedReader(client.ResourceV1().RESTClient(), &b.ResourceClaims)),
	}
	var u forbiddenKinds
	g, ctx := errgroup.WithContext(ctx)
	for kind, read := range kinds {
		g.Go(func() error { return u.ignoreForbidden(kind, read(ctx, kind)) })
	}
	g.Go(func() (err error) {
		b.Services, b.Facts, err = readServices(ctx, client, &u)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	b.Unread = slices.Sorted(slices.Values(u.kinds))
	return b, nil
}

// kindReader reads all objects of a kind, which is named as RBAC does.
type kindReader func(ctx context.Context, kind string) error

// ignoreUnknown reads a kind that a server of an older release does not have: there are none then.
func ignoreUnknown(read kindReader) kindReader {
	return func(ctx context.Context, kind string) error {
		if err := read(ctx, kind); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	}
}

// trimmedReader reads a kind, trimmed.
func trimmedReader[T any, P message[T]](client rest.Interface, into *[]P) kindReader {
	return func(ctx context.Context, kind string) error { return listObjects(ctx, client, kind, trimInto(into)) }
}

// readServices lists all services, and asks which of them admission webhooks name. One list is read
// sooner than each of those.
func readServices(ctx context.Context, client kubernetes.Interface, u *forbiddenKinds) ([]*corev1.Service, drain.Facts, error) {
	admission, core, webhooks := client.AdmissionregistrationV1().RESTClient(), client.CoreV1().RESTClient(), drain.Webhooks{}
	const mutating, validating, services = "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "services"
	if err := u.ignoreForbidden(mutating, listObjects(ctx, admission, mutating, webhooks.AddMutating)); err != nil {
		return nil, drain.Facts{}, err
	}
	if err := u.ignoreForbidden(validating, listObjects(ctx, admission, validating, webhooks.AddValidating)); err != nil {
		return nil, drain.Facts{}, err
	}
	var found []*corev1.Service
	err := u.ignoreForbidden(services, listObjects(ctx, core, services, trimInto(&found)))
	return found, webhooks.FactsOf(found), err
}

// forbiddenKinds collects the kinds that may not be listed.
type forbiddenKinds struct {
	mu    sync.Mutex
	kinds []string
}

// ignoreForbidden returns the error of a list, unless it is that the kind may not be listed, which
// is noted.
func (u *forbiddenKinds) ignoreForbidden(kind string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kinds = append(u.kinds, kind)
	return nil
}
