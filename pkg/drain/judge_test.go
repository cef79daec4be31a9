package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type podChange = func(*corev1.Pod)

func mirror(pod *corev1.Pod) {
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
}

func TestJudgeDecidesWhichPodsAreEvicted(t *testing.T) {
	var (
		daemon  = build.OwnedBy("DaemonSet", "agent")
		ending  = build.Ending(start)
		respect = drain.Policy{RespectDoNotDisrupt: true}
		scratch = build.Volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	)
	cases := map[string]struct {
		pod    []podChange
		policy drain.Policy
		lost   bool
		want   drain.Verdict
	}{
		"a pod with a controller must go":                     {nil, drain.Policy{}, false, drain.Verdict{Fate: drain.Go}},
		"4.1 an unready pod must go":                          {[]podChange{build.Unready}, drain.Policy{}, false, drain.Verdict{Fate: drain.Go}},
		"4.1 a pod that never started must go":                {[]podChange{build.Phase(corev1.PodPending)}, drain.Policy{}, false, drain.Verdict{Fate: drain.Go}},
		"3.1 a pod in phase Unknown must go":                  {[]podChange{build.Phase(corev1.PodUnknown)}, drain.Policy{}, false, drain.Verdict{Fate: drain.Go}},
		"4.1 an emptyDir holds no pod":                        {[]podChange{scratch}, drain.Policy{}, false, drain.Verdict{Fate: drain.Go}},
		"4.1 a DaemonSet's pod stays":                         {[]podChange{daemon}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonDaemonSet}},
		"4.1 a deleted pod of a DaemonSet stays":              {[]podChange{daemon, ending}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonDaemonSet}},
		"L16 a mirror pod stays":                              {[]podChange{mirror}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonMirror}},
		"L16 a mirror pod of no controller stays":             {[]podChange{mirror, build.Bare}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonMirror}},
		"35 a succeeded pod stays":                            {[]podChange{build.Phase(corev1.PodSucceeded)}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonFinished}},
		"35 a failed pod stays":                               {[]podChange{build.Phase(corev1.PodFailed)}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonFinished}},
		"35 a finished pod without a controller stays":        {[]podChange{build.Phase(corev1.PodFailed), build.Bare}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonFinished}},
		"35 a finished pod that a finalizer keeps stays":      {[]podChange{build.Phase(corev1.PodFailed), ending}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonFinished}},
		"POD001 a pod without a controller is held":           {[]podChange{build.Bare}, drain.Policy{}, false, drain.Verdict{drain.Held, drain.ReasonUnmanaged}},
		"POD001 an owner that does not control is none":       {[]podChange{owned}, drain.Policy{}, false, drain.Verdict{drain.Held, drain.ReasonUnmanaged}},
		"POD001 unless the request lets it be evicted":        {[]podChange{build.Bare}, drain.Policy{EvictUnmanaged: true}, false, drain.Verdict{Fate: drain.Go}},
		"K07 a deleted pod is waited for":                     {[]podChange{ending}, drain.Policy{}, false, drain.Verdict{drain.Leaving, drain.ReasonTerminating}},
		"K07 a deleted pod without a controller too":          {[]podChange{ending, build.Bare}, drain.Policy{}, false, drain.Verdict{drain.Leaving, drain.ReasonTerminating}},
		"L19 a pod that drains are to skip stays":             {[]podChange{wishing("skip")}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonSkipped}},
		"L19 one without a controller, too":                   {[]podChange{wishing("skip"), build.Bare}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonSkipped}},
		"L19 one that is deleted, too":                        {[]podChange{wishing("skip"), ending}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonSkipped}},
		"L19 a pod that is to complete is held":               {[]podChange{wishing("wait-completed")}, drain.Policy{}, false, drain.Verdict{drain.Held, drain.ReasonCompletes}},
		"POD008 its owner asks autoscalers, and is not heard": {[]podChange{annotated(drain.AnnotationSafeToEvict, "false")}, drain.Policy{}, false, drain.Verdict{Fate: drain.Go}},
		"POD008 its owner asks cluster-autoscaler":            {[]podChange{annotated(drain.AnnotationSafeToEvict, "false")}, respect, false, drain.Verdict{drain.Held, drain.ReasonDoNotDisrupt}},
		"POD008 its owner asks Karpenter":                     {[]podChange{annotated(drain.AnnotationDoNotDisrupt, "true")}, respect, false, drain.Verdict{drain.Held, drain.ReasonDoNotDisrupt}},
		"POD008 its owner allows it":                          {[]podChange{annotated(drain.AnnotationSafeToEvict, "true")}, respect, false, drain.Verdict{Fate: drain.Go}},
		"POD008 a DaemonSet's pod is not waited for":          {[]podChange{annotated(drain.AnnotationSafeToEvict, "false"), daemon}, respect, false, drain.Verdict{drain.Stay, drain.ReasonDaemonSet}},
		"L19 whatever may be evicted":                         {[]podChange{wishing("wait-completed"), build.Bare}, drain.Policy{EvictUnmanaged: true}, false, drain.Verdict{drain.Held, drain.ReasonCompletes}},
		"L19 until it has completed":                          {[]podChange{wishing("wait-completed"), build.Phase(corev1.PodSucceeded)}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonFinished}},
		"L19 or is deleted":                                   {[]podChange{wishing("wait-completed"), ending}, drain.Policy{}, false, drain.Verdict{drain.Leaving, drain.ReasonTerminating}},
		"L19 a DaemonSet's pod stays whatever it asks":        {[]podChange{daemon, wishing("wait-completed")}, drain.Policy{}, false, drain.Verdict{drain.Stay, drain.ReasonDaemonSet}},
		"L19 a value that nobody knows asks for nothing":      {[]podChange{wishing("later")}, drain.Policy{}, false, drain.Verdict{Fate: drain.Go}},
		"L21 a deleted pod on a lost node stays":              {[]podChange{ending}, drain.Policy{}, true, drain.Verdict{drain.Stay, drain.ReasonLost}},
		"L21 a pod on a lost node that is not deleted":        {nil, drain.Policy{}, true, drain.Verdict{Fate: drain.Go}},
		"L21 a bare pod on a lost node is held like ever":     {[]podChange{build.Bare}, drain.Policy{}, true, drain.Verdict{drain.Held, drain.ReasonUnmanaged}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := drain.Judge(build.Pod("web-0", c.pod...), c.policy, c.lost); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// wishing adds Cluster API's label to the pod.
func wishing(value string) podChange {
	return func(pod *corev1.Pod) { pod.Labels[drain.Label] = value }
}

// annotated adds an annotation to the pod.
func annotated(key, value string) podChange {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} }
}

// TestDrainLabelHasMeaningOfClusterAPI checks that the label has the same meaning as in Cluster API (drainLabelFilter).
func TestDrainLabelHasMeaningOfClusterAPI(t *testing.T) {
	cases := map[string]drain.Wish{
		"skip": drain.Skip, "Skip": drain.Skip, "SKIP": drain.Skip, "wait-completed": drain.WaitCompleted, "Wait-Completed": drain.WaitCompleted,
		"waitcompleted": drain.WaitCompleted, "WaitCompleted": drain.WaitCompleted, "drain": drain.UnknownWish, "": drain.UnknownWish,
	}
	for value, want := range cases {
		t.Run(value, func(t *testing.T) {
			if got := drain.WishOf(build.Pod("web-0", wishing(value))); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
	if got := drain.WishOf(build.Pod("web-0")); got != drain.NoWish {
		t.Errorf("without the label: got %d", got)
	}
}

// TestDroppingDrainLabelsKeepsOriginalPods checks that the pods of the original list keep their labels.
func TestDroppingDrainLabelsKeepsOriginalPods(t *testing.T) {
	pods := []*corev1.Pod{build.Pod("web-0", wishing("skip")), build.Pod("web-1")}
	plain := drain.DropWishes(pods)
	if drain.WishOf(plain[0]) != drain.NoWish || drain.WishOf(pods[0]) != drain.Skip || plain[1] != pods[1] {
		t.Errorf("got %v of %v", plain[0].Labels, pods[0].Labels)
	}
}

func TestOnlyHeldPodsHaveAnObstacle(t *testing.T) {
	policy := drain.Policy{RespectDoNotDisrupt: true}
	cases := map[string]struct {
		pod  podChange
		want drain.ObstacleKind
	}{
		"held for want of a controller": {build.Bare, drain.Unmanaged},
		"held until it completes":       {wishing("wait-completed"), drain.Completing},
		"held as its owner asks":        {annotated(drain.AnnotationSafeToEvict, "false"), drain.DoNotDisrupt},
		"evicted":                       {build.Unready, drain.NoObstacle},
		"staying":                       {wishing("skip"), drain.NoObstacle},
		"leaving":                       {build.Ending(start), drain.NoObstacle},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := drain.Judge(build.Pod("web-0", c.pod), policy, false).Obstacle(); got.Kind != c.want {
				t.Errorf("got %q, want %q", got.Kind, c.want)
			}
		})
	}
}

// owned makes the pod's owner one that is not its controller.
func owned(pod *corev1.Pod) { pod.OwnerReferences[0].Controller = nil }

func TestPodIsReadyOnlyIfConditionIsTrue(t *testing.T) {
	cases := map[string]struct {
		conditions []corev1.PodCondition
		want       bool
	}{
		"true":                    {[]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, true},
		"false":                   {[]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}, false},
		"unknown":                 {[]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionUnknown}}, false},
		"absent":                  {nil, false},
		"other conditions say no": {[]corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := build.Pod("web-0")
			pod.Status.Conditions = c.conditions
			if got := drain.Ready(pod); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

func TestPodToleratesFenceOnlyByMatchingToleration(t *testing.T) {
	fence := corev1.Taint{Key: "example.com/outdated", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	cases := map[string]struct {
		toleration corev1.Toleration
		want       bool
	}{
		"everything (POD005)":           {corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		"the key":                       {corev1.Toleration{Key: fence.Key, Operator: corev1.TolerationOpExists}, true},
		"key and value":                 {corev1.Toleration{Key: fence.Key, Value: "yes"}, true},
		"the key with another value":    {corev1.Toleration{Key: fence.Key, Value: "no"}, false},
		"another key":                   {corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}, false},
		"the key, but not when running": {corev1.Toleration{Key: fence.Key, Value: "yes", Effect: corev1.TaintEffectNoExecute}, false},
		"a number to compare with":      {corev1.Toleration{Key: fence.Key, Operator: corev1.TolerationOpGt, Value: "1"}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := drain.ToleratesTaint(build.Pod("web-0", build.Tolerating(c.toleration)), fence); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
	if drain.ToleratesTaint(build.Pod("web-0"), fence) {
		t.Error("a pod without tolerations tolerates")
	}
}
