package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// document is the kind and the name of a Kubernetes object.
type document struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// decodeDocuments decodes each document of a file of manifests into the type of its kind. An unknown field is an error.
func decodeDocuments(t *testing.T, name string) []any {
	t.Helper()
	var all []any
	for _, text := range strings.Split(readFile(t, name), "\n---\n") {
		var head document
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		into, known := map[string]any{
			"v1/ServiceAccount": &corev1.ServiceAccount{}, "batch/v1/Job": &batchv1.Job{}, "batch/v1/CronJob": &batchv1.CronJob{},
			"rbac.authorization.k8s.io/v1/ClusterRole": &rbacv1.ClusterRole{}, "rbac.authorization.k8s.io/v1/ClusterRoleBinding": &rbacv1.ClusterRoleBinding{},
			"rbac.authorization.k8s.io/v1/Role": &rbacv1.Role{}, "rbac.authorization.k8s.io/v1/RoleBinding": &rbacv1.RoleBinding{},
		}[head.APIVersion+"/"+head.Kind]
		if !known {
			t.Fatalf("%s: no manifest is a %s/%s", name, head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%s: %s %s: %v", name, head.Kind, head.Name, err)
		}
		all = append(all, into)
	}
	return all
}

// TestDeployedAccountHasThePublishedRoles compares the roles that are bound to the account with those of docs/permissions.
func TestDeployedAccountHasThePublishedRoles(t *testing.T) {
	var published, bound []string
	for _, name := range []string{"kubernetes-read.yaml", "kubernetes-operate.yaml"} {
		for _, decoded := range decodeDocuments(t, "docs/permissions/"+name) {
			switch role := decoded.(type) {
			case *rbacv1.ClusterRole:
				published = append(published, "ClusterRole "+role.Name)
			case *rbacv1.Role:
				published = append(published, "Role "+role.Name+" in "+role.Namespace)
			}
		}
	}
	var account corev1.ServiceAccount
	bind := func(ref rbacv1.RoleRef, place string, subjects []rbacv1.Subject) {
		bound = append(bound, ref.Kind+" "+ref.Name+place)
		if len(subjects) != 1 || subjects[0].Name != account.Name || subjects[0].Namespace != account.Namespace {
			t.Errorf("%s is bound to %v, and the account is %s/%s", ref.Name, subjects, account.Namespace, account.Name)
		}
	}
	for _, decoded := range decodeDocuments(t, "deploy/account.yaml") {
		switch o := decoded.(type) {
		case *corev1.ServiceAccount:
			account = *o
		case *rbacv1.ClusterRoleBinding:
			bind(o.RoleRef, "", o.Subjects)
		case *rbacv1.RoleBinding:
			bind(o.RoleRef, " in "+o.Namespace, o.Subjects)
		}
	}
	slices.Sort(published)
	slices.Sort(bound)
	if !slices.Equal(published, bound) {
		t.Errorf("the account is bound to %q, and docs/permissions has %q", bound, published)
	}
	for _, name := range []string{"deploy/job.yaml", "deploy/cronjob.yaml"} {
		spec, namespace := jobOf(t, name)
		if spec.Template.Spec.ServiceAccountName != account.Name || namespace != account.Namespace {
			t.Errorf("%s runs as %s/%s, and the account is %s/%s", name, namespace, spec.Template.Spec.ServiceAccountName, account.Namespace, account.Name)
		}
	}
}

// jobOf returns the Job in a manifest, or the Job that the manifest's CronJob creates, and the namespace.
func jobOf(t *testing.T, name string) (batchv1.JobSpec, string) {
	t.Helper()
	switch o := decodeDocuments(t, name)[0].(type) {
	case *batchv1.Job:
		return o.Spec, o.Namespace
	case *batchv1.CronJob:
		return o.Spec.JobTemplate.Spec, o.Namespace
	}
	t.Fatalf("%s has no Job", name)
	return batchv1.JobSpec{}, ""
}

// TestJobEqualsJobOfCronJob compares the Job with the one that the CronJob creates, and its image with the release of krew.yaml.
func TestJobEqualsJobOfCronJob(t *testing.T) {
	once, _ := jobOf(t, "deploy/job.yaml")
	again, _ := jobOf(t, "deploy/cronjob.yaml")
	first, err := yaml.Marshal(once)
	if err != nil {
		t.Fatal(err)
	}
	second, err := yaml.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(second) {
		t.Errorf("the Job is\n%s\nand the CronJob creates\n%s", first, second)
	}
	var m manifest
	if err := yaml.Unmarshal([]byte(readFile(t, "krew.yaml")), &m); err != nil {
		t.Fatal(err)
	}
	if _, tag, _ := strings.Cut(once.Template.Spec.Containers[0].Image, ":"); tag != m.Spec.Version {
		t.Errorf("the image has the tag %s, and krew.yaml is of %s", tag, m.Spec.Version)
	}
}

// TestDockerfileUsesGoVersionOfGoMod: releases use that version.
func TestDockerfileUsesGoVersionOfGoMod(t *testing.T) {
	toolchain := regexp.MustCompile(`(?m)^toolchain go(1\.\S+)$`).FindStringSubmatch(readFile(t, "go.mod"))
	image := regexp.MustCompile(`(?m)^FROM .*\bgolang:(\S+) `).FindStringSubmatch(readFile(t, "deploy/Dockerfile"))
	if toolchain == nil || image == nil {
		t.Fatalf("go.mod has the toolchain %q, and deploy/Dockerfile the image %q: name both", toolchain, image)
	}
	if toolchain[1] != image[1] {
		t.Errorf("go.mod has Go %s, and deploy/Dockerfile %s", toolchain[1], image[1])
	}
}

// TestDeployContainsOnlyManifestsWithTests finds manifests that no test decodes.
func TestDeployContainsOnlyManifestsWithTests(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(repoRoot(t), "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	checked := []string{"Dockerfile", "account.yaml", "cronjob.yaml", "job.yaml"}
	for _, entry := range entries {
		if !slices.Contains(checked, entry.Name()) {
			t.Errorf("deploy/%s is not checked", entry.Name())
		}
	}
}
