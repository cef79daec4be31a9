package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// rolloutRules returns the rules about how Deployments replace their pods.
func rolloutRules() []Rule {
	return []Rule{
		{
			ID: "STR001", Severity: Warn, Reads: []string{"deployments", "services"}, find: perWorkload(findRolloutWithoutSurge),
			Text:   "A Deployment behind a service stops its pods before it starts others: its strategy is Recreate, or it has one replica and maxSurge 0. A kubectl rollout restart then cannot move its pods from outdated nodes without a gap.",
			Source: "pkg/controller/deployment/rolling.go, recreate.go",
		},
		{
			ID: "STR003", Severity: Error, Reads: []string{"deployments"}, find: perWorkload(findUnfinishedRollout),
			Text:   "A Deployment's rollout is in progress, paused half-way or failed. The upgrade would move pods of two versions and would wait for new pods that may never become ready. A paused rollout whose pods all have one version is only an info.",
			Source: "pkg/controller/deployment/progress.go; pkg/apis/apps, DeploymentConditionType",
		},
		{
			ID: "STR004", Severity: Note, Reads: []string{"deployments", "services"}, find: perWorkload(findWideRollout),
			Text:   "A Deployment behind a service allows a rollout to stop half of its replicas or more at the same time: with few replicas, maxUnavailable 1 or 50% is enough for that. The default of 25% is safe: below four replicas it rounds maxUnavailable down to 0 and maxSurge up to 1.",
			Source: "pkg/controller/deployment/util/deployment_util.go, ResolveFenceposts",
		},
	}
}

// rolloutLimits returns how many pods a rollout may add, and how many it may remove concurrently.
// The controller rounds the first up and the second down, and uses 1 for the second if both are 0.
func rolloutLimits(d *appsv1.Deployment, replicas int) (surge, unavailable int) {
	quarter := intstr.FromString("25%")
	rolling := cmp.Or(d.Spec.Strategy.RollingUpdate, &appsv1.RollingUpdateDeployment{})
	most, least := intstr.ValueOrDefault(rolling.MaxSurge, quarter), intstr.ValueOrDefault(rolling.MaxUnavailable, quarter)
	surge, badSurge := intstr.GetScaledValueFromIntOrPercent(most, replicas, true)
	unavailable, badUnavailable := intstr.GetScaledValueFromIntOrPercent(least, replicas, false)
	if badSurge != nil || badUnavailable != nil {
		return 1, 0 // cannot happen: the API server refuses such numbers
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, replicas)
}

func findRolloutWithoutSurge(_ *Scene, w *Workload) *Finding {
	if w.Deployment == nil || !w.IsServing() || w.Replicas() == 0 {
		return nil
	}
	if w.usesRecreate() {
		return &Finding{
			Message: fmt.Sprintf("its strategy Recreate stops %s before it starts a new pod", describeShare(w.Replicas(), w.Replicas())),
			Remedy:  "use RollingUpdate with maxSurge 1 if an old and a new pod may run side by side, or announce the gap",
		}
	}
	if surge, _ := rolloutLimits(w.Deployment, w.Replicas()); surge > 0 || w.Replicas() > 1 {
		return nil
	}
	return &Finding{
		Message: "with maxSurge 0 its only pod stops before another one starts",
		Remedy:  "set maxSurge 1 and maxUnavailable 0, and move it with kubectl rollout restart after its node is fenced",
		Fix:     w.patchRolloutCommand(1, 0),
	}
}

// patchRolloutCommand returns the command that sets how many pods a rollout of a Deployment may add and
// remove concurrently.
func (w *Workload) patchRolloutCommand(surge, unavailable any) string {
	return patchCommand(strategicPatch, w.Kind, w.Namespace, w.Name, fields{"spec": fields{"strategy": fields{"rollingUpdate": fields{"maxSurge": surge, "maxUnavailable": unavailable}}}})
}

// describeShare returns a part of a workload's pods in words.
func describeShare(some, all int) string {
	switch {
	case all == 1:
		return "its only pod"
	case some == all:
		return fmt.Sprintf("all %d pods", all)
	default:
		return fmt.Sprintf("%d of its %d pods", some, all)
	}
}

func findUnfinishedRollout(_ *Scene, w *Workload) *Finding {
	if w.Deployment == nil {
		return nil
	}
	status, replicas := &w.Deployment.Status, w.Replicas()
	command := func(verb string) string {
		return strings.Join([]string{"kubectl rollout", verb, shell.Option("-n", w.Namespace), shell.Quote("deployment/" + w.Name)}, " ")
	}
	old := max(0, int(status.Replicas-status.UpdatedReplicas))
	progress := fmt.Sprintf("%d of %s new, %d old", status.UpdatedReplicas, formatCount(replicas, "pod"), old)
	if status.ObservedGeneration < w.Deployment.Generation {
		progress = "its controller has not processed the last change yet"
	}
	isUnfinished := status.ObservedGeneration < w.Deployment.Generation || int(status.UpdatedReplicas) < replicas || old > 0
	switch {
	case failsToProgress(status):
		return &Finding{
			Message: "its rollout makes no progress: " + progress + fmt.Sprintf(", %d available", status.AvailableReplicas),
			Remedy:  "repair it, or go back with " + command("undo"),
		}
	case w.Deployment.Spec.Paused:
		f := &Finding{
			Message: "its rollout is paused: " + progress, Remedy: "finish it with " + command("resume"),
			Fix: patchCommand(mergePatch, w.Kind, w.Namespace, w.Name, fields{"spec": fields{"paused": false}}),
		}
		if !isUnfinished {
			f.Severity, f.Message = Note, "its rollouts are paused: if its pods need a change during the upgrade, it is not rolled out"
			f.Remedy = "resume it with " + command("resume")
		}
		return f
	case isUnfinished:
		return &Finding{Message: "its rollout is in progress: " + progress, Remedy: "wait for it with " + command("status")}
	default:
		return nil
	}
}

// failsToProgress reports whether the rollout has taken longer than progressDeadlineSeconds.
func failsToProgress(status *appsv1.DeploymentStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
	})
}

func findWideRollout(_ *Scene, w *Workload) *Finding {
	replicas := w.Replicas()
	if w.Deployment == nil || !w.IsServing() || replicas == 0 || w.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	surge, unavailable := rolloutLimits(w.Deployment, replicas)
	if 2*unavailable < replicas || replicas == 1 && surge == 0 { // STR001 reports this
		return nil
	}
	return &Finding{
		Message: fmt.Sprintf("a rollout may make %s unavailable", describeShare(unavailable, replicas)),
		Remedy:  "set maxSurge and maxUnavailable to 25%, which adds a pod first and stops at most a quarter",
		Fix:     w.patchRolloutCommand("25%", "25%"),
	}
}
