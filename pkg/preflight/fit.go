package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// maxSurgeShutdown is the longest shutdown of a pod for which a surge upgrade is suitable (GKE G07, G15).
const maxSurgeShutdown = time.Hour

// checkStrategy implements rule NG005: another strategy suits the pods better than the requested one. It never advises a surge,
// because the user may have chosen another strategy for reasons that no pod shows, such as a quick rollback.
func checkStrategy(w *upgrade.World) []Finding {
	if w.Request.Strategy.Traits().ByCloud {
		return nil
	}
	fits, reason := FitStrategy(&w.Group, w.Members, w.Request.Policy(), w.Now)
	if fits == record.Surge || !w.Group.Can.Resize || suitsAsWell(w.Request.Strategy, fits) {
		return nil
	}
	return []Finding{{Rule: "NG005", Severity: Warn, Message: fmt.Sprintf("--strategy=%s fits better: %s", fits, reason)}}
}

// suitsAsWell reports whether the requested strategy is as good for the pods as the fitting one. Autoscaled blue-green gives pods
// more time to shut down than blue-green does (GKE G53, G75), and at first it does not touch pods that must not be disrupted (GKE
// G72).
func suitsAsWell(asked, fits record.Strategy) bool {
	return asked == fits || asked == record.AutoscaledBlueGreen && fits == record.BlueGreen
}

// FitStrategy returns the strategy that suits the pods which must move, and the reason (GKE G07). It is autoscaled blue-green for
// jobs that must run to their end, if an autoscaler serves the group. It is blue-green for pods that need more than an hour to
// shut down, or that must not be disrupted. It is surge for all others.
func FitStrategy(g *nodegroup.Group, members []nodegroup.Member, policy drain.Policy, now time.Time) (strategy record.Strategy, reason string) {
	moving := listMovingPods(members, policy)
	if i := slices.IndexFunc(moving, func(pod *corev1.Pod) bool { return isLongJob(pod, now) }); i >= 0 && g.Autoscaler.Serves {
		return record.AutoscaledBlueGreen, fmt.Sprintf(
			"pod %s/%s belongs to a job that must run to completion. Its node waits for the job, and nodes without work are removed early. New nodes and a rollback take longer",
			moving[i].Namespace, moving[i].Name)
	}
	if len(moving) > 0 {
		slowest := slices.MaxFunc(moving, func(a, b *corev1.Pod) int { return cmp.Compare(drain.GracePeriod(a), drain.GracePeriod(b)) })
		if grace := drain.GracePeriod(slowest); grace > maxSurgeShutdown {
			return record.BlueGreen, fmt.Sprintf(
				"pod %s/%s may take %s to shut down, and a surge upgrade suits pods that need at most an hour. The old nodes stay for a quick rollback, and cost money until they are deleted",
				slowest.Namespace, slowest.Name, describeSpan(grace))
		}
	}
	if i := slices.IndexFunc(moving, isProtected); i >= 0 {
		return record.BlueGreen, fmt.Sprintf(
			"pod %s/%s must not be disrupted (%s), and a surge upgrade disrupts pods. The old nodes stay for a quick rollback, and with --batch=0 pods have the whole --soak to finish on their own",
			moving[i].Namespace, moving[i].Name, drain.Protection(moving[i]))
	}
	return record.Surge, "all pods can stop within an hour, and blue-green would double the number of nodes that you pay for"
}

// isProtected reports whether the pod must not be disrupted. Pods in kube-system do not count: many autoscalers have such an
// annotation so that they are not moved while they remove nodes.
func isProtected(pod *corev1.Pod) bool {
	return pod.Namespace != metav1.NamespaceSystem && drain.Protection(pod) != ""
}

// listMovingPods returns the pods on outdated nodes that a drain moves or waits for.
func listMovingPods(members []nodegroup.Member, policy drain.Policy) []*corev1.Pod {
	var moving []*corev1.Pod
	for i := range members {
		if !members[i].Outdated {
			continue
		}
		for _, pod := range members[i].Pods {
			if drain.Judge(pod, policy, false).Fate != drain.Stay {
				moving = append(moving, pod)
			}
		}
	}
	return moving
}

// isOfJob reports whether the pod belongs to a Job of Kubernetes or to another kind of job.
func isOfJob(pod *corev1.Pod) bool { return drain.OwnerKind(pod) == "Job" || drain.IsForeignJob(pod) }

// isLongJob reports whether the pod belongs to a job that has run for more than an hour, whose work an eviction would lose, or
// whose owner asks that it is not disrupted.
func isLongJob(pod *corev1.Pod, now time.Time) bool {
	longRunning := pod.Status.StartTime != nil && now.Sub(pod.Status.StartTime.Time) > maxSurgeShutdown
	return isOfJob(pod) && (longRunning || drain.Protection(pod) != "")
}
