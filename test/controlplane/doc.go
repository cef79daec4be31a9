// Package controlplane runs a real Kubernetes control plane on this machine for tests and demos: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler built from Go modules, and KWOK in the place of kubelets. It needs the go
// command and nothing else; it works on Linux and macOS.
//
// Package programs compiles them once, in minutes, and keeps them in the user's cache folder. [Start]
// runs them on loopback, any number of clusters side by side, and is ready in 2 to 4 seconds. Tests call [ForTest]:
//
//	c := controlplane.ForTest(t, controlplane.Options{})
//	if err := c.AddNode(t.Context(), controlplane.NodeSpec{Name: "a1", Zone: "us-east-1a"}); err != nil {
//		t.Fatal(err)
//	}
//	pods, err := c.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
//
// Scheduling, eviction, budgets, admission, taints, garbage collection and the audit log are the real thing. What a
// kubelet does is done by the stages in stages.yaml and steered by the annotations below: no image is pulled, no probe
// is called, no preStop hook runs, and a pod's grace period is not counted, except that grace 0 removes it at once.
//
// The programs come from a nested module, kubernetes/, because k8s.io/kubernetes needs replace lines, with which this
// module could not be installed by "go install". Its versions are those of this module, so that a package that both
// need is compiled once.
package controlplane

// Annotations of pods and nodes that steer the simulated kubelets. A time is a Go duration ("1500ms"), counted from the
// last change of the object before it, or a moment in RFC 3339 ("2026-01-02T15:04:05.5Z"), which later changes of the
// object do not move.
const (
	// AnnotationReadyAfter of a pod: how long it is Running before it is Ready; 250 ms without it.
	AnnotationReadyAfter = "test.kubectl-nodeupgrade/ready-after"
	// AnnotationTerse, "true": the pod's kubelet says as little as it can. The pod is Pending until it is Ready, its ready-after
	// after its binding, and its object goes when its containers have ended: for measurements of what is not the control plane.
	AnnotationTerse = "test.kubectl-nodeupgrade/terse"
	// AnnotationGoneAfter of a pod: how long it takes to terminate once deleted; 500 ms without it. The pod's grace
	// period puts no limit to it.
	AnnotationGoneAfter = "test.kubectl-nodeupgrade/gone-after"
	// AnnotationCompletesAfter of a pod: how long after it is Ready its containers end with exit code 0.
	AnnotationCompletesAfter = "test.kubectl-nodeupgrade/completes-after"
	// AnnotationNeverReady, "true": the pod is Running and does not become Ready.
	AnnotationNeverReady = "test.kubectl-nodeupgrade/never-ready"
	// AnnotationCrashLoop, "true": the pod's containers wait in CrashLoopBackOff.
	AnnotationCrashLoop = "test.kubectl-nodeupgrade/crash-loop"
	// AnnotationCrashOn of a pod: what the names of the nodes begin with on which its containers wait in CrashLoopBackOff.
	AnnotationCrashOn = "test.kubectl-nodeupgrade/crash-on"
	// AnnotationNeverGone, "true": the pod, once deleted, terminates until another actor deletes it with grace 0.
	AnnotationNeverGone = "test.kubectl-nodeupgrade/never-gone"
	// AnnotationBootAfter of a node: how long it is registered, not Ready, before it is Ready.
	AnnotationBootAfter = "test.kubectl-nodeupgrade/boot-after"
	// AnnotationKubelet, "stopped": no one renews the node's lease or looks after its pods any more. A label of the
	// same key and value says it to KWOK, see [Cluster.StopKubelet]; the annotation alone has the label added.
	AnnotationKubelet = "test.kubectl-nodeupgrade/kubelet"
)
