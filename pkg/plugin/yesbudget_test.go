package plugin

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestUpgradeWithYesFindsWhyBudgetIsClosed checks an upgrade with --yes, which reads only the pods of its group. If a budget of
// these pods is closed, it must read the other pods as well. A faulty pod on a node of another group stops the upgrade;
// a pod that was just started does not.
func TestUpgradeWithYesFindsWhyBudgetIsClosed(t *testing.T) {
	unready := func(since time.Duration, reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			build.Unready(pod)
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-since))
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
	cases := map[string]struct {
		other func(*corev1.Pod)
		want  string
	}{
		"PDB006 an image is not pulled":   {unready(10*time.Second, "ImagePullBackOff"), "pod shop/web-1 is not ready, because container web is in ImagePullBackOff"},
		"PDB006 it is unready for long":   {unready(10*time.Minute, "ContainerCreating"), "pod shop/web-1 has not been ready for 10m"},
		"PDB006 it has just been started": {unready(10*time.Second, "ContainerCreating"), ""},
		"all are ready":                   {func(*corev1.Pod) {}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			s.pods = []corev1.Pod{*build.Pod("web-0", build.App("web"), build.On("b1")), *build.Pod("web-1", build.App("web"), build.On("g1"), c.other)}
			s.budgets = []policyv1.PodDisruptionBudget{*build.Budget("web", build.Counts(2, 1, 1))}
			s.serve(t)
			g := openForYes(t, true)
			switch err := g.rejectBlockedUpgrade(false); {
			case c.want == "" && err != nil:
				t.Errorf("rejected: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--skip-check=PDB006")):
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

// TestSkippedFindingDoesNotStopUpgradeWithYes: if an annotation skips a finding, the upgrade begins, whichever objects it has read.
func TestSkippedFindingDoesNotStopUpgradeWithYes(t *testing.T) {
	for _, annotated := range []bool{false, true} {
		for _, groupOnly := range []bool{true, false} {
			s := closedBudget()
			if annotated {
				s.budgets[0].Annotations = map[string]string{preflight.AnnotationSkip + "PDB001": "scaled up on Sunday"}
			}
			s.serve(t)
			if err := openForYes(t, groupOnly).rejectBlockedUpgrade(false); (err == nil) != annotated {
				t.Errorf("annotated %t, pods of the group only %t: %v", annotated, groupOnly, err)
			}
		}
	}
}

// openForYes reads group blue as an upgrade with --yes does before it begins.
func openForYes(t *testing.T, groupOnly bool) *groupContext {
	t.Helper()
	s := openBlue(t.Context(), t, io.Discard, "--current=image=v3", "--yes")
	s.podsOfGroupOnly = groupOnly && s.line.needsNoForecast()
	g, err := s.loadGroup(t.Context(), "blue", modeUpgrade)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// openBlue opens the session of an upgrade of group blue with the flags.
func openBlue(ctx context.Context, t *testing.T, errOut io.Writer, flags ...string) *session {
	t.Helper()
	f, cmd := newFlags(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: errOut}), &cobra.Command{}
	cmd.SetContext(ctx)
	f.addSharedFlags(cmd.Flags())
	f.addPlanFlags(cmd)
	f.addUpgradeFlags(cmd.Flags())
	if err := cmd.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	c, err := f.openCommand(cmd, []string{"blue"}, f.parseRootCommand)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.openSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUpgradeWithYesChecksVolumesOfClaims checks that an upgrade whose pods have claims looks for volumes that no other node can attach.
// An upgrade whose plan was shown must do the same.
func TestUpgradeWithYesChecksVolumesOfClaims(t *testing.T) {
	s := twoGroups()
	s.pods = []corev1.Pod{*build.Pod("db-0", build.On("b1"), build.Volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}))}
	s.claims = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "disk"}}}
	onNode := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"b1"}},
	}}}}}
	s.volumes = []corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
		NodeAffinity: onNode, PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
	}}}
	s.serve(t)
	for _, groupOnly := range []bool{true, false} {
		g := openForYes(t, groupOnly)
		if err := g.rejectBlockedUpgrade(false); err == nil || !strings.Contains(err.Error(), "is on its node's disk") || !strings.Contains(err.Error(), "--skip-check=POD003") {
			t.Errorf("with the group's pods only %t: got %v, want an error that names the volume", groupOnly, err)
		}
	}
}

// TestUnknownIgnoredWorkloadsAreRejected checks that --ignore-unready accepts each workload that a stopped upgrade
// advises to ignore, including DaemonSets, and rejects names without pods.
func TestUnknownIgnoredWorkloadsAreRejected(t *testing.T) {
	s := twoGroups()
	s.pods = []corev1.Pod{*build.Pod("agent-0", build.OwnedBy("DaemonSet", "agent"), build.On("g1")), *build.Pod("web-0", build.App("web"), build.On("b1"))}
	s.serve(t)
	g := openForYes(t, false)
	for name, known := range map[string]bool{"shop/DaemonSet/agent": true, "shop/replicaset/web": true, "shop/DaemonSet/agnet": false, "*": true} {
		if err := g.rejectUnknownWorkloads([]string{name}); (err == nil) != known {
			t.Errorf("%s: %v", name, err)
		}
	}
}
