package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func podReadyAfter(app, name string, d time.Duration) *corev1.Pod {
	return build.Pod(name, build.App(app), started(start.Add(-time.Hour), d))
}

func TestReadyTimeIsMedianOfWorkload(t *testing.T) {
	cases := map[string]struct {
		pods []*corev1.Pod
		want time.Duration
	}{
		"one pod":                          {[]*corev1.Pod{podReadyAfter("web", "w1", 7*time.Second)}, 7 * time.Second},
		"the median of three":              {[]*corev1.Pod{podReadyAfter("web", "w1", 40*time.Second), podReadyAfter("web", "w2", 7*time.Second), podReadyAfter("web", "w3", 9*time.Second)}, 9 * time.Second},
		"the lower of two":                 {[]*corev1.Pod{podReadyAfter("web", "w1", 40*time.Second), podReadyAfter("web", "w2", 7*time.Second)}, 7 * time.Second},
		"ready in the end of ten minutes":  {[]*corev1.Pod{podReadyAfter("web", "w1", 10*time.Minute)}, 10 * time.Minute},
		"one that recovered later":         {[]*corev1.Pod{podReadyAfter("web", "w1", 10*time.Minute+time.Second)}, 10 * time.Second},
		"one that is not ready":            {[]*corev1.Pod{build.Pod("w1", started(start, time.Second), build.Unready)}, 10 * time.Second},
		"one whose start nobody tells":     {[]*corev1.Pod{build.Pod("w1")}, 10 * time.Second},
		"pods of another workload":         {[]*corev1.Pod{podReadyAfter("db", "d1", 50*time.Second)}, 10 * time.Second},
		"a clock that was set back":        {[]*corev1.Pod{podReadyAfter("web", "w1", -time.Second)}, 10 * time.Second},
		"another workload is left out too": {[]*corev1.Pod{podReadyAfter("db", "d1", 50*time.Second), podReadyAfter("web", "w1", 3*time.Second)}, 3 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			times, _ := simulate.Estimate(&simulate.Spec{Pods: c.pods})
			if got := times.ReadyOf(build.Pod("next", build.App("web"))); got != c.want {
				t.Errorf("ready after %s, want %s", got, c.want)
			}
		})
	}
}

func TestBootTimeIsMeasuredFromNodes(t *testing.T) {
	booted := func(took time.Duration) *corev1.Node {
		return build.Node("n", "a", func(n *corev1.Node) {
			n.CreationTimestamp = metav1.Time{Time: start}
			n.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: start.Add(took)}
		})
	}
	cases := map[string]struct {
		given time.Duration
		nodes []*corev1.Node
		want  time.Duration
	}{
		"the median":                {0, []*corev1.Node{booted(time.Minute), booted(30 * time.Second), booted(50 * time.Second)}, 50 * time.Second},
		"no node":                   {0, nil, 2 * time.Minute},
		"one that flapped":          {0, []*corev1.Node{booted(time.Hour)}, 2 * time.Minute},
		"one without a creation":    {0, []*corev1.Node{build.Node("n", "a")}, 2 * time.Minute},
		"what is given has its way": {9 * time.Second, []*corev1.Node{booted(time.Minute)}, 9 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			times, _ := simulate.Estimate(&simulate.Spec{Nodes: c.nodes, Times: simulate.Times{Boot: c.given}})
			if times.Boot != c.want {
				t.Errorf("boot %s, want %s", times.Boot, c.want)
			}
		})
	}
}

func TestBootTimeIsMeasuredFromLaunchInCloud(t *testing.T) {
	node := build.Node("n", "a", func(n *corev1.Node) {
		n.Spec.ProviderID = "aws:///a/i-1"
		n.CreationTimestamp = metav1.Time{Time: start}
		n.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: start.Add(30 * time.Second)}
	})
	cases := map[string]struct {
		launched map[string]time.Time
		join     time.Duration
		want     time.Duration
		says     string
	}{
		"the launch counts":             {map[string]time.Time{"i-1": start.Add(-40 * time.Second)}, 45 * time.Second, 70 * time.Second, "from launch to readiness"},
		"a launch of another":           {map[string]time.Time{"i-2": start.Add(-40 * time.Second)}, 0, 30 * time.Second, "from joining to readiness"},
		"a machine that rebooted since": {map[string]time.Time{"i-1": start.Add(time.Hour)}, 0, 30 * time.Second, "from joining to readiness"},
		"no launch is reported":         {nil, 45 * time.Second, 75 * time.Second, "it joins after 45s (an assumption: the cloud reports no launches), and the group's nodes took 30s from joining to readiness"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			times, assumed := simulate.Estimate(&simulate.Spec{Nodes: []*corev1.Node{node}, Launched: c.launched, Times: simulate.Times{Join: c.join}})
			if times.Boot != c.want || !strings.Contains(assumed[0], c.says) {
				t.Errorf("boot %s, want %s; says %q", times.Boot, c.want, assumed[0])
			}
		})
	}
}

func TestLeaveTimeIsMedianOfTerminations(t *testing.T) {
	cases := map[string]struct {
		given, want time.Duration
		took        []time.Duration
		says        string
	}{
		"nobody tells":              {0, 30 * time.Second, nil, "gone 30s after its termination begins"},
		"the median":                {0, 50 * time.Second, []time.Duration{90 * time.Second, 50 * time.Second, 10 * time.Second}, "median of 3"},
		"what is given has its way": {time.Second, time.Second, []time.Duration{time.Minute}, "gone 1s after its termination begins"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			times, assumed := simulate.Estimate(&simulate.Spec{Terminations: c.took, Times: simulate.Times{Leave: c.given}})
			if times.Leave != c.want || !strings.Contains(assumed[1], c.says) {
				t.Errorf("leave %s, want %s; says %q", times.Leave, c.want, assumed[1])
			}
		})
	}
}

// The pods of one workload take 4.25 s, but the times in their objects are whole seconds.
func TestReadyTimesAreFinerThanSeconds(t *testing.T) {
	s := time.Second
	cases := map[string]struct {
		took []time.Duration
		want time.Duration
	}{
		"one":                         {[]time.Duration{4 * s}, 4 * s},
		"one in four is a second off": {[]time.Duration{4 * s, 4 * s, 5 * s, 4 * s}, 4250 * time.Millisecond},
		"one that had to wait":        {[]time.Duration{4 * s, 4 * s, 5 * s, 4 * s, 90 * s}, 4250 * time.Millisecond},
		"two kinds of start":          {[]time.Duration{4 * s, 60 * s, 62 * s, 59 * s}, 59500 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			for i, d := range c.took {
				pods = append(pods, podReadyAfter("web", fmt.Sprintf("w%d", i), d))
			}
			times, _ := simulate.Estimate(&simulate.Spec{Pods: pods})
			if got := times.ReadyOf(pods[0]); got != c.want {
				t.Errorf("ready after %s, want %s", got, c.want)
			}
		})
	}
}

// The kubelet notices the pod only some time after its binding.
func TestReadinessCountsFromTheBinding(t *testing.T) {
	bound := func(before time.Duration) *corev1.Pod {
		pod := podReadyAfter("web", "w", 7*time.Second)
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: pod.Status.StartTime.Add(-before)},
		})
		return pod
	}
	for before, want := range map[time.Duration]time.Duration{3 * time.Second: 10 * time.Second, 0: 7 * time.Second, -time.Second: 7 * time.Second} {
		pod := bound(before)
		times, _ := simulate.Estimate(&simulate.Spec{Pods: []*corev1.Pod{pod}})
		if got := times.ReadyOf(pod); got != want {
			t.Errorf("bound %s before its start: ready after %s, want %s", before, got, want)
		}
	}
}

func TestPodsLeaveWithinTheirGrace(t *testing.T) {
	grace := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	hook := func(h corev1.LifecycleHandler) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Lifecycle: &corev1.Lifecycle{PreStop: &h}})
		}
	}
	sleep := func(seconds int64) func(*corev1.Pod) {
		return hook(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}})
	}
	exec := func(command ...string) func(*corev1.Pod) {
		return hook(corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}})
	}
	cases := map[string]struct {
		pod              []func(*corev1.Pod)
		earliest, latest time.Duration
	}{
		"no word of it":               {nil, time.Second, 30 * time.Second},
		"a grace period":              {[]func(*corev1.Pod){grace(90)}, time.Second, 90 * time.Second},
		"no grace":                    {[]func(*corev1.Pod){grace(0)}, time.Second, time.Second},
		"a preStop sleep":             {[]func(*corev1.Pod){sleep(15)}, 16 * time.Second, 30 * time.Second},
		"the longest of two":          {[]func(*corev1.Pod){sleep(5), sleep(15)}, 16 * time.Second, 30 * time.Second},
		"a sleep longer than allowed": {[]func(*corev1.Pod){grace(30), sleep(90)}, 31 * time.Second, 31 * time.Second},
		"the command sleep":           {[]func(*corev1.Pod){exec("sleep", "20")}, 21 * time.Second, 30 * time.Second},
		"a shell that sleeps":         {[]func(*corev1.Pod){exec("/bin/sh", "-c", "/bin/sleep 12s; nginx -s quit")}, 13 * time.Second, 30 * time.Second},
		"a shell that does not":       {[]func(*corev1.Pod){exec("sh", "-c", "echo sleep well")}, time.Second, 30 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			times, _ := simulate.Estimate(&simulate.Spec{})
			pod := build.Pod("web-0", c.pod...)
			if early, late := times.Gone(pod), times.GoneLatest(pod); early != c.earliest || late != c.latest {
				t.Errorf("gone after %s to %s, want %s to %s", early, late, c.earliest, c.latest)
			}
		})
	}
}

func TestAssumptionsSayWhatWasMeasured(t *testing.T) {
	_, assumed := simulate.Estimate(&simulate.Spec{Pods: []*corev1.Pod{podReadyAfter("web", "w1", 7*time.Second), podReadyAfter("db", "d1", time.Minute), build.Pod("x", build.App("x"))}})
	for _, want := range []string{"2m0s after its launch (an assumption", "7s to 1m0s, by workload, and 10s where that is not known (1 of 3 workloads)", "grace period is over"} {
		if !slices.ContainsFunc(assumed, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("nothing says %q: %q", want, assumed)
		}
	}
}
