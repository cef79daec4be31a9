package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// ReadInventory reads what the rules of package preflight look at, in one list per kind. Nodes,
// pods, budgets and namespaces must be readable; other kinds that may not be listed are left out,
// and named. Any other error is returned.
func ReadInventory(ctx context.Context, client kubernetes.Interface) (*inventory.Objects, error) {
	o := &inventory.Objects{}
	var u forbiddenKinds
	g, ctx := errgroup.WithContext(ctx)
	core := client.CoreV1().RESTClient()
	g.Go(func() error { return readPodsForChecks(ctx, core, o) })
	g.Go(func() error { return listForChecks(ctx, core, "nodes", prunedMetadata(), &o.Nodes) })
	g.Go(func() error { return listForChecks(ctx, core, "namespaces", prunedMetadata(), &o.Namespaces) })
	g.Go(func() error {
		return listForChecks(ctx, client.PolicyV1().RESTClient(), "poddisruptionbudgets", prunedMetadata(), &o.Budgets)
	})
	for kind, read := range optionalLists(client, o) {
		g.Go(func() error { return u.ignoreForbidden(kind, read(ctx, kind)) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	o.Unread = slices.Sorted(slices.Values(u.kinds))
	return o, nil
}

// readPodsForChecks lists all pods. Those of one controller share what they have alike.
func readPodsForChecks(ctx context.Context, core rest.Interface, o *inventory.Objects) error {
	sharer := trim.NewSharer()
	return readListing(ctx, listing{client: core, kind: "pods", drop: prunedCheckedPodFields()}, func(pod *corev1.Pod) {
		trim.ForChecks(pod)
		sharer.Pod(pod)
		o.Pods = append(o.Pods, pod)
	})
}

// optionalLists read kinds that not everybody may list, by their names.
func optionalLists(client kubernetes.Interface, o *inventory.Objects) map[string]kindReader {
	core, apps, admission := client.CoreV1().RESTClient(), client.AppsV1().RESTClient(), client.AdmissionregistrationV1().RESTClient()
	metadata, template := prunedMetadata(), prunedTemplateFields()
	return map[string]kindReader{
		"deployments":                     checksReader(apps, template, &o.Deployments),
		"replicasets":                     checksReader(apps, template, &o.ReplicaSets),
		"statefulsets":                    checksReader(apps, template, &o.StatefulSets),
		"daemonsets":                      checksReader(apps, metadata, &o.DaemonSets),
		"jobs":                            checksReader(client.BatchV1().RESTClient(), metadata, &o.Jobs),
		"persistentvolumeclaims":          checksReader(core, metadata, &o.Claims),
		"persistentvolumes":               checksReader(core, metadata, &o.Volumes),
		"resourceclaims":                  ignoreUnknown(checksReader(client.ResourceV1().RESTClient(), metadata, &o.ResourceClaims)),
		"resourcequotas":                  checksReader(core, metadata, &o.Quotas),
		"services":                        checksReader(core, metadata, &o.Services),
		"configmaps":                      func(ctx context.Context, _ string) error { return readPolicies(ctx, client, o) },
		"ingresses":                       checksReader(client.NetworkingV1().RESTClient(), metadata, &o.Ingresses),
		"horizontalpodautoscalers":        checksReader(client.AutoscalingV2().RESTClient(), metadata, &o.Scalers),
		"mutatingwebhookconfigurations":   checksReader(admission, metadata, &o.Mutating),
		"validatingwebhookconfigurations": checksReader(admission, metadata, &o.Validating),
		"targetgroupbindings": func(ctx context.Context, _ string) (err error) {
			o.Bindings, err = ListBindings(ctx, client)
			return err
		},
	}
}

// checksReader reads a kind as listForChecks does.
func checksReader[T any, P message[T]](client rest.Interface, drop prunedFields, into *[]P) kindReader {
	return func(ctx context.Context, kind string) error { return listForChecks(ctx, client, kind, drop, into) }
}

func listForChecks[T any, P message[T]](ctx context.Context, client rest.Interface, kind string, drop prunedFields, into *[]P) error {
	return readListing(ctx, listing{client: client, kind: kind, drop: drop}, func(object P) {
		trim.ForChecks(object)
		*into = append(*into, object)
	})
}

// readPolicies reads the ConfigMaps of a descheduler, by the names that its chart and its manifests
// give them.
func readPolicies(ctx context.Context, client kubernetes.Interface, o *inventory.Objects) error {
	for _, name := range []string{"descheduler", "descheduler-policy-configmap"} {
		policy, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading configmap %s: %w", name, err)
		default:
			o.ConfigMaps = append(o.ConfigMaps, policy)
		}
	}
	return nil
}

// ListBindings lists TargetGroupBindings, of which a cluster without the AWS Load Balancer
// Controller has no kind. It returns the server's error otherwise, which is forbidden where the
// user may not list them.
func ListBindings(ctx context.Context, client kubernetes.Interface) ([]*inventory.TargetGroupBinding, error) {
	const path = "/apis/elbv2.k8s.aws/v1beta1/targetgroupbindings"
	text, err := client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing targetgroupbindings: %w", err)
	}
	var list struct {
		Items []*inventory.TargetGroupBinding `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("listing targetgroupbindings: %w", err)
	}
	return list.Items, nil
}
