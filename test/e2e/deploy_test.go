package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// applyRoles is the kubectl command that applies the published roles. The tests of a cluster apply them at the same time. A
// client-side apply could fail: it creates a missing object, and another test may have created the object just before.
var applyRoles = []string{"apply", "--server-side", "-f", "../../docs/permissions/kubernetes-read.yaml", "-f", "../../docs/permissions/kubernetes-operate.yaml"}

// TestDeployManifestsAreAccepted applies the files in deploy. The API server must accept them, and the account must have every right
// that the Job's command needs. The Job is suspended, so the test runs the command itself, with a token of the account.
func TestDeployManifestsAreAccepted(t *testing.T) {
	t.Parallel()
	s := openEmptyCase(t, commonFixture.forTest(t), fixture.Group{Name: "deployed", Zones: []string{zoneA}, Counts: []int{1}})
	manifests := []string{"-f", "../../deploy/account.yaml", "-f", s.suspendedManifest("job.yaml"), "-f", s.suspendedManifest("cronjob.yaml")}
	s.kubectl(applyRoles...)
	s.kubectl(append([]string{"apply", "--server-side", "--dry-run=server"}, manifests...)...)
	s.kubectl(append([]string{"apply", "--server-side"}, manifests...)...)

	jobs := s.Cluster.Client().BatchV1()
	cronJob, err := jobs.CronJobs(metav1.NamespaceSystem).Get(t.Context(), s.group, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	job, err := jobs.Jobs(metav1.NamespaceSystem).Get(t.Context(), s.group, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	if scheduled := cronJob.Spec.JobTemplate.Spec.Template.Spec; !slices.Equal(scheduled.Containers[0].Args, pod.Containers[0].Args) {
		t.Errorf("the Job runs %q, and the CronJob %q", pod.Containers[0].Args, scheduled.Containers[0].Args)
	}
	command := pod.Containers[0].DeepCopy()
	command.Command = []string{filepath.Join(s.Dir, "kubectl-nodeupgrade")} // the entry point of the image
	i := slices.Index(command.Args, "workers")
	if i < 0 {
		t.Fatalf("the Job runs %q, without the group workers", command.Args)
	}
	command.Args[i] = s.group
	command.Args = append(command.Args, "--dry-run", "--forecast=false")
	code, said := s.runContainer(command, pod.ServiceAccountName)
	if code != 0 || !strings.Contains(said, "1 of 1 node is outdated") || strings.Contains(said, "may not") {
		t.Errorf("%q as %s exits with %d: %s", command.Args, pod.ServiceAccountName, code, said)
	}
	command.Args = []string{"check", s.group} // check names each right that an upgrade needs and the account lacks
	if code, said := s.runContainer(command, pod.ServiceAccountName); code != 0 || !strings.Contains(said, "1 of 1 node is outdated") || strings.Contains(said, "RBAC001") {
		t.Errorf("%q as %s exits with %d: %s", command.Args, pod.ServiceAccountName, code, said)
	}
}

// suspendedManifest writes a copy of a manifest in deploy and returns the copy's path. The copy is named after the case, and it is
// suspended.
func (s *testCase) suspendedManifest(file string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", file))
	if err != nil {
		s.t.Fatal(err)
	}
	const head = "  name: nodeupgrade\n  namespace: kube-system\nspec:\n"
	if strings.Count(string(text), head) != 1 {
		s.t.Fatalf("deploy/%s has not one object named nodeupgrade in kube-system", file)
	}
	changed := strings.Replace(string(text), head, "  name: "+s.group+"\n  namespace: kube-system\nspec:\n  suspend: true\n", 1)
	path := filepath.Join(s.t.TempDir(), file)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}
