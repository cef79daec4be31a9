package plugin

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestYesLooksForWhatKeepsABudgetClosed: an upgrade that is agreed to beforehand reads the pods of its group
// alone. Where a budget of theirs is closed it looks at the others, too: a faulty one on a node of another group
// is a reason not to begin, and one that has just been started is none.
func TestYesLooksForWhatKeepsABudgetClosed(t *testing.T) {
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
		"PDB006 an image is not pulled":   {unready(10*time.Second, "ImagePullBackOff"), "pod shop/web-1 is not ready, since container web is in ImagePullBackOff"},
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
			f, cmd := newFlags(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: &bytes.Buffer{}}), &cobra.Command{}
			cmd.SetContext(t.Context())
			f.addShared(cmd.Flags())
			f.addUpgrade(cmd)
			if err := cmd.ParseFlags([]string{"--current=image=v3", "--yes"}); err != nil {
				t.Fatal(err)
			}
			command, err := f.openCommand(cmd, []string{"blue"}, f.parseUpgrade)
			if err != nil {
				t.Fatal(err)
			}
			session, err := command.openSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			session.podsOfGroupOnly = command.needsNoForecast()
			g, err := session.loadGroup(t.Context(), "blue", modeUpgrade)
			if err != nil {
				t.Fatal(err)
			}
			switch err := g.rejectBlocked(); {
			case c.want == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--skip-check=PDB006")):
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}
