// Package controlplane runs a real Kubernetes control plane on this machine for tests and demos: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler built from Go modules, and KWOK in place of kubelets. It needs only the go command.
// It works on Linux and macOS.
//
// Package programs compiles them once, which takes minutes, and keeps them in the user's cache folder. [Start] runs them on
// loopback and is ready in 2 to 4 seconds. Any number of clusters can run in parallel. Tests call [ForTest]:
//
//	c := controlplane.ForTest(t, controlplane.Options{})
//	if err := c.AddNode(t.Context(), controlplane.NodeSpec{Name: "a1", Zone: "us-east-1a"}); err != nil {
//		t.Fatal(err)
//	}
//	pods, err := c.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
//
// Scheduling, eviction, budgets, admission, taints, garbage collection and the audit log are real. The stages in stages.yaml
// simulate the kubelets, and the annotations below control them. No image is pulled, no probe is called and no preStop hook runs.
// A pod's grace period has no effect, except that a grace period of 0 removes the pod immediately.
//
// The programs come from a nested module, kubernetes/. k8s.io/kubernetes needs replace lines, and with these "go install" could
// not install this module. The nested module's versions are those of this module, so that shared packages are compiled once.
package controlplane

// Annotations of pods and nodes that control the simulated kubelets. The value is a Go duration ("1500ms") or a time in RFC 3339
// ("2026-01-02T15:04:05.5Z"). A duration is counted from the last change of the object, so that each change restarts it. A time does
// not depend on changes of the object.
const (
	// AnnotationReadyAfter of a pod: how long it is Running before it is Ready; default 250 ms.
	AnnotationReadyAfter = "test.kubectl-nodeupgrade/ready-after"
	// AnnotationTerse, "true": the pod's kubelet writes as few changes as possible. The pod is Pending until it is Ready. The time of
	// ready-after is counted from its binding. Its object is deleted as soon as its containers have ended. The annotation is for
	// measurements that should contain little work of the control plane.
	AnnotationTerse = "test.kubectl-nodeupgrade/terse"
	// AnnotationGoneAfter of a pod: how long it takes to terminate after its deletion; default 500 ms. The pod's grace period
	// does not limit it.
	AnnotationGoneAfter = "test.kubectl-nodeupgrade/gone-after"
	// AnnotationCompletesAfter of a pod: how long after it is Ready its containers end with exit code 0.
	AnnotationCompletesAfter = "test.kubectl-nodeupgrade/completes-after"
	// AnnotationNeverReady, "true": the pod is Running and does not become Ready.
	AnnotationNeverReady = "test.kubectl-nodeupgrade/never-ready"
	// AnnotationCrashLoop, "true": the pod's containers wait in CrashLoopBackOff.
	AnnotationCrashLoop = "test.kubectl-nodeupgrade/crash-loop"
	// AnnotationCrashOn of a pod: a prefix of node names. On these nodes the pod's containers wait in CrashLoopBackOff.
	AnnotationCrashOn = "test.kubectl-nodeupgrade/crash-on"
	// AnnotationNeverGone, "true": a deleted pod terminates until another client deletes it with grace 0.
	AnnotationNeverGone = "test.kubectl-nodeupgrade/never-gone"
	// AnnotationBootAfter of a node: how long after its registration it becomes Ready.
	AnnotationBootAfter = "test.kubectl-nodeupgrade/boot-after"
	// AnnotationKubelet, "stopped": the node's lease is no longer renewed, and its pods are no longer updated. KWOK reads a label with
	// the same key and value; see [Cluster.StopKubelet]. If only the annotation is set, a stage adds the label.
	AnnotationKubelet = "test.kubectl-nodeupgrade/kubelet"
)
