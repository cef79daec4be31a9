package main

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

const (
	podsPerNode, replicasPerWorkload = 30, 50
	// nodesOfGroup is the number of nodes in the group for which plans are made.
	workloadsPerNamespace, nodesOfGroup = 12, 10
)

// largeCluster is a cluster with thirty pods on each node. The pods belong to Deployments of fifty replicas, and every other
// Deployment has a budget. Its objects are as large as those of real clusters: a pod has 4 KB, a node 8 KB.
type largeCluster struct {
	nodes int
	began metav1.Time
}

func newLargeCluster(nodes int) *largeCluster {
	return &largeCluster{nodes: nodes, began: metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
}

func (c *largeCluster) pods() int { return c.nodes * podsPerNode }

// seedObjects writes the cluster into etcd.
func (c *largeCluster) seedObjects(s *controlplane.Seed) error {
	for i := range c.nodes {
		if err := s.Put("minions", c.newNode(i)); err != nil {
			return err
		}
	}
	for w := range c.pods() / replicasPerWorkload {
		if err := c.seedWorkload(s, w); err != nil {
			return err
		}
	}
	return nil
}

func (c *largeCluster) seedWorkload(s *controlplane.Seed, w int) error {
	d := c.newDeployment(w)
	type stored struct {
		resource string
		object   runtime.Object
	}
	objects := []stored{{"deployments", d}, {"replicasets", c.newReplicaSet(d)}}
	if w%workloadsPerNamespace == 0 {
		objects = append(objects, stored{"namespaces", &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: d.Namespace, UID: types.UID(d.Namespace)}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		}})
	}
	if w%2 == 0 {
		objects = append(objects, stored{"poddisruptionbudgets", c.newBudget(d)})
	}
	for i := range replicasPerWorkload {
		objects = append(objects, stored{"pods", c.newPod(d, w*replicasPerWorkload+i)})
	}
	for _, o := range objects {
		if err := s.Put(o.resource, o.object); err != nil {
			return err
		}
	}
	return nil
}

// formatUID returns a unique UID that looks like a real one.
func formatUID(kind, n int) types.UID {
	return types.UID(fmt.Sprintf("%08x-5c1d-4e7a-9b3f-%012x", kind, n))
}

func nodeName(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255)
}

// managedFields returns managed fields of two managers, as in a real object.
func (c *largeCluster) managedFields(manager string, owned ...string) []metav1.ManagedFieldsEntry {
	fields := func(names ...string) *metav1.FieldsV1 {
		return metav1.NewFieldsV1("{\"f:" + strings.Join(names, "\":{},\"f:") + "\":{}}")
	}
	entry := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &c.began, FieldsType: "FieldsV1"}
	status := entry
	status.Manager, status.Subresource = "kubelet", "status"
	entry.FieldsV1 = fields(append(owned, "metadata", "labels", "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version", "team",
		"pod-template-hash", "generateName", "ownerReferences", "spec", "containers", "k:{\\\"name\\\":\\\"app\\\"}", "image", "imagePullPolicy", "env", "livenessProbe",
		"readinessProbe", "failureThreshold", "httpGet", "path", "port", "scheme", "periodSeconds", "successThreshold", "timeoutSeconds", "resources", "limits", "requests",
		"volumeMounts", "k:{\\\"mountPath\\\":\\\"/etc/app\\\"}", "mountPath", "name", "dnsPolicy", "restartPolicy", "schedulerName", "securityContext", "serviceAccount",
		"terminationGracePeriodSeconds", "topologySpreadConstraints", "volumes", "k:{\\\"name\\\":\\\"config\\\"}", "configMap")...)
	status.FieldsV1 = fields("status", "conditions", "k:{\\\"type\\\":\\\"ContainersReady\\\"}", "lastProbeTime", "lastTransitionTime", "observedGeneration", "type",
		"k:{\\\"type\\\":\\\"Initialized\\\"}", "k:{\\\"type\\\":\\\"PodReadyToStartContainers\\\"}", "k:{\\\"type\\\":\\\"Ready\\\"}", "containerStatuses", "hostIP", "phase", "podIP", "podIPs", "startTime")
	return []metav1.ManagedFieldsEntry{entry, status}
}

func (c *largeCluster) newNode(i int) *corev1.Node {
	zone := "us-east-1" + string("abc"[i%3])
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: nodeName(i), UID: formatUID(0, i), CreationTimestamp: c.began, ManagedFields: c.managedFields("kubelet"),
			Labels: map[string]string{
				corev1.LabelHostname: nodeName(i), corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: "us-east-1", corev1.LabelOSStable: "linux",
				corev1.LabelArchStable: "amd64", corev1.LabelInstanceTypeStable: "m6i.2xlarge", "image": "old",
			},
			Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///%s/i-%017x", zone, i)},
	}
	if i < nodesOfGroup {
		node.Labels["pool"] = "bench"
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("7910m"), corev1.ResourceMemory: resource.MustParse("31Gi"), corev1.ResourcePods: resource.MustParse("58"),
	}
	node.Status = corev1.NodeStatus{Capacity: room, Allocatable: room, NodeInfo: corev1.NodeSystemInfo{
		KubeletVersion: "v1.35.2", OSImage: "Amazon Linux 2023", KernelVersion: "6.12.5", ContainerRuntimeVersion: "containerd://2.1.4", Architecture: "amd64", OperatingSystem: "linux",
	}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, LastHeartbeatTime: c.began, LastTransitionTime: c.began, Reason: "KubeletHasWhatItNeeds", Message: "kubelet has what it needs",
		})
	}
	for n := range 20 { // the image names that a kubelet reports, each by digest and by tag
		name := fmt.Sprintf("123456789012.dkr.ecr.us-east-1.amazonaws.com/team/service-%02d", n)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("%s@sha256:%064x", name, n), name + ":1.42.0"}, SizeBytes: 1 << 28})
	}
	return node
}

func (c *largeCluster) newDeployment(w int) *appsv1.Deployment {
	name, replicas := fmt.Sprintf("service-%05d", w), int32(replicasPerWorkload)
	labels := map[string]string{
		"app.kubernetes.io/name": name, "app.kubernetes.io/instance": name, "app.kubernetes.io/version": "1.42.0", "team": fmt.Sprintf("team-%04d", w/workloadsPerNamespace),
		"pod-template-hash": fmt.Sprintf("%010x", w),
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: labels["team"], UID: formatUID(1, w), CreationTimestamp: c.began, Labels: labels, ManagedFields: c.managedFields("kubectl", "replicas", "selector", "template"),
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: c.newPodSpec(name, labels)},
		},
		Status: appsv1.DeploymentStatus{Replicas: replicas, ReadyReplicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: replicas},
	}
}

func ownerReferences(kind, name string, uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid, Controller: &yes, BlockOwnerDeletion: &yes}}
}

func (c *largeCluster) newReplicaSet(d *appsv1.Deployment) *appsv1.ReplicaSet {
	meta := *d.ObjectMeta.DeepCopy()
	meta.Name, meta.UID = d.Name+"-"+d.Labels["pod-template-hash"], "rs-"+d.UID
	meta.OwnerReferences = ownerReferences("Deployment", d.Name, d.UID)
	return &appsv1.ReplicaSet{
		ObjectMeta: meta,
		Spec:       appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template},
		Status:     appsv1.ReplicaSetStatus{Replicas: replicasPerWorkload, ReadyReplicas: replicasPerWorkload, AvailableReplicas: replicasPerWorkload},
	}
}

func (c *largeCluster) newBudget(d *appsv1.Deployment) *policyv1.PodDisruptionBudget {
	missing := intstr.FromString("10%")
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, UID: "pdb-" + d.UID, CreationTimestamp: c.began, Generation: 1, ManagedFields: c.managedFields("kubectl")},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &missing, Selector: d.Spec.Selector},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, DisruptionsAllowed: 5, ExpectedPods: replicasPerWorkload, CurrentHealthy: replicasPerWorkload, DesiredHealthy: replicasPerWorkload - 5,
		},
	}
}

func (c *largeCluster) newPodSpec(app string, labels map[string]string) corev1.PodSpec {
	mode, seconds, no := int32(0o644), int64(30), false
	lifetime := int64(3607)
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	container := corev1.Container{
		Name: "app", Image: "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/" + app + ":1.42.0", ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{"serve", "--listen=:8080", "--log-format=json"}, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("150m"), corev1.ResourceMemory: resource.MustParse("512Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		LivenessProbe: probe, ReadinessProbe: probe, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/app", ReadOnly: true}, {Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
	}
	for _, name := range []string{"DATABASE_URL", "CACHE_URL", "QUEUE_URL", "LOG_LEVEL", "REGION", "FEATURES", "TRACING_ENDPOINT"} {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: "value-of-" + name + "-for-" + app})
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}})
	return corev1.PodSpec{
		Containers: []corev1.Container{container}, RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &seconds, DNSPolicy: corev1.DNSClusterFirst,
		ServiceAccountName: app, DeprecatedServiceAccount: app, SchedulerName: corev1.DefaultSchedulerName, SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &no},
		EnableServiceLinks: &no,
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		}},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}, DefaultMode: &mode}}},
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &lifetime}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			}}}},
		},
	}
}

// newPod returns the n-th pod of the cluster. The pods are distributed evenly over the nodes.
func (c *largeCluster) newPod(d *appsv1.Deployment, n int) *corev1.Pod {
	set := d.Name + "-" + d.Labels["pod-template-hash"]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%05x", set, n), GenerateName: set + "-", Namespace: d.Namespace, UID: formatUID(2, n), Labels: d.Labels,
			Annotations:       map[string]string{"checksum/config": fmt.Sprintf("%064s", d.Labels["pod-template-hash"]), "prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
			CreationTimestamp: metav1.Time{Time: c.began.Add(time.Duration(n) * time.Second)}, OwnerReferences: ownerReferences("ReplicaSet", set, "rs-"+d.UID),
			ManagedFields: c.managedFields("kube-controller-manager"),
		},
		Spec: d.Spec.Template.Spec,
	}
	pod.Spec.NodeName = nodeName(n % c.nodes)
	started, ip := metav1.Time{Time: pod.CreationTimestamp.Add(2 * time.Second)}, fmt.Sprintf("10.%d.%d.%d", 128+n>>16, n>>8&255, n&255)
	ready := metav1.Time{Time: started.Add(10 * time.Second)}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &started, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}}, QOSClass: corev1.PodQOSBurstable,
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		at := started
		if kind == corev1.PodReady || kind == corev1.ContainersReady {
			at = ready
		}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at})
	}
	yes, app := true, &d.Spec.Template.Spec.Containers[0]
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: app.Name, Image: app.Image, ImageID: fmt.Sprintf("%s@sha256:%064x", app.Image, n%97), ContainerID: fmt.Sprintf("containerd://%064x", n), Ready: true, Started: &yes,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}, Resources: &app.Resources, AllocatedResources: app.Resources.Requests,
	}}
	return pod
}
