package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// minShutdown is the shortest time that an application should have between SIGTERM and
	// SIGKILL.
	minShutdown = 5 * time.Second
	// typicalShutdown is the advised time for the shutdown. longStart is the shortest sleep in a
	// postStart hook that is reported.
	typicalShutdown, longStart = 30 * time.Second, 10 * time.Second
	// deregistrationLag is how long load balancers may continue to send to a deleted pod. minDeregistrationLag
	// is how long they nearly always do, because a controller must first deregister the pod.
	deregistrationLag, minDeregistrationLag = 30 * time.Second, 10 * time.Second
)

// terminationRules returns the rules about how pods stop.
func terminationRules() []Rule {
	return []Rule{
		{
			ID: "TERM001", Severity: Error, find: perTemplate(findSleepBeyondGrace),
			Text:   "A preStop hook sleeps as long as terminationGracePeriodSeconds or longer. The grace period starts with the deletion and includes the hook. The hook is cut off, and the application is killed 2 s after SIGTERM, together with its open requests.",
			Source: "kuberuntime_container.go, killContainer; kubernetes.io, \"Container Lifecycle Hooks\"",
		},
		{
			ID: "TERM002", Severity: Warn, find: perTemplate(findShortShutdown),
			Text:   "After its preStop hook's sleep, an application has less than 5 s of terminationGracePeriodSeconds left to shut down. Requests that take longer are cut off.",
			Source: "kuberuntime_container.go, killContainer",
		},
		{
			ID: "TERM003", Severity: Warn, Reads: []string{"services"}, More: balancerKinds(), find: perTemplate(findEarlyStop),
			Text:   "An AWS load balancer sends requests to the IP addresses of pods whose containers have no preStop hook, or a hook that lasts less than 10 s: a short sleep, or a command such as nginx -s quit that closes the port immediately. A pod that exits on SIGTERM is gone before the load balancer stops sending to it, and clients get 502 or 504. The rule assumes that hooks that run other programs last long enough.",
			Source: "aws-load-balancer-controller#1719, #2366",
		},
		{
			ID: "TERM004", Severity: Warn, Reads: []string{"services"}, More: balancerKinds(), find: perTemplate(findLongDeregistration),
			Text:   "The deregistration delay of a target group of pods, read from an annotation or from the cloud, is longer than the pods' terminationGracePeriodSeconds. The load balancer gives open requests that time, but the pod is killed earlier. If no annotation sets the delay and it was not read from the cloud, the finding is an info, because the default is 300 s. A delay of 300 s that was read from the cloud is not reported.",
			Source: "docs.aws.amazon.com, \"Edit target group attributes\"",
		},
		{
			ID: "TERM005", Severity: Error, StartsAnyway: true, find: perTemplate(findLongGrace),
			Text:   "terminationGracePeriodSeconds is longer than a node's drain may take. If a pod needs all of it, --on-timeout decides whether the upgrade fails, deletes the pod or skips the node.",
			Source: "docs.aws.amazon.com, \"Managed node update behavior\" (15 min); cloud.google.com, \"Node upgrade strategies\" (1 h)",
		},
		{
			ID: "TERM006", Severity: Note, find: perTemplate(findSleepBinary),
			Text:   "A preStop hook only runs the program sleep, although the cluster's Kubernetes (1.30 or newer) has a built-in sleep. In an image without that program or without a shell, the hook fails and SIGTERM is sent immediately.",
			Source: "KEP-3960; kubernetes.io, \"Container Lifecycle Hooks\"",
		},
		{
			ID: "TERM007", Severity: Note, find: perTemplate(findSlowStart),
			Text:   "A postStart hook sleeps 10 s or longer. The container's probes do not run until the hook has finished, so each pod that moves takes that much longer to be ready. If the hook fails, the container is killed and started again, without its preStop hook.",
			Source: "kuberuntime_container.go, startContainer; kubernetes.io, \"Container Lifecycle Hooks\"",
		},
	}
}

// findSleepBeyondGrace implements rule TERM001.
func findSleepBeyondGrace(_ *Scene, w *Workload, pod *corev1.Pod) *Finding {
	container, sleep := findSleepingHook(pod)
	grace := drain.GracePeriod(pod)
	if sleep == 0 || sleep < grace {
		return nil
	}
	return &Finding{
		Message: fmt.Sprintf("the preStop hook of container %s sleeps %s, and terminationGracePeriodSeconds is %d: the hook is cut off, and the container is killed 2 s after SIGTERM",
			container, describeSpan(sleep), wholeSeconds(grace)),
		Remedy: fmt.Sprintf("set terminationGracePeriodSeconds to %d: the sleep and %s to shut down", wholeSeconds(graceForSleep(sleep)), describeSpan(typicalShutdown)),
		Fix:    w.patchTemplateCommand(fields{"terminationGracePeriodSeconds": wholeSeconds(graceForSleep(sleep))}),
	}
}

// findShortShutdown implements rule TERM002.
func findShortShutdown(_ *Scene, w *Workload, pod *corev1.Pod) *Finding {
	container, sleep := findSleepingHook(pod)
	left := drain.GracePeriod(pod) - sleep
	if sleep == 0 || left <= 0 || left >= minShutdown {
		return nil
	}
	return &Finding{
		Message: fmt.Sprintf("the preStop hook of container %s sleeps %s of the %s that terminationGracePeriodSeconds allows, which leaves %s to shut down",
			container, describeSpan(sleep), describeSpan(drain.GracePeriod(pod)), describeSpan(left)),
		Remedy: fmt.Sprintf("set terminationGracePeriodSeconds to %d", wholeSeconds(graceForSleep(sleep))),
		Fix:    w.patchTemplateCommand(fields{"terminationGracePeriodSeconds": wholeSeconds(graceForSleep(sleep))}),
	}
}

// findSleepingHook returns the preStop hook that sleeps longest, because the containers' hooks run
// concurrently.
func findSleepingHook(pod *corev1.Pod) (container string, longest time.Duration) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if sleep := drain.HookSleep(preStopOf(c)); sleep > longest {
			container, longest = c.Name, sleep
		}
	}
	return container, longest
}

func preStopOf(c *corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PreStop
}

// graceForSleep returns the grace period for a sleep and a usual shutdown, rounded up to 10 s.
func graceForSleep(sleep time.Duration) time.Duration {
	return (sleep + typicalShutdown + 10*time.Second - 1).Truncate(10 * time.Second)
}

// findEarlyStop implements rule TERM003.
func findEarlyStop(s *Scene, w *Workload, pod *corev1.Pod) *Finding {
	target := findAddressTarget(w)
	serving := servingContainers(w, pod)
	i := slices.IndexFunc(serving, func(c *corev1.Container) bool { return describeEarlyStop(c) != "" })
	if target == "" || i < 0 {
		return nil
	}
	hook, longer := preStopOf(serving[i]), deregistrationLag
	if _, closer, _ := drain.PreStopServingTime(hook); closer != "" {
		longer += drain.HookSleep(hook)
	}
	grace := max(drain.GracePeriod(pod), graceForSleep(longer))
	change := containerPatch(pod, serving[i], fields{"lifecycle": fields{"preStop": addSleepToHook(s, hook)}})
	change["terminationGracePeriodSeconds"] = wholeSeconds(grace)
	return &Finding{
		Message: fmt.Sprintf("%s sends to the pods' addresses, and %s: it may end before the load balancer has stopped sending to it", target, describeEarlyStop(serving[i])),
		Remedy: fmt.Sprintf("use a preStop hook that sleeps %s and set terminationGracePeriodSeconds to %d, unless it already serves that long after SIGTERM",
			describeSpan(deregistrationLag), wholeSeconds(grace)),
		Fix: w.patchTemplateCommand(change),
	}
}

// describeEarlyStop returns why a container may stop serving before load balancers know. It returns
// "" if it does not, or if the duration of its hook is not known.
func describeEarlyStop(c *corev1.Container) string {
	hook := preStopOf(c)
	if hook == nil {
		return fmt.Sprintf("container %s has no preStop hook", c.Name)
	}
	lasts, closer, known := drain.PreStopServingTime(hook)
	switch {
	case !known || lasts >= minDeregistrationLag:
		return ""
	case closer != "" && lasts == 0:
		return fmt.Sprintf("the preStop hook of container %s closes its port immediately (%s)", c.Name, closer)
	case closer != "":
		return fmt.Sprintf("the preStop hook of container %s closes its port after %s (%s)", c.Name, describeSpan(lasts), closer)
	default:
		return fmt.Sprintf("the preStop hook of container %s lasts only %s", c.Name, describeSpan(lasts))
	}
}

// addSleepToHook returns the change that makes a container sleep before its hook's other actions.
func addSleepToHook(s *Scene, hook *corev1.LifecycleHandler) fields {
	if _, closer, _ := drain.PreStopServingTime(hook); closer != "" {
		return fields{"exec": fields{"command": prependSleep(hook.Exec.Command)}}
	}
	change := sleepHook(s, deregistrationLag)
	if hook != nil && hook.Exec != nil && change["exec"] == nil {
		change["exec"] = nil // a hook may have only one kind of action
	}
	return change
}

// prependSleep returns a command that sleeps first. It uses the command's own shell, or /bin/sh.
func prependSleep(command []string) []string {
	sleep := fmt.Sprintf("sleep %d; ", wholeSeconds(deregistrationLag))
	if i := drain.ShellScriptIndex(command); i > 0 {
		longer := slices.Clone(command)
		longer[i] = sleep + longer[i]
		return longer
	}
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = shell.Quote(word)
	}
	return []string{"/bin/sh", "-c", sleep + strings.Join(words, " ")}
}

// containerPatch returns the change of one container in a pod's spec.
func containerPatch(pod *corev1.Pod, c *corev1.Container, change fields) fields {
	change["name"] = c.Name
	list := "containers"
	if slices.ContainsFunc(pod.Spec.InitContainers, func(other corev1.Container) bool { return other.Name == c.Name }) {
		list = "initContainers"
	}
	return fields{list: []fields{change}}
}

// sleepHook returns a hook that sleeps, without a program if the cluster supports that.
func sleepHook(s *Scene, sleep time.Duration) fields {
	if canSleep(s) {
		return fields{"sleep": fields{"seconds": wholeSeconds(sleep)}}
	}
	return fields{"exec": fields{"command": []string{"sleep", fmt.Sprint(wholeSeconds(sleep))}}}
}

// canSleep reports whether hooks can sleep without a program, which Kubernetes supports since 1.30
// (KEP-3960).
func canSleep(s *Scene) bool {
	server, err := version.ParseGeneric(s.Facts.ServerVersion)
	return err == nil && server.AtLeast(version.MajorMinor(1, 30))
}

// findLongDeregistration implements rule TERM004.
func findLongDeregistration(s *Scene, w *Workload, pod *corev1.Pod) *Finding {
	where, delay := annotatedDelay(w)
	if delay == 0 {
		where, delay = readDelay(s, w)
	}
	target, grace := findAddressTarget(w), drain.GracePeriod(pod)
	if target != "" && delay == 0 && !isDelayRead(s, w) && defaultDelay > grace {
		return &Finding{
			Severity: Note,
			Message: fmt.Sprintf("the deregistration delay of %s is not known: no annotation sets it, and it was not read from the cloud. The default is %d s, but terminationGracePeriodSeconds is %d: a request that the load balancer still waits for is cut off when the pod is killed",
				target, wholeSeconds(defaultDelay), wholeSeconds(grace)),
			Remedy: fmt.Sprintf("set deregistration_delay.timeout_seconds to %d, if no request takes longer", wholeSeconds(grace)),
		}
	}
	if findAddressTarget(w) == "" || delay <= grace {
		return nil
	}
	return &Finding{
		Message: fmt.Sprintf("%s has a deregistration delay of %d s, but terminationGracePeriodSeconds is only %d: a request that the load balancer still waits for is cut off when the pod is killed",
			where, wholeSeconds(delay), wholeSeconds(grace)),
		Remedy: fmt.Sprintf("set terminationGracePeriodSeconds to %d, or the delay to %d", wholeSeconds(delay)+10, wholeSeconds(grace)),
		Fix:    w.patchTemplateCommand(fields{"terminationGracePeriodSeconds": wholeSeconds(delay) + 10}),
	}
}

// findLongGrace implements rule TERM005.
func findLongGrace(s *Scene, _ *Workload, pod *corev1.Pod) *Finding {
	request, grace := &s.World.Request, drain.GracePeriod(pod)
	limit := longestGrace(s)
	if request.ReplacedBy().Traits().Expires || grace <= limit {
		return nil
	}
	f := &Finding{}
	end := "is deleted with its node"
	switch {
	case limit < request.DrainTimeout.Duration:
		end = "is killed"
	case request.Strategy.Traits().DeletesRest:
	case request.OnTimeout == record.Fail:
		f.Severity, end = Block, "makes the upgrade fail"
	case request.OnTimeout == record.Skip:
		end = "has its node skipped"
	}
	f.Message = fmt.Sprintf("terminationGracePeriodSeconds is %d, and %s: a pod that needs longer %s", wholeSeconds(grace), describeGraceLimit(s, limit), end)
	f.Remedy = fmt.Sprintf("set terminationGracePeriodSeconds to %d or less", wholeSeconds(limit))
	if obeysDrainFlags(request) {
		f.Remedy = fmt.Sprintf("pass --drain-timeout=%dm, or %s", wholeMinutes(grace+5*time.Minute), f.Remedy)
	}
	return f
}

// longestGrace returns how long a pod may take to end: at most a node's drain timeout, and less if a cloud that upgrades the group ends
// pods earlier.
func longestGrace(s *Scene) time.Duration {
	limit := s.World.Request.DrainTimeout.Duration
	if m := s.World.Group.Managed; m != nil && m.MaxGrace > 0 {
		limit = min(limit, m.MaxGrace)
	}
	return limit
}

// describeGraceLimit returns what sets the limit of longestGrace.
func describeGraceLimit(s *Scene, limit time.Duration) string {
	if limit < s.World.Request.DrainTimeout.Duration {
		return fmt.Sprintf("%s gives pods at most %s to end", nodegroup.InfoOf(s.World.Group.Provider).Manager.Name, describeSpan(limit))
	}
	return fmt.Sprintf("a node's drain may take %s", describeSpan(limit))
}

// findSleepBinary implements rule TERM006.
func findSleepBinary(s *Scene, w *Workload, pod *corev1.Pod) *Finding {
	if !canSleep(s) {
		return nil
	}
	var names []string
	var changes []fields
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		hook := preStopOf(c)
		if hook == nil || hook.Exec == nil || !isOnlySleep(hook.Exec.Command) {
			continue
		}
		native := fields{"exec": nil, "sleep": fields{"seconds": wholeSeconds(drain.HookSleep(hook))}}
		names, changes = append(names, c.Name), append(changes, fields{"name": c.Name, "lifecycle": fields{"preStop": native}})
	}
	if len(names) == 0 {
		return nil
	}
	return &Finding{
		Message: "the preStop hook (container " + strings.Join(names, ", ") + ") runs the program sleep, and fails in an image without it",
		Remedy:  "use preStop.sleep.seconds, which needs no program",
		Fix:     w.patchTemplateCommand(fields{"containers": changes}),
	}
}

// isOnlySleep reports whether a command only sleeps, with or without a shell.
func isOnlySleep(command []string) bool {
	words := strings.Fields(strings.Join(command, " "))
	words = slices.DeleteFunc(words, func(word string) bool {
		return slices.Contains([]string{"sh", "bash", "ash", "-c", "exec"}, word[strings.LastIndex(word, "/")+1:])
	})
	return len(words) == 2 && drain.HookSleep(&corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: words}}) > 0
}

// findSlowStart implements rule TERM007.
func findSlowStart(_ *Scene, _ *Workload, pod *corev1.Pod) *Finding {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Lifecycle == nil || drain.HookSleep(c.Lifecycle.PostStart) < longStart {
			continue
		}
		return &Finding{
			Message: fmt.Sprintf("the postStart hook of container %s sleeps %s, and no probe runs before it has finished: each pod that moves is ready that much later",
				c.Name, describeSpan(drain.HookSleep(c.Lifecycle.PostStart))),
			Remedy: "replace the hook by a startupProbe or an init container that waits for the dependency",
		}
	}
	return nil
}

// wholeSeconds returns the time in seconds, wholeMinutes in minutes, both rounded up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
func wholeMinutes(d time.Duration) int64 { return int64((d + time.Minute - 1) / time.Minute) }

// describeSpan returns a time for people: "90 s", "15 min".
func describeSpan(d time.Duration) string {
	if d >= 3*time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", wholeMinutes(d))
	}
	return fmt.Sprintf("%d s", wholeSeconds(d))
}
