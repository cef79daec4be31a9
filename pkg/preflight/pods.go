package preflight

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// podRules returns the rules about data that pods lose when they leave a node, and about what keeps
// them from running on another node.
func podRules() []Rule {
	return []Rule{
		{
			ID: "POD002", Severity: Note, find: perTemplate(findEmptyDirData),
			Text:   "Pods have emptyDir volumes, whose content is lost when the pods leave their node. The finding is a warning for a StatefulSet without any claim, which probably keeps its data there. Volumes with medium: Memory and pods of Jobs do not count.",
			Source: "filters.go: kubectl drain refuses such pods without --delete-emptydir-data; cluster-api#12920",
		},
		{
			ID: "POD003", Severity: Block, Reads: volumeKinds(), find: perPod(leavingPods, findLocalVolume),
			Text:   "A pod's volume is on the disk of an outdated node, so its replacement stays Pending for ever. A hostPath with data is a warning: the pod starts on another node, where the directory has other content. System directories such as /etc and /var/run do not count.",
			Source: "redpanda#10409, kubernetes#91141",
		},
		{
			ID: "POD004", Severity: Block, Reads: volumeKinds(), find: perPod(leavingPods, findZonedVolume),
			Text:   "A pod's volume is in a zone where no node that can run the pod stays, and where the group adds none. The pod stays Pending.",
			Source: "courtlistener#3245",
		},
		{
			ID: "POD015", Severity: Block, Reads: []string{"persistentvolumeclaims"}, find: perPod(leavingPods, findMissingClaim),
			Text:   "A pod's PersistentVolumeClaim is gone, is being deleted or has lost its volume, and only the running pod still keeps the volume. Its replacement stays Pending or gets an empty volume. If the reclaim policy is Delete, the volume's data is lost.",
			Source: "kubernetes.io, Persistent Volumes, Storage Object in Use Protection; pkg/controller/volume/pvcprotection",
		},
		{
			ID: "POD006", Severity: Error, find: perPod(leavingPods, findStuckPod),
			Text:   "A deleted pod still exists two minutes after its grace period: finalizers keep it, or its kubelet cannot stop it. The drain of its node waits for it. Finalizers of pods that are not being deleted do not count.",
			Source: "kubernetes.io, Finalizers; pod_lifecycle",
		},
		{
			ID: "POD009", Severity: Warn, Reads: []string{"jobs"}, find: perWorkload(findJobLoss),
			Text:   "A Job would fail, because its evicted pods count towards its backoffLimit unless a podFailurePolicy ignores DisruptionTarget. Or one of its pods has run for more than an hour, and an eviction loses that work.",
			Source: "kubernetes.io, Handling retriable and non-retriable pod failures; k8s.io#5538",
		},
		{
			ID: "POD010", Severity: Block, StartsAnyway: true, More: []string{"deployments", "statefulsets"}, find: perTemplate(findSelectorOfOldNodes),
			Text:   "A pod's node selector or required node affinity matches outdated nodes only, for example by hostname, image or launch template version. Its replacement stays Pending. Or the template of its Deployment or StatefulSet names an outdated node (spec.nodeName): its pods bypass the fence and start there again. The finding is a warning if the pod is pinned only by hostname and no budget covers it: the drain goes on, and an operator may create a pod for each new node. The rule assumes that new nodes have the labels of the group's current nodes or, if there are none, those of the outdated nodes without the labels of host and version.",
			Source: "pkg/scheduler/framework/plugins/nodeaffinity",
		},
		{
			ID: "POD011", Severity: Warn, find: perTemplate(findPodGroup),
			Text:   "Pods are scheduled as a group, all or none, by spec.schedulingGroup (alpha in 1.36). An eviction removes one of them, and the others cannot work until its replacement is scheduled.",
			Source: "k8s.io/api/core/v1, PodSchedulingGroup",
		},
	}
}

func findEmptyDirData(_ *Scene, w *Workload, model *corev1.Pod) *Finding {
	if isOfJob(model) {
		return nil
	}
	var names []string
	isClaiming := false
	for i := range model.Spec.Volumes {
		volume := &model.Spec.Volumes[i]
		isClaiming = isClaiming || volume.PersistentVolumeClaim != nil
		if volume.EmptyDir != nil && volume.EmptyDir.Medium != corev1.StorageMediumMemory {
			names = append(names, volume.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	f := &Finding{
		Message: "the content of its emptyDir " + strings.Join(names, ", ") + " is lost when a pod leaves its node",
		Remedy:  "do nothing if these are temporary files; otherwise keep the data in a PersistentVolumeClaim",
	}
	if w.Kind == "StatefulSet" && !isClaiming {
		f.Severity, f.Remedy = Warn, "give it volumeClaimTemplates if this is its data"
	}
	return f
}

// stuckAfter is how long after its expected end a pod counts as stuck. Kubelets may be slow.
const stuckAfter = 2 * time.Minute

func findStuckPod(s *Scene, _ *Workload, pod *corev1.Pod) *Finding {
	if pod.DeletionTimestamp == nil {
		return nil
	}
	// The timestamp includes the grace period (k8s.io/api, ObjectMeta).
	overdue := s.World.Now.Sub(pod.DeletionTimestamp.Time)
	if overdue < stuckAfter {
		return nil
	}
	f := &Finding{
		Message: fmt.Sprintf("it was deleted, and its grace period ended %d min ago", int(overdue.Minutes())),
		Remedy:  "find out on its node why the kubelet does not stop it; kubectl delete --force removes only the API object",
	}
	if len(pod.Finalizers) > 0 {
		f.Message += ", kept by finalizer " + strings.Join(pod.Finalizers, ", ")
		f.Remedy = "find out why its controller does not remove it"
	}
	return f
}

func findJobLoss(s *Scene, w *Workload) *Finding {
	if w.Job == nil {
		return nil
	}
	evicted, longest := 0, time.Duration(0)
	for _, pod := range w.Leaving {
		if drain.Judge(pod, s.World.Request.Policy(), false).Fate != drain.Go {
			continue // the drain waits for it
		}
		evicted++
		if pod.Status.StartTime != nil {
			longest = max(longest, s.World.Now.Sub(pod.Status.StartTime.Time))
		}
	}
	if f := findFailingJob(w, evicted); f != nil || evicted == 0 || longest <= maxSurgeShutdown {
		return f
	}
	return &Finding{
		Message: fmt.Sprintf("one of its pods has run for %s, and an eviction loses the work that is not saved", strings.TrimSuffix(longest.Round(time.Minute).String(), "0s")),
		Remedy:  adviseWaiting(&s.World.Request, "its pods", "them"),
	}
}

// defaultBackoffLimit is the default backoffLimit of a Job (batch/v1, JobSpec).
const defaultBackoffLimit = 6

// findFailingJob returns a finding if this many evictions would fail the Job, nil otherwise.
func findFailingJob(w *Workload, evicted int) *Finding {
	spec := &w.Job.Spec
	if evicted == 0 || ignoresDisruption(spec.PodFailurePolicy) {
		return nil
	}
	if spec.BackoffLimitPerIndex != nil {
		if *spec.BackoffLimitPerIndex > 0 {
			return nil // each index is evicted only once
		}
		return &Finding{
			Message: "with backoffLimitPerIndex 0 an index fails when its pod is evicted",
			Remedy:  "wait until it has finished, or create it again with a podFailurePolicy that ignores DisruptionTarget",
		}
	}
	limit := defaultBackoffLimit
	if spec.BackoffLimit != nil {
		limit = int(*spec.BackoffLimit)
	}
	failed := int(w.Job.Status.Failed)
	if failed+evicted <= limit {
		return nil
	}
	return &Finding{
		Message: fmt.Sprintf("the eviction of %s makes it fail: its backoffLimit is %d, and %d failed before", formatCount(evicted, "pod"), limit, failed),
		Remedy:  fmt.Sprintf("raise backoffLimit to %d, or create it again with a podFailurePolicy that ignores DisruptionTarget", limit+evicted),
		Fix:     patchCommand(mergePatch, w.Kind, w.Namespace, w.Name, fields{"spec": fields{"backoffLimit": limit + evicted}}),
	}
}

// ignoresDisruption reports whether the policy does not count evicted pods as failed.
func ignoresDisruption(policy *batchv1.PodFailurePolicy) bool {
	if policy == nil {
		return false
	}
	for i := range policy.Rules {
		for _, pattern := range policy.Rules[i].OnPodConditions {
			isTrue := cmp.Or(pattern.Status, corev1.ConditionTrue) == corev1.ConditionTrue
			if pattern.Type == corev1.DisruptionTarget && isTrue {
				return policy.Rules[i].Action == batchv1.PodFailurePolicyActionIgnore
			}
		}
	}
	return false
}

func findPodGroup(_ *Scene, _ *Workload, model *corev1.Pod) *Finding {
	if model.Spec.SchedulingGroup == nil {
		return nil
	}
	name := ""
	if model.Spec.SchedulingGroup.PodGroupName != nil {
		name = " " + *model.Spec.SchedulingGroup.PodGroupName
	}
	return &Finding{
		Message: "its pods are scheduled together as group" + name + ", and an eviction removes only one of them",
		Remedy:  "stop it before the upgrade and start it again afterwards, or wait until it has finished",
	}
}
