package controlplane

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSeededObjectsAreReadThroughAPIServer seeds more objects than fit in one transaction, and reads them through the API server.
func TestSeededObjectsAreReadThroughAPIServer(t *testing.T) {
	const pods = 2*seedPuts + 1
	c := ForTest(t, Options{OnlyAPIServer: true, Seed: func(s *Seed) error {
		for i := range pods {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%03d", i), UID: "u"}, Spec: corev1.PodSpec{NodeName: "a"},
			}
			if err := s.Put("pods", pod); err != nil {
				return err
			}
		}
		return s.Put("minions", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	}})
	list, err := c.Client().CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != pods || list.Items[pods-1].Name != "web-256" || list.Items[0].Spec.NodeName != "a" || list.Items[0].ResourceVersion == "" {
		t.Errorf("read %d pods, want %d", len(list.Items), pods)
	}
	if _, err := c.Client().CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if len(c.processes) != 2 {
		t.Errorf("%d processes run, want etcd and the API server", len(c.processes))
	}
}

// TestStartFailsWithInvalidSeed checks that the cluster does not start if Seed writes an object that is too large for etcd.
func TestStartFailsWithInvalidSeed(t *testing.T) {
	if testing.Short() {
		t.Skip("skipping: -short starts no control plane")
	}
	_, err := Start(t.Context(), Options{OnlyAPIServer: true, Seed: func(s *Seed) error {
		return s.Put("pods", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(make([]byte, 2<<20))}})
	}})
	if err == nil {
		t.Error("the cluster started although an object is too large for etcd")
	}
}
