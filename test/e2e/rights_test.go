package e2e

import (
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpgradeExitsIfUserLosesAllPermissions removes all rights of the user during an upgrade. The upgrade must exit. For each node
// that is still fenced, it must print the command that removes the fence.
func TestUpgradeExitsIfUserLosesAllPermissions(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	kubeconfig, err := shared.Cluster.KubeconfigFor("leaver")
	if err != nil {
		t.Fatal(err)
	}
	s := openWithoutBudgets(t, shared, "rightless")
	s.kubectl("create", "clusterrolebinding", "leaver", "--clusterrole=cluster-admin", "--user=leaver")
	c := startWithEnv(t, shared, []string{"KUBECONFIG=" + kubeconfig},
		"nodeupgrade", "-l", "pool="+s.group, "--current", "image=v2", "--yes", "--parallel-groups", "--progress=json", "--settle=0s")
	c.awaitEvent("a drained node", nodeReached("Drained")) // the upgrade waits for a replacement, which never comes
	if err := shared.Cluster.Client().RbacV1().ClusterRoleBindings().Delete(t.Context(), "leaver", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitExit(1)
	if said := c.errorLine(); !strings.Contains(said, `User "leaver" cannot `) {
		t.Errorf("the error does not name the missing right: %s", said)
	}
	var script strings.Builder
	for _, e := range c.log.events {
		if _, remedy, ok := strings.Cut(e.Text, " is still fenced: run "); ok {
			script.WriteString(remedy + "\n")
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-e")
	cmd.Env, cmd.Stdin = s.Env(), strings.NewReader(script.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("running\n%s\n%v: %s", script.String(), err, out)
	}
	for _, node := range s.nodes() {
		s.checkNoMarks(&node)
	}
}
