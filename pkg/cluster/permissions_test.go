package cluster

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// grant is one line of the published roles: a verb on a kind.
type grant struct {
	role, namespace string
	rule            rbacv1.PolicyRule
}

// String returns the line in the form of a missing permission.
func (g grant) String() string {
	text := g.rule.Verbs[0] + " " + g.rule.Resources[0]
	if g.namespace != "" {
		text += " in namespace " + g.namespace
	}
	return text
}

// publishedGrants returns the lines in files of docs/permissions.
func publishedGrants(t *testing.T, files ...string) []grant {
	t.Helper()
	var all []grant
	for _, file := range files {
		text, err := os.ReadFile("../../docs/permissions/" + file)
		must(t, err)
		for _, object := range bytes.Split(text, []byte("\n---\n")) {
			var role rbacv1.Role
			must(t, yaml.Unmarshal(object, &role))
			for _, rule := range role.Rules {
				for _, kind := range rule.Resources {
					for _, verb := range rule.Verbs {
						all = append(all, grant{role.Name, role.Namespace, rbacv1.PolicyRule{APIGroups: rule.APIGroups, Resources: []string{kind}, Verbs: []string{verb}}})
					}
				}
			}
		}
	}
	return all
}

// TestPublishedReadRoleGrantsEachKind compares the published role with the table of kinds. testPermissions proves that a server requires
// each line.
func TestPublishedReadRoleGrantsEachKind(t *testing.T) {
	var granted, needed []string
	for _, g := range publishedGrants(t, "kubernetes-read.yaml") {
		granted = append(granted, g.rule.APIGroups[0]+": "+g.String())
	}
	for _, right := range listReadRights("kube-system") {
		needed = append(needed, right.Group+": "+describeRight(&right))
	}
	slices.Sort(granted)
	slices.Sort(needed)
	if !slices.Equal(granted, needed) {
		t.Errorf("kubernetes-read.yaml grants\n%s\nand it takes\n%s", strings.Join(granted, "\n"), strings.Join(needed, "\n"))
	}
}

// testPermissions removes each single line of the published roles. Exactly that line must be reported as missing, and nothing if
// all are there (RBAC001).
func testPermissions(t *testing.T, s *space) {
	grants := publishedGrants(t, "kubernetes-read.yaml", "kubernetes-operate.yaml")
	conn := Connection{Client: s.clientOf(t, s.name)}
	request := &record.Request{Strategy: record.BlueGreen, BlueGreen: &record.BlueGreenRequest{}, OnTimeout: record.Force, Move: record.MoveBySurge}
	missing := func(ctx context.Context) []string {
		return append(ListMissingReads(ctx, conn.Client, "kube-system"), conn.ListMissingRights(ctx, request, true, "kube-system")...)
	}
	s.bindAll(t)
	for i := -1; i < len(grants); i++ {
		var want []string
		left := slices.Clone(grants)
		if i >= 0 {
			want = []string{grants[i].String()}
			left = slices.Delete(left, i, i+1)
		}
		s.grantAll(t, left)
		var got, leftOut []string
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("without %v it tells %v missing, and leaves out %q", want, got, leftOut)
			}
		})
		s.eventually(t, "the server to tell "+strings.Join(want, "")+" missing, and nothing else", func(ctx context.Context) (bool, error) {
			got = missing(ctx)
			leftOut = conn.DescribeOmittedParts(ctx, request)
			return slices.Equal(got, want) && slices.EqualFunc(leftOut, omittedPartsOf(want, request), strings.HasPrefix), ctx.Err() // questions without an answer report nothing
		})
	}
	if needed := len(listReadRights("kube-system")) + len(listNeededRights(request, true, "kube-system")); len(grants) != needed {
		t.Errorf("the published roles have %d lines, and %d rights are asked about", len(grants), needed)
	}
}

// omittedPartsOf returns the beginnings of the lines that report what is left out without the permissions.
func omittedPartsOf(rights []string, request *record.Request) []string {
	var lines []string
	for _, s := range listOptionalParts(request) {
		for _, right := range s.rights {
			if slices.Contains(rights, describeRight(&right)) {
				lines = append(lines, "you may not "+describeRight(&right)+": "+s.without)
			}
		}
	}
	return lines
}

// bindAll binds the roles of grantAll to the space's user.
func (s *space) bindAll(t *testing.T) {
	t.Helper()
	rbac, meta := s.Client().RbacV1(), metav1.ObjectMeta{Name: s.name}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: s.name}}
	_, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.name}, Subjects: subjects,
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = rbac.RoleBindings("kube-system").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: s.name}, Subjects: subjects,
	}, metav1.CreateOptions{})
	must(t, err)
}

// grantAll limits the space's user to these lines. An update creates a role that does not exist.
func (s *space) grantAll(t *testing.T, grants []grant) {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, g := range grants {
		rules[g.namespace] = append(rules[g.namespace], g.rule)
	}
	rbac, meta := s.Client().RbacV1(), metav1.ObjectMeta{Name: s.name}
	_, err := rbac.ClusterRoles().Update(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules[""]}, metav1.UpdateOptions{})
	must(t, err)
	_, err = rbac.Roles("kube-system").Update(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules["kube-system"]}, metav1.UpdateOptions{})
	must(t, err)
}
