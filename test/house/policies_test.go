package house

import (
	"encoding/json"
	"errors"
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// impliedActions returns the actions that AWS requires in addition to the called ones. LaunchInstances launches through a fleet. A
// caller that sets a group's template version must be allowed to launch instances from it, to pass their role to EC2 if the version
// names an instance profile, and to set the tags that the version names (user guide, "Amazon EC2 Auto Scaling API permissions").
func impliedActions() []string {
	return []string{"ec2:CreateFleet", "ec2:CreateTags", "ec2:RunInstances", "iam:PassRole"}
}

// ownRequests returns the actions that are called without a client of the SDK, by the name of the method that calls them.
func ownRequests() map[string]string {
	return map[string]string{"getParameters": "ssm:GetParameters"}
}

// calledActions returns the AWS actions that the sources call, with the names that policies use. It finds a call of the SDK by the
// type of its input, which has the action's name. It omits STS, because GetCallerIdentity is always allowed.
func calledActions(srcs []source) map[string]bool {
	called := map[string]bool{}
	for _, src := range srcs {
		if src.isTest() || src.dir() != "pkg/cloud/aws" {
			continue
		}
		ast.Inspect(src.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if action, own := ownRequests()[selector.Sel.Name]; own {
				called[action] = true
			}
			service, ok := selector.X.(*ast.Ident)
			name, isInput := strings.CutSuffix(selector.Sel.Name, "Input")
			if !ok || !isInput || service.Name == "sts" {
				return true
			}
			if _, isService := src.imports()["github.com/aws/aws-sdk-go-v2/service/"+service.Name]; isService {
				called[strings.TrimSuffix(service.Name, "v2")+":"+name] = true // in policies both versions of Elastic Load Balancing have the same name
			}
			return true
		})
	}
	return called
}

// policyFor returns the file that must allow an action. The action of IAM has its own file, because upgrades work without it.
func policyFor(action string) string {
	service, name, _ := strings.Cut(action, ":")
	isRead := strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "List") || strings.HasPrefix(name, "Get")
	switch {
	case service == "iam":
		return "aws-simulate.json"
	case isRead:
		return "aws-read.json"
	default:
		return "aws-operate.json"
	}
}

// roleFaults returns a fault if a file outside docs/permissions defines a Kubernetes role. Such a copy would become outdated.
func roleFaults(name, text string) []string {
	if isUnder(name, "docs/permissions") || !regexp.MustCompile(`(?m)^\s*kind: (Cluster)?Role\s*$`).MatchString(text) || !regexp.MustCompile(`(?m)^\s*rules:`).MatchString(text) {
		return nil
	}
	return []string{name + ": it has a role of its own: refer to docs/permissions"}
}

func TestRolesAreOnlyInPermissions(t *testing.T) {
	top, seen := repoRoot(t), 0
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(top, name)
		switch {
		case err != nil || relErr != nil:
			return errors.Join(err, relErr)
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || rel == "test"):
			return filepath.SkipDir
		case slices.Contains([]string{".md", ".yaml", ".yml"}, filepath.Ext(name)):
			seen++
			reportFaults(t, roleFaults(filepath.ToSlash(rel), readFile(t, rel)))
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Errorf("%d files were read: %v", seen, err)
	}
}

// TestCronJobBindsPublishedRoles checks that docs/cronjob.md binds only roles of docs/permissions, with the right kinds and
// namespaces.
func TestCronJobBindsPublishedRoles(t *testing.T) {
	published := map[string]bool{}
	for _, file := range []string{"kubernetes-read.yaml", "kubernetes-operate.yaml"} {
		for _, role := range readDocuments(t, readFile(t, "docs/permissions/"+file)) {
			published[role.Kind+" "+role.Metadata.Namespace+"/"+role.Metadata.Name] = true
		}
	}
	_, manifests, _ := strings.Cut(readFile(t, "docs/cronjob.md"), "```yaml\n")
	manifests, _, _ = strings.Cut(manifests, "\n```")
	bound := 0
	for _, binding := range readDocuments(t, manifests) {
		kind, binds := strings.CutSuffix(binding.Kind, "Binding")
		if !binds {
			continue
		}
		bound++
		if role := kind + " " + binding.Metadata.Namespace + "/" + binding.RoleRef.Name; !published[role] || binding.RoleRef.Kind != kind {
			t.Errorf("docs/cronjob.md binds %s %s, and docs/permissions has %q", binding.RoleRef.Kind, role, slices.Sorted(maps.Keys(published)))
		}
	}
	if bound < 4 {
		t.Errorf("docs/cronjob.md has %d bindings", bound)
	}
}

// object contains the fields by which roles and their bindings are compared.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	RoleRef  struct{ Kind, Name string }
}

// readDocuments reads the documents of a YAML text.
func readDocuments(t *testing.T, text string) []object {
	t.Helper()
	var all []object
	for _, document := range strings.Split(text, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

func TestRolesOutsidePermissionsAreFound(t *testing.T) {
	const role = "kind: ClusterRole\nmetadata:\n  name: a\nrules:\n  - verbs: [get]\n"
	cases := map[string]struct{ name, text, want string }{
		"a page with a role":    {"docs/cronjob.md", "```yaml\n" + role + "```\n", "a role of its own"},
		"an indented role":      {"README.md", "    kind: Role\n    rules: []\n", "a role of its own"},
		"the published roles":   {"docs/permissions/kubernetes-read.yaml", role, ""},
		"a binding of one":      {"docs/cronjob.md", "roleRef:\n  kind: ClusterRole\n  name: a\n", ""},
		"the rules of the tool": {"docs/internals/rules.md", "rules: they check\n", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkFaults(t, roleFaults(c.name, c.text), c.want) })
	}
}

// TestPoliciesMatchCalledActions checks that the published IAM policies allow exactly the actions that the code calls.
func TestPoliciesMatchCalledActions(t *testing.T) {
	granted := map[string]string{}
	for _, file := range []string{"aws-read.json", "aws-operate.json", "aws-simulate.json"} {
		text, err := os.ReadFile(filepath.Join(repoRoot(t), "docs/permissions", file))
		if err != nil {
			t.Fatal(err)
		}
		var policy struct{ Statement []struct{ Action []string } }
		if err := json.Unmarshal(text, &policy); err != nil {
			t.Fatal(err)
		}
		for _, statement := range policy.Statement {
			for _, action := range statement.Action {
				granted[action] = file
			}
		}
	}
	called := calledActions(sources(t))
	if len(called) < 15 {
		t.Fatalf("the code calls %v", called)
	}
	for _, action := range slices.Sorted(maps.Keys(called)) {
		if want := policyFor(action); granted[action] != want {
			t.Errorf("%s is called, and docs/permissions/%s does not allow it", action, want)
		}
	}
	for action, file := range granted {
		if !called[action] && !slices.Contains(impliedActions(), action) {
			t.Errorf("docs/permissions/%s allows %s, which is not called", file, action)
		}
	}
}
