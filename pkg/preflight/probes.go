package preflight

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// manyRestarts is the number of a container's restarts from which, together with one restart a
	// day, they count as a fault.
	manyRestarts = 5
	// restartBackOff is the waiting reason of a container that crashes repeatedly.
	restartBackOff = "CrashLoopBackOff"
)

// probeRules returns the rules about probes, which make pods ready and keep them ready.
func probeRules() []Rule {
	return []Rule{
		{
			ID: "PRB001", Severity: Error, Reads: []string{"services"}, find: perTemplate(findMissingReadinessProbe),
			Text:   "No container that a Service sends to has a readinessProbe or startupProbe, and the pod has no readiness gate. A new pod counts as ready as soon as it runs. It gets requests before it can answer, and budgets already allow the next eviction. Services whose ports are all for metrics do not count.",
			Source: "kubernetes.io, \"Configure Liveness, Readiness and Startup Probes\"; disruption.go, countHealthyPods",
		},
		{
			ID: "PRB002", Severity: Note, Reads: []string{"services"}, More: balancerKinds(), find: perTemplate(findRolloutBeforeBalancer),
			Text:   "An AWS load balancer sends requests to the IP addresses of a Deployment's pods, which have no readiness gate, and minReadySeconds is 0. A rollout does not wait until the load balancer sends to new pods. In a drain minReadySeconds does not help, because budgets ignore it.",
			Source: "disruption.go (no minReadySeconds); kubernetes.io, \"Deployments\"",
		},
		{
			ID: "PRB003", Severity: Note, find: perTemplate(findTightLiveness),
			Text:   "A container's livenessProbe makes the same check as its readinessProbe and gives up sooner. A pod that is overloaded during a drain is then killed, instead of getting no requests for a while.",
			Source: "kubernetes.io, \"Liveness, Readiness, and Startup Probes\"",
		},
		{
			ID: "PRB004", Severity: Warn, find: perWorkload(findRestarting),
			Text:   "A container is in CrashLoopBackOff, or was restarted at least 5 times and on average at least once a day. The kubelet waits 10 s to 5 min between restarts, so a pod that moves may take that long to be ready. Budgets delay the drain until then.",
			Source: "kubernetes.io, \"Pod Lifecycle\" (restart back-off is reset after 10 min without a restart)",
		},
		{
			ID: "PRB005", Severity: Note, Reads: []string{"services"}, find: perTemplate(findProbeOnOtherPort),
			Text:   "A container's readinessProbe checks a port that no Service sends to, so the pod may be ready before the Service's port answers. A port whose name shows that it is for checks (health, probe, ready, admin, management, status, metrics) does not count.",
			Source: "kubernetes.io, \"Configure Liveness, Readiness and Startup Probes\"",
		},
	}
}

// servingContainers returns the containers that declare a port which one of the workload's services
// sends to. If there are none, it returns all containers.
func servingContainers(w *Workload, pod *corev1.Pod) []*corev1.Container {
	var all, serving []*corev1.Container
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	lasting := all
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		isSidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if isSidecar {
			lasting = append(lasting, c)
		}
	}
	for _, c := range lasting {
		if len(servedPorts(w.Services, c)) > 0 {
			serving = append(serving, c)
		}
	}
	if len(serving) == 0 {
		return all
	}
	return serving
}

// servedPorts returns the container's ports that services send to.
func servedPorts(services []*corev1.Service, c *corev1.Container) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for _, service := range services {
		for i := range service.Spec.Ports {
			target := service.Spec.Ports[i].TargetPort
			if target == (intstr.IntOrString{}) {
				target = intstr.FromInt32(service.Spec.Ports[i].Port)
			}
			asked := service.Spec.Ports[i].Protocol != corev1.ProtocolUDP // no probe can check UDP
			if port := findDeclaredPort(c, target); port != nil && asked {
				ports = append(ports, *port)
			}
		}
	}
	return ports
}

// serviceOfContainer returns a service that sends to the container, or else the first service of its
// pod.
func serviceOfContainer(w *Workload, c *corev1.Container) *corev1.Service {
	for _, service := range w.Services {
		if len(servedPorts([]*corev1.Service{service}, c)) > 0 {
			return service
		}
	}
	return w.Services[0]
}

// findDeclaredPort returns the container's port with the name or number, nil if it declares none.
func findDeclaredPort(c *corev1.Container, wanted intstr.IntOrString) *corev1.ContainerPort {
	for i := range c.Ports {
		if port := &c.Ports[i]; port.ContainerPort == wanted.IntVal || wanted.StrVal != "" && port.Name == wanted.StrVal {
			return port
		}
	}
	return nil
}

// findMissingReadinessProbe implements rule PRB001.
func findMissingReadinessProbe(_ *Scene, w *Workload, pod *corev1.Pod) *Finding {
	if w.clientService() == nil || w.Kind == "Job" || len(pod.Spec.ReadinessGates) > 0 {
		return nil
	}
	serving := servingContainers(w, pod)
	if len(serving) == 0 || slices.ContainsFunc(serving, func(c *corev1.Container) bool { return c.ReadinessProbe != nil || c.StartupProbe != nil }) {
		return nil
	}
	c := serving[0]
	f := &Finding{
		Message: fmt.Sprintf("%s sends to container %s, which has no readinessProbe: a new pod gets requests before it can answer, and the drain counts it as ready", nameObject("Service", serviceOfContainer(w, c)), c.Name),
		Remedy:  "add a readinessProbe that succeeds when it can answer requests",
	}
	for _, port := range servedPorts(w.Services, c) {
		if port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
			f.Remedy = fmt.Sprintf("add a readinessProbe: httpGet of a page with the same dependencies as requests, or at least tcpSocket on port %d", port.ContainerPort)
			f.Fix = w.patchTemplateCommand(containerPatch(pod, c, fields{"readinessProbe": fields{"tcpSocket": fields{"port": port.ContainerPort}}}))
			break
		}
	}
	return f
}

// findRolloutBeforeBalancer implements rule PRB002.
func findRolloutBeforeBalancer(_ *Scene, w *Workload, pod *corev1.Pod) *Finding {
	target := findAddressTarget(w)
	if target == "" || w.Deployment == nil || w.Deployment.Spec.MinReadySeconds > 0 || len(pod.Spec.ReadinessGates) > 0 {
		return nil
	}
	return &Finding{
		Message: fmt.Sprintf("minReadySeconds is 0 and there is no readiness gate: a rollout deletes old pods before the load balancer of %s sends to new ones", target),
		Remedy:  fmt.Sprintf("add readiness gates (LB001), which also help in drains, or set minReadySeconds to %d, which helps in rollouts only", wholeSeconds(deregistrationLag)),
		Fix:     patchCommand(strategicPatch, w.Kind, w.Namespace, w.Name, fields{"spec": fields{"minReadySeconds": wholeSeconds(deregistrationLag)}}),
	}
}

// findTightLiveness implements rule PRB003.
func findTightLiveness(_ *Scene, w *Workload, pod *corev1.Pod) *Finding {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		live, ready := c.LivenessProbe, c.ReadinessProbe
		if live == nil || ready == nil || describeProbe(live) == "" || describeProbe(live) != describeProbe(ready) || timeToProbeFailure(live) >= timeToProbeFailure(ready) {
			continue
		}
		failures := int(math.Ceil(2 * timeToProbeFailure(ready).Seconds() / float64(cmp.Or(live.PeriodSeconds, 10))))
		return &Finding{
			Message: fmt.Sprintf("livenessProbe and readinessProbe of container %s make the same check (%s): the livenessProbe kills it after %s, and the readinessProbe stops requests only after %s",
				c.Name, describeProbe(live), describeSpan(timeToProbeFailure(live)), describeSpan(timeToProbeFailure(ready))),
			Remedy: fmt.Sprintf("set livenessProbe.failureThreshold to %d, twice the readinessProbe's time, or use a cheaper check", failures),
			Fix:    w.patchTemplateCommand(containerPatch(pod, c, fields{"livenessProbe": fields{"failureThreshold": failures}})),
		}
	}
	return nil
}

// describeProbe describes a probe over the network, "" for other probes.
func describeProbe(probe *corev1.Probe) string {
	switch {
	case probe.HTTPGet != nil:
		return fmt.Sprintf("GET %s on port %s", cmp.Or(probe.HTTPGet.Path, "/"), probe.HTTPGet.Port.String())
	case probe.TCPSocket != nil:
		return "port " + probe.TCPSocket.Port.String()
	case probe.GRPC != nil:
		return fmt.Sprintf("gRPC on port %d", probe.GRPC.Port)
	default:
		return ""
	}
}

// timeToProbeFailure returns how long a probe may fail before the kubelet acts.
func timeToProbeFailure(probe *corev1.Probe) time.Duration {
	return time.Duration(cmp.Or(probe.PeriodSeconds, 10)*cmp.Or(probe.FailureThreshold, 3)) * time.Second
}

// findRestarting implements rule PRB004.
func findRestarting(s *Scene, w *Workload) *Finding {
	pods, most := 0, corev1.ContainerStatus{RestartCount: -1}
	for _, pod := range w.Pods {
		i := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return isRestarting(&c, s.World.Now.Sub(pod.CreationTimestamp.Time))
		})
		if i < 0 {
			continue
		}
		pods++
		if c := pod.Status.ContainerStatuses[i]; c.RestartCount > most.RestartCount {
			most = c
		}
	}
	if pods == 0 {
		return nil
	}
	state := ""
	if waiting := most.State.Waiting; waiting != nil && waiting.Reason == restartBackOff {
		state = " and is in " + restartBackOff
	}
	return &Finding{
		Message: fmt.Sprintf("container %s was restarted %d times%s (in %d of %d pods): a restart may take 5 min, so a pod that moves may become ready late or never", most.Name, most.RestartCount, state, pods, len(w.Pods)),
		Remedy:  "find out why it exits with kubectl logs --previous, and fix that before the upgrade",
	}
}

// isRestarting reports whether a container crashes repeatedly. age is the age of its pod.
func isRestarting(c *corev1.ContainerStatus, age time.Duration) bool {
	const day = 24 * time.Hour
	isWaiting := c.State.Waiting != nil && c.State.Waiting.Reason == restartBackOff
	return isWaiting || c.RestartCount >= manyRestarts && time.Duration(c.RestartCount)*day >= age
}

// findProbeOnOtherPort implements rule PRB005.
func findProbeOnOtherPort(_ *Scene, w *Workload, pod *corev1.Pod) *Finding {
	for _, c := range servingContainers(w, pod) {
		served := servedPorts(w.Services, c)
		if c.ReadinessProbe == nil || len(served) == 0 {
			continue
		}
		wanted, isForProbes := portOfProbe(c)
		isServed := slices.ContainsFunc(served, func(port corev1.ContainerPort) bool { return port.ContainerPort == wanted })
		if wanted == 0 || isForProbes || isServed {
			continue
		}
		return &Finding{
			Message: fmt.Sprintf("the readinessProbe of container %s checks port %d, but %s sends to port %d: the pod may be ready before that port answers",
				c.Name, wanted, nameObject("Service", serviceOfContainer(w, c)), served[0].ContainerPort),
			Remedy: fmt.Sprintf("check port %[1]d, or make sure that port %[2]d answers only when port %[1]d does", served[0].ContainerPort, wanted),
		}
	}
	return nil
}

// portOfProbe returns the port of the container's readinessProbe, 0 if it has none. isForProbes is true
// if the port's name shows that it is for probes, or if Istio's agent runs the probe for the
// container.
func portOfProbe(c *corev1.Container) (number int32, isForProbes bool) {
	var asked intstr.IntOrString
	switch probe := c.ReadinessProbe; {
	case probe.HTTPGet != nil:
		asked, isForProbes = probe.HTTPGet.Port, strings.HasPrefix(probe.HTTPGet.Path, "/app-health/")
	case probe.TCPSocket != nil:
		asked = probe.TCPSocket.Port
	case probe.GRPC != nil:
		asked = intstr.FromInt32(probe.GRPC.Port)
	}
	number = asked.IntVal
	if port := findDeclaredPort(c, asked); port != nil {
		number = port.ContainerPort
		isForProbes = isForProbes || slices.ContainsFunc([]string{"health", "probe", "ready", "admin", "manage", "mgmt", "status", "metric"}, func(word string) bool {
			return strings.Contains(port.Name, word)
		})
	}
	return number, isForProbes
}
