package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// listReadRights lists what lists, plans, checks and status read, and what an
// upgrade reads of workloads that do not recover, as
// docs/permissions/kubernetes-read.yaml grants it. Each says what it does
// without.
func listReadRights(stateNamespace string) []authorizationv1.ResourceAttributes {
	kinds := inventory.Kinds()
	slices.SortStableFunc(kinds, func(a, b inventory.Kind) int { return strings.Compare(a.Group(), b.Group()) })
	var needed []authorizationv1.ResourceAttributes
	for i := range kinds {
		if len(kinds[i].Names) == 0 {
			needed = append(needed, authorizationv1.ResourceAttributes{Verb: "list", Group: kinds[i].Group(), Resource: kinds[i].Resource})
		}
	}
	needed = append(needed,
		authorizationv1.ResourceAttributes{Verb: "get", Group: "apps", Resource: "replicasets"},
		authorizationv1.ResourceAttributes{Verb: "get", Group: "apps", Resource: "statefulsets"},
		authorizationv1.ResourceAttributes{Verb: "get", Resource: "replicationcontrollers"},
		authorizationv1.ResourceAttributes{Verb: "list", Resource: "events"},
	)
	for _, verb := range []string{"get", "list"} {
		needed = append(needed,
			authorizationv1.ResourceAttributes{Verb: verb, Resource: "configmaps", Namespace: stateNamespace},
			authorizationv1.ResourceAttributes{Verb: verb, Group: "coordination.k8s.io", Resource: "leases", Namespace: stateNamespace},
		)
	}
	return needed
}

// listNeededRights are what carrying a request out takes in the cluster, beyond the reads that the
// plan has needed already; docs/permissions/kubernetes-operate.yaml grants them. Who aborts evicts
// no pod.
func listNeededRights(request *record.Request, evicts bool, stateNamespace string) []authorizationv1.ResourceAttributes {
	coordination := "coordination.k8s.io"
	needed := []authorizationv1.ResourceAttributes{
		{Verb: "watch", Resource: "nodes"},
		{Verb: "watch", Resource: "pods"},
		{Verb: "watch", Resource: "namespaces"},
		{Verb: "watch", Group: "policy", Resource: "poddisruptionbudgets"},
		{Verb: "watch", Resource: "configmaps", Namespace: stateNamespace},
		{Verb: "create", Resource: "configmaps", Namespace: stateNamespace},
		{Verb: "update", Resource: "configmaps", Namespace: stateNamespace},
		{Verb: "watch", Group: coordination, Resource: "leases", Namespace: stateNamespace},
		{Verb: "create", Group: coordination, Resource: "leases", Namespace: stateNamespace},
		{Verb: "update", Group: coordination, Resource: "leases", Namespace: stateNamespace},
	}
	if !request.Strategy.Traits().Drains {
		return needed // the group's own cloud drains, or no one does
	}
	needed = append(needed, authorizationv1.ResourceAttributes{Verb: "get", Resource: "nodes"},
		authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}, authorizationv1.ResourceAttributes{Verb: "delete", Resource: "nodes"})
	if !evicts {
		return needed
	}
	needed = append(needed, authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "eviction"})
	if request.Move == record.MoveBySurge {
		needed = append(needed, authorizationv1.ResourceAttributes{Verb: "get", Group: "apps", Resource: "deployments"},
			authorizationv1.ResourceAttributes{Verb: "patch", Group: "apps", Resource: "deployments"})
	}
	if request.OnTimeout == record.Force || request.BlueGreen != nil {
		needed = append(needed, authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods"})
	}
	return needed
}

// shortfall is something that an upgrade does only with some rights, each of which docs/permissions/kubernetes-read.yaml or
// kubernetes-operate.yaml grants.
type shortfall struct {
	// without says what happens where one of the rights is missing.
	without string
	rights  []authorizationv1.ResourceAttributes
}

// listShortfalls lists what carrying a request out leaves out where a right is missing. Nothing of it is read by an upgrade that drains
// no node itself.
func listShortfalls(request *record.Request) []shortfall {
	if !request.Strategy.Traits().Drains {
		return nil
	}
	const apps, admission = "apps", "admissionregistration.k8s.io"
	services := shortfall{
		"pods of the cluster's DNS and of admission webhooks leave their nodes in no special order",
		[]authorizationv1.ResourceAttributes{{Verb: "list", Resource: "services"}},
	}
	if !request.NoImplicitBudgets {
		services.without = "the last ready pod behind a Service is evicted like any other, and " + services.without
	}
	return []shortfall{
		services,
		{"pods of admission webhooks leave their nodes in no special order", []authorizationv1.ResourceAttributes{
			{Verb: "list", Group: admission, Resource: "mutatingwebhookconfigurations"}, {Verb: "list", Group: admission, Resource: "validatingwebhookconfigurations"},
		}},
		{"a workload of such a kind that is scaled down during the upgrade stops it as one that lacks pods", []authorizationv1.ResourceAttributes{
			{Verb: "get", Group: apps, Resource: "deployments"},
			{Verb: "get", Group: apps, Resource: "replicasets"},
			{Verb: "get", Group: apps, Resource: "statefulsets"},
			{Verb: "get", Resource: "replicationcontrollers"},
		}},
		{"the upgrade does not say why the pods of a workload are not created", []authorizationv1.ResourceAttributes{{Verb: "list", Resource: "events"}}},
	}
}

// DescribeShortfalls says, one line each, what carrying a request out leaves out because a right is missing, and which. Where the server
// does not answer, it says what may be left out: the upgrade itself goes on without a word.
func (c *Connection) DescribeShortfalls(ctx context.Context, request *record.Request) []string {
	all := listShortfalls(request)
	lines := make([]string, len(all))
	var questions errgroup.Group
	for i, s := range all {
		questions.Go(func() error {
			missing, err := askRights(ctx, c.Client, s.rights)
			switch {
			case len(missing) > 0:
				lines[i] = fmt.Sprintf("you may not %s: %s: ask for the roles of docs/permissions", strings.Join(missing, ", "), s.without)
			case err != nil:
				lines[i] = fmt.Sprintf("the server did not say whether you may %s: if not, %s: %v", describeRights(s.rights), s.without, err)
			}
			return nil
		})
	}
	_ = questions.Wait() // none of them fails
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// ListMissingRights says which rights the user lacks that carrying a request out takes, with
// evictions or without. Where the server does not answer the question, the requests themselves
// will show.
func (c *Connection) ListMissingRights(ctx context.Context, request *record.Request, evicts bool, stateNamespace string) []string {
	missing, _ := askRights(ctx, c.Client, listNeededRights(request, evicts, stateNamespace))
	return missing
}

// ListMissingReads says which rights the user lacks that lists, plans, checks and status read with.
func ListMissingReads(ctx context.Context, client kubernetes.Interface, stateNamespace string) []string {
	missing, _ := askRights(ctx, client, listReadRights(stateNamespace))
	return missing
}

// askRights asks the server about each of the rights, and returns those that the user lacks. The error is that of a question that got no
// answer.
func askRights(ctx context.Context, client kubernetes.Interface, needed []authorizationv1.ResourceAttributes) ([]string, error) {
	missing := make([]string, len(needed))
	var questions errgroup.Group
	for i := range needed {
		questions.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &needed[i]}}
			answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err == nil && !answer.Status.Allowed {
				missing[i] = describeRight(&needed[i])
			}
			return err
		})
	}
	err := questions.Wait()
	return slices.DeleteFunc(missing, func(right string) bool { return right == "" }), err
}

func describeRights(rights []authorizationv1.ResourceAttributes) string {
	var texts []string
	for i := range rights {
		texts = append(texts, describeRight(&rights[i]))
	}
	return strings.Join(texts, ", ")
}

// describeRight says a right as people do: "patch nodes", "create pods/eviction", "update leases in
// namespace kube-system".
func describeRight(a *authorizationv1.ResourceAttributes) string {
	text := a.Verb + " " + a.Resource
	if a.Subresource != "" {
		text += "/" + a.Subresource
	}
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}

// AdviseDenied adds to an error of the API server what a user without the right, or with old credentials, can do. It returns other
// errors as they are.
func AdviseDenied(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: ask for a role that allows it (see Permissions in the README)", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: %s", err, renewCredentials)
	default:
		return err
	}
}

// renewCredentials is what to do about credentials that the API server does not accept.
const renewCredentials = "log in again, or renew the token of the kubeconfig's user"
