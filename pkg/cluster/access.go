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

// listReadRights lists the permissions that lists, plans, checks and status need. It includes the permissions with
// which an upgrade finds out why workloads do not recover. docs/permissions/kubernetes-read.yaml grants them. If one is
// missing, each command reports what it omits.
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

// listNeededRights lists the permissions that an upgrade needs in the cluster in addition to those of plans.
// docs/permissions/kubernetes-operate.yaml grants them. evicts is false for an abort, which evicts no pod.
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
		return needed // either the cloud drains, or no node is drained
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

// optionalPart is a part of an upgrade that is omitted if one of its permissions is missing.
// docs/permissions/kubernetes-read.yaml or kubernetes-operate.yaml grants each permission.
type optionalPart struct {
	// without says what happens if one of the permissions is missing.
	without string
	rights  []authorizationv1.ResourceAttributes
}

// listOptionalParts lists the parts of an upgrade that are omitted if a permission is missing. It is empty for an
// upgrade that drains no node itself.
func listOptionalParts(request *record.Request) []optionalPart {
	if !request.Strategy.Traits().Drains {
		return nil
	}
	const apps, admission = "apps", "admissionregistration.k8s.io"
	services := optionalPart{
		"pods of the cluster's DNS and of admission webhooks are evicted in no special order",
		[]authorizationv1.ResourceAttributes{{Verb: "list", Resource: "services"}},
	}
	if !request.NoImplicitBudgets {
		services.without = "the last ready pod behind a Service is evicted like any other, and " + services.without
	}
	return []optionalPart{
		services,
		{"pods of admission webhooks are evicted in no special order", []authorizationv1.ResourceAttributes{
			{Verb: "list", Group: admission, Resource: "mutatingwebhookconfigurations"}, {Verb: "list", Group: admission, Resource: "validatingwebhookconfigurations"},
		}},
		{"if such a workload is scaled down during the upgrade, the upgrade counts it as one that lacks pods and stops", []authorizationv1.ResourceAttributes{
			{Verb: "get", Group: apps, Resource: "deployments"},
			{Verb: "get", Group: apps, Resource: "replicasets"},
			{Verb: "get", Group: apps, Resource: "statefulsets"},
			{Verb: "get", Resource: "replicationcontrollers"},
		}},
		{"the upgrade cannot show why the pods of a workload are not created", []authorizationv1.ResourceAttributes{{Verb: "list", Resource: "events"}}},
	}
}

// DescribeOmittedParts returns one line for each part of an upgrade that is omitted, with the missing permission. If
// the server does not answer, it lists the parts that may be omitted, because the upgrade itself does not report them.
func (c *Connection) DescribeOmittedParts(ctx context.Context, request *record.Request) []string {
	all := listOptionalParts(request)
	lines := make([]string, len(all))
	var questions errgroup.Group
	for i, s := range all {
		questions.Go(func() error {
			missing, err := findMissingRights(ctx, c.Client, s.rights)
			switch {
			case len(missing) > 0:
				lines[i] = fmt.Sprintf("you may not %s: %s: ask for the roles of docs/permissions", strings.Join(missing, ", "), s.without)
			case err != nil:
				lines[i] = fmt.Sprintf("the server did not say whether you may %s: if not, %s: %v", describeRights(s.rights), s.without, err)
			}
			return nil
		})
	}
	_ = questions.Wait() // none of them returns an error
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// ListMissingRights lists the permissions that the user lacks and that carrying out a request needs, with evictions or without.
// If the server does not answer, it returns none, and the requests themselves will fail.
func (c *Connection) ListMissingRights(ctx context.Context, request *record.Request, evicts bool, stateNamespace string) []string {
	missing, _ := findMissingRights(ctx, c.Client, listNeededRights(request, evicts, stateNamespace))
	return missing
}

// ListMissingReads lists the permissions that the user lacks and that lists, plans, checks and status need.
func ListMissingReads(ctx context.Context, client kubernetes.Interface, stateNamespace string) []string {
	missing, _ := findMissingRights(ctx, client, listReadRights(stateNamespace))
	return missing
}

// findMissingRights asks the server about each permission and returns the missing ones. It returns an error if the server did
// not answer all questions.
func findMissingRights(ctx context.Context, client kubernetes.Interface, needed []authorizationv1.ResourceAttributes) ([]string, error) {
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

// describeRight describes a permission for people: "patch nodes", "create pods/eviction", "update leases in namespace
// kube-system".
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

// AddAccessRemedy adds a remedy to an error of the API server about missing permissions or old credentials. It returns other errors
// unchanged.
func AddAccessRemedy(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: ask for a role that allows it (see docs/permissions.md)", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: %s", err, renewCredentials)
	default:
		return err
	}
}

// renewCredentials is the remedy for credentials that the API server does not accept.
const renewCredentials = "log in again, or renew the token of the kubeconfig's user"
