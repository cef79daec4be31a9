package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// cronJob is the name of all objects in docs/cronjob.md.
const cronJob = "nodeupgrade"

// testBlueGreenInJobs runs a blue-green upgrade in Jobs of the CronJob in docs/cronjob.md, with its service account and roles. A Job
// that exits when the soak begins must succeed. A Job for an unknown group must fail.
func testBlueGreenInJobs(t *testing.T, shared *fixture.Fixture) {
	s := openBlueGreen(t, shared, "scheduled")
	s.addSystemNode("scheduled-system")
	s.applyCronJob(s.group + " --parallel-groups") // needed because other cases upgrade groups at the same time
	for _, name := range []string{"scheduled-first", "scheduled-again"} {
		s.runJob(name, batchv1.JobComplete, "soaks until ")
	}
	if s.recordedSoak().Until.IsZero() {
		t.Error("after two Jobs the record has no soak")
	}
	s.runVerb(0, "complete", "--yes", "--parallel-groups").checkOutput("nodegroup/" + s.group + " upgraded")
	s.runJob("scheduled-last", batchv1.JobComplete, "nodes are current")
	s.checkUpgraded()
	s.applyCronJob("no-such-group")
	s.runJob("scheduled-wrong", batchv1.JobFailed, "no-such-group")
}

// addSystemNode adds a node without a kubelet. runJob runs the containers of its pods.
func (s *testCase) addSystemNode(name string) {
	s.t.Helper()
	spec := controlplane.NodeSpec{Name: name, Labels: map[string]string{"example.com/pool": "system", controlplane.AnnotationKubelet: "stopped"}}
	if err := s.Cluster.AddNode(s.t.Context(), spec); err != nil {
		s.t.Fatal(err)
	}
}

// applyCronJob applies the manifests of docs/cronjob.md for the group. The CronJob is suspended, so it creates no Jobs itself.
func (s *testCase) applyCronJob(group string) {
	s.t.Helper()
	page, err := os.ReadFile("../../docs/cronjob.md")
	if err != nil {
		s.t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	shown := strings.NewReplacer("kubectl-nodeupgrade workers ", "kubectl-nodeupgrade "+group+" ", "  schedule:", "  suspend: true\n  schedule:").Replace(text)
	file := filepath.Join(s.t.TempDir(), "cronjob.yaml")
	if err := os.WriteFile(file, []byte(shown), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.kubectl(applyRoles...)
	s.kubectl("apply", "--server-side", "-f", file)
}

// kubectl runs kubectl and fails the test if kubectl fails.
func (s *testCase) kubectl(args ...string) {
	s.t.Helper()
	result, err := s.Kubectl(s.t.Context(), args...)
	if err != nil || result.Code != 0 {
		s.t.Fatalf("kubectl %s: %v: %d %s", strings.Join(args, " "), err, result.Code, result.Stderr)
	}
}

// runJob creates a Job from the CronJob, runs its pod's container in place of a kubelet, and waits until the Job has the wanted
// condition.
func (s *testCase) runJob(name string, wanted batchv1.JobConditionType, says string) {
	s.t.Helper()
	s.sendHeartbeat("scheduled-system")
	s.kubectl("create", "job", name, "--from=cronjob/"+cronJob, "-n", metav1.NamespaceSystem)
	var pod corev1.Pod
	s.waitFor("the pod of Job "+name+" to have a node", func() bool {
		pods, err := s.Cluster.Client().CoreV1().Pods(metav1.NamespaceSystem).List(s.t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + name})
		if err != nil || len(pods.Items) == 0 {
			return false
		}
		pod = pods.Items[0]
		return pod.Spec.NodeName != ""
	})
	code, said := s.runContainer(&pod.Spec.Containers[0], pod.Spec.ServiceAccountName)
	if !strings.Contains(said, says) {
		s.t.Errorf("Job %s says %q, want %q in it", name, said, says)
	}
	s.endPod(&pod, code)
	var job *batchv1.Job
	s.waitFor("Job "+name+" to end", func() bool {
		var err error
		job, err = s.Cluster.Client().BatchV1().Jobs(metav1.NamespaceSystem).Get(s.t.Context(), name, metav1.GetOptions{})
		return err == nil && (hasCondition(job, batchv1.JobComplete) || hasCondition(job, batchv1.JobFailed))
	})
	if !hasCondition(job, wanted) {
		s.t.Errorf("Job %s is not %s, its container ended with %d: %s", name, wanted, code, said)
	}
}

func hasCondition(job *batchv1.Job, wanted batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == wanted && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// sendHeartbeat sets the node's Ready condition with the current time, as a kubelet does regularly.
func (s *testCase) sendHeartbeat(node string) {
	s.t.Helper()
	now := metav1.Now()
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}
	client := s.Cluster.Client().CoreV1().Nodes()
	s.waitFor("node "+node+" to be Ready", func() bool {
		n, err := client.Get(s.t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return false
		}
		n.Status.Conditions = []corev1.NodeCondition{ready}
		_, err = client.UpdateStatus(s.t.Context(), n, metav1.UpdateOptions{})
		return err == nil
	})
}

// runContainer runs the container's command with a token of the service account, and returns its exit code and its output.
func (s *testCase) runContainer(c *corev1.Container, account string) (code int, said string) {
	s.t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), c.Command[0], append(c.Command[1:], c.Args...)...)
	cmd.Env = append(s.Env(), "KUBECONFIG="+s.kubeconfigOf(account))
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		s.t.Fatalf("running %q: %v", c.Args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// kubeconfigOf returns the path of a kubeconfig with a token of the service account.
func (s *testCase) kubeconfigOf(account string) string {
	s.t.Helper()
	token, err := s.Cluster.Client().CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(s.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	config, path := s.Cluster.RESTConfig(), filepath.Join(s.t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{account: {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{account: {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{account: {Cluster: account, AuthInfo: account}},
		CurrentContext: account,
	}, path)
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

// endPod sets the pod's status as a kubelet does after the container has exited with the code.
func (s *testCase) endPod(pod *corev1.Pod, code int) {
	s.t.Helper()
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	client := s.Cluster.Client().CoreV1().Pods(pod.Namespace)
	s.waitFor("the status of pod "+pod.Name+" to be stored", func() bool {
		p, err := client.Get(s.t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), FinishedAt: metav1.Now(), Reason: fmt.Sprint(phase)}}
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: ended}}
		_, err = client.UpdateStatus(context.WithoutCancel(s.t.Context()), p, metav1.UpdateOptions{})
		return err == nil
	})
}
