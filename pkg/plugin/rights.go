package plugin

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// listNeededRights are what carrying a request out that way takes in the cluster, beyond the reads
// that the plan has needed already; README has them for administrators. Who aborts moves no pod.
func listNeededRights(m mode, request *upgrade.Request, stateNamespace string) []authorizationv1.ResourceAttributes {
	coordination := "coordination.k8s.io"
	needed := []authorizationv1.ResourceAttributes{
		{Verb: "watch", Resource: "nodes"},
		{Verb: "watch", Resource: "pods"},
		{Verb: "watch", Resource: "namespaces"},
		{Verb: "watch", Group: "policy", Resource: "poddisruptionbudgets"},
		{Verb: "list", Resource: "configmaps", Namespace: stateNamespace},
		{Verb: "watch", Resource: "configmaps", Namespace: stateNamespace},
		{Verb: "create", Resource: "configmaps", Namespace: stateNamespace},
		{Verb: "update", Resource: "configmaps", Namespace: stateNamespace},
		{Verb: "watch", Group: coordination, Resource: "leases", Namespace: stateNamespace},
		{Verb: "create", Group: coordination, Resource: "leases", Namespace: stateNamespace},
		{Verb: "update", Group: coordination, Resource: "leases", Namespace: stateNamespace},
	}
	if request.Strategy == upgrade.Delegated {
		return needed // the group's own cloud drains
	}
	needed = append(needed, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}, authorizationv1.ResourceAttributes{Verb: "delete", Resource: "nodes"})
	if m == modeAbort {
		return needed
	}
	needed = append(needed, authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "eviction"})
	if request.OnTimeout == upgrade.Force {
		needed = append(needed, authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods"})
	}
	return needed
}

// checkAccess refuses an upgrade that would come to a halt half way for want of a right, and names
// each that is missing. Where the server does not answer the question, the requests themselves will
// show.
func (c *command) checkAccess(ctx context.Context, m mode, request *upgrade.Request) error {
	needed := listNeededRights(m, request, c.stateNamespace)
	missing := make([]bool, len(needed))
	var questions errgroup.Group
	for i := range needed {
		questions.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &needed[i]}}
			answer, err := c.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			missing[i] = err == nil && !answer.Status.Allowed
			return nil
		})
	}
	_ = questions.Wait() // none of them fails
	var lacking []string
	for i := range needed {
		if missing[i] {
			lacking = append(lacking, describeRight(&needed[i]))
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return fmt.Errorf("upgrading group %q: you may not %s: ask for a role that allows it (see Permissions in the README)",
		request.Group, strings.Join(lacking, ", "))
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
