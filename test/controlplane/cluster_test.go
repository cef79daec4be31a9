package controlplane

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestControlPlaneSimulatesPodsAndNodes runs all subtests on one cluster, each with its own namespace and nodes.
func TestControlPlaneSimulatesPodsAndNodes(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Options{})
	for name, test := range map[string]func(*testing.T, *space){
		"PodIsReadyAfterGivenTime":   testPodIsReadyAfterGivenTime,
		"PodOfTerseKubelet":          testPodOfTerseKubelet,
		"PodStatusIsLikeAKubelets":   testPodStatusIsLikeAKubelets,
		"PodNeverReady":              testPodNeverReady,
		"PodInCrashLoop":             testPodInCrashLoop,
		"PodCrashesOnSomeNodes":      testPodCrashesOnSomeNodes,
		"PodWithReadinessGate":       testPodWithReadinessGate,
		"PodCompletes":               testPodCompletes,
		"PodNeverGone":               testPodNeverGone,
		"ChangeDelaysNoTermination":  testChangeDelaysNoTermination,
		"PodWithFinalizer":           testPodWithFinalizer,
		"NewPodWithSameName":         testNewPodWithSameNameIsIndependent,
		"EvictedPodIsReplaced":       testEvictedPodIsReplaced,
		"EvictionAgainstBudget":      testEvictionAgainstBudget,
		"EvictionOfAnotherUID":       testEvictionOfAnotherUID,
		"NodeBoots":                  testNodeBoots,
		"StoppedKubelet":             testStoppedKubelet,
		"KubeletStoppedByAnnotation": testKubeletStoppedByAnnotation,
		"AuditListsEvictions":        testAuditListsEvictions,
		"AuditListsEachEventOnce":    testAuditListsEachEventOnce,
		"UserWithoutRights":          testUserWithoutRights,
		"Kubectl":                    testKubectl,
		"SecondClusterIsIndependent": testSecondClusterIsIndependent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newSpace(t, c))
		})
	}
}

func testNodeBoots(t *testing.T, s *space) {
	const bootAfter = 3 * time.Second
	start, name := time.Now(), s.name+"-slow"
	if err := s.AddNode(t.Context(), NodeSpec{Name: name, BootAfter: bootAfter}); err != nil {
		t.Fatal(err)
	}
	s.waitForNode(t, name, corev1.ConditionFalse)
	s.patchNode(t, name, `{"metadata":{"labels":{"example.com/late":"true"}}}`)
	node := s.waitForNode(t, name, corev1.ConditionTrue)
	if took := time.Since(start); took < bootAfter {
		t.Errorf("Ready after %s, want %s or more", took, bootAfter)
	}
	if got := node.Status.NodeInfo.KubeletVersion; got != s.programs.Version {
		t.Errorf("the kubelet's version is %q, want %q", got, s.programs.Version)
	}
}

func testStoppedKubelet(t *testing.T, s *space) {
	name := s.addNode(t, "a")
	pod := s.createPod(t, "stuck", nil)
	s.waitForPod(t, "stuck", "to be Ready", isReady)
	if err := s.StopKubelet(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	s.waitForNode(t, name, corev1.ConditionUnknown)
	s.deletePod(t, "stuck", 1)
	s.waitForPod(t, "stuck", "to be unready, deleted, and there still", func(p *corev1.Pod) bool {
		return !isReady(p) && p.DeletionTimestamp != nil
	})
	if err := s.StartKubelet(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	s.waitForNode(t, name, corev1.ConditionTrue)
	s.waitForDeletion(t, pod)
}

func testKubeletStoppedByAnnotation(t *testing.T, s *space) {
	name := s.addNode(t, "a")
	s.patchNode(t, name, `{"metadata":{"annotations":{"`+AnnotationKubelet+`":"stopped"}}}`)
	s.waitForNode(t, name, corev1.ConditionUnknown)
}

func testUserWithoutRights(t *testing.T, s *space) {
	path, err := s.KubeconfigFor("jane", "developers")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got error %v, want forbidden", err)
	}
	told := slices.ContainsFunc(s.auditEvents(t), func(e Event) bool {
		return e.User.Username == "jane" && slices.Contains(e.User.Groups, "developers") && e.ResponseStatus.Code == 403
	})
	if !told {
		t.Error("the audit log has no request of jane of the developers")
	}
}

func testKubectl(t *testing.T, s *space) {
	name := s.addNode(t, "a")
	cmd := exec.CommandContext(t.Context(), s.Kubectl(), "--kubeconfig", s.Kubeconfig(), "get", "node", name, "--no-headers")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Ready") || !strings.Contains(string(out), s.programs.Version) {
		t.Errorf("kubectl says %q, %v, want a Ready node of version %s", out, err, s.programs.Version)
	}
}

// testSecondClusterIsIndependent starts a second cluster, whose first port is in use.
func testSecondClusterIsIndependent(t *testing.T, s *space) {
	name := s.addNode(t, "a")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	calls := 0
	c, err := Start(t.Context(), Options{Log: t.Output(), ports: func() (int, error) {
		if calls++; calls == 1 {
			return taken.Addr().(*net.TCPAddr).Port, nil
		}
		return freePort()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if calls != 2 {
		t.Errorf("asked for %d ports, want 2", calls)
	}
	if _, err := c.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got error %v, want the first cluster's node not to be found", err)
	}
	// If a client of one cluster reaches the other, because it took over a port, the client's requests must fail.
	stray := s.RESTConfig()
	stray.Host = c.RESTConfig().Host
	client, err := kubernetes.NewForConfig(stray)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Discovery().ServerVersion(); err == nil {
		t.Error("a client of one cluster talks to the other")
	}
	c.Stop()
	if _, err := c.Client().Discovery().ServerVersion(); err == nil {
		t.Error("the API server answers after Stop")
	}
	if _, err := os.Stat(filepath.Dir(c.Kubeconfig())); !os.IsNotExist(err) {
		t.Errorf("got error %v, want the folder removed", err)
	}
	c.Stop()
}

func TestStartRejectsInvalidOptions(t *testing.T) {
	inUse := t.TempDir()
	if err := os.Mkdir(filepath.Join(inUse, "etcd"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"a folder in use":    {Options{Dir: inUse}, "not empty"},
		"a grace too short":  {Options{NodeMonitorGrace: time.Second}, "2s or more"},
		"a malformed policy": {Options{AuditPolicy: "kind: Nonsense"}, "kube-apiserver"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				t.Skip("skipping: -short builds no control plane")
			}
			c, err := Start(t.Context(), test.options)
			if err == nil {
				c.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one that says %q", err, test.want)
			}
		})
	}
}
