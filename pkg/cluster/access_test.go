package cluster

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// TestAbortNeedsNoEvictions holds an abort to the rights that it needs.
func TestAbortNeedsNoEvictions(t *testing.T) {
	request := upgrade.Request{OnTimeout: upgrade.Force}
	texts := func(evicts bool) string {
		var all []string
		for _, right := range listNeededRights(&request, evicts, "kube-system") {
			all = append(all, describeRight(&right))
		}
		return strings.Join(all, "; ")
	}
	for _, moves := range []string{"create pods/eviction", "delete pods"} {
		if on, undo := texts(true), texts(false); !strings.Contains(on, moves) || strings.Contains(undo, moves) || !strings.Contains(undo, "patch nodes") {
			t.Errorf("%s: an upgrade needs %q, an abort %q", moves, on, undo)
		}
	}
}

// TestRolesOfTheCronJob holds the roles that docs/cronjob.md shows to all that an upgrade needs, and to nothing that it does not.
func TestRolesOfTheCronJob(t *testing.T) {
	request := upgrade.Request{Strategy: upgrade.BlueGreen, OnTimeout: upgrade.Force}
	needed := listNeededRights(&request, true, "kube-system")
	roles := readRoles(t)
	for _, right := range needed {
		if !slices.ContainsFunc(roles[right.Namespace], func(rule rbacv1.PolicyRule) bool { return allows(rule, right) }) {
			t.Errorf("no role allows to %s", describeRight(&right))
		}
	}
	for namespace, rules := range roles {
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				right := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0]}
				reads := verb == "get" || verb == "list"
				if right.Resource, right.Subresource, _ = strings.Cut(right.Resource, "/"); !reads && !slices.Contains(needed, right) {
					t.Errorf("a role allows to %s, which no upgrade needs", describeRight(&right))
				}
			}
		}
	}
}

// readRoles are the rules of the page by their namespace, "" for the whole cluster.
func readRoles(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	page, err := os.ReadFile("../../docs/cronjob.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := bytes.Cut(page, []byte("```yaml\n"))
	text, _, _ = bytes.Cut(text, []byte("```"))
	roles := map[string][]rbacv1.PolicyRule{}
	for _, object := range bytes.Split(text, []byte("---\n")) {
		var role rbacv1.Role
		if err := yaml.Unmarshal(object, &role); err != nil {
			t.Fatal(err)
		}
		roles[role.Namespace] = append(roles[role.Namespace], role.Rules...)
	}
	return roles
}

func allows(rule rbacv1.PolicyRule, right authorizationv1.ResourceAttributes) bool {
	resource := right.Resource
	if right.Subresource != "" {
		resource += "/" + right.Subresource
	}
	return slices.Contains(rule.APIGroups, right.Group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, right.Verb)
}
