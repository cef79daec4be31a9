package plugin

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func TestExitCodeDependsOnKindOfError(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("upgrading group %q: %w", "workers", err) }
	cases := map[string]struct {
		err  error
		want int
	}{
		"no error":                  {nil, 0},
		"any error":                 {errors.New("x"), 1},
		"the user's":                {usageError(errors.New("x")), 2},
		"the user's, wrapped":       {wrap(usageError(errors.New("x"))), 2},
		"none of the user's":        {usageError(nil), 0},
		"a code without words":      {&exitErr{code: exitStructural}, 3},
		"somebody holds the lease":  {wrap(&cluster.HeldError{Holder: "ann"}), 5},
		"the lease was lost":        {wrap(runner.ErrLost), 5},
		"lost, by the record":       {wrap(fmt.Errorf("%w: %w", runner.ErrLost, record.ErrChanged)), 5},
		"stopped without rest":      {wrap(runner.ErrNotStoppedInTime), 130},
		"interrupted while reading": {wrap(fmt.Errorf("listing pods: %w", context.Canceled)), 130},
		"a deadline":                {wrap(context.DeadlineExceeded), 1},
		"usage before the rest":     {usageError(runner.ErrLost), 2},
		"a name of another cluster": {wrap(cloud.ErrOtherCluster), 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := exitCodeOf(c.err); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestEachResultHasItsExitCode(t *testing.T) {
	cases := map[record.Result]int{
		record.Succeeded: 0, record.LeftBehind: 4, record.Interrupted: 130, record.Paused: 5, record.TargetMoved: 5,
		record.PodEvictionFailure: 1, record.NodeCreationFailure: 1, record.Failed: 1, "something new": 1, record.Aborted: 0,
	}
	for result, want := range cases {
		if got := exitCodeOfResult(result); got != want {
			t.Errorf("%s: got %d, want %d", result, got, want)
		}
	}
}

func TestExitErrKeepsItsCause(t *testing.T) {
	cause := errors.New("x")
	err := usageError(cause)
	if !errors.Is(err, cause) || err.Error() != "x" {
		t.Errorf("got %v", err)
	}
	if text := (&exitErr{code: 3}).Error(); text != "" {
		t.Errorf("a code without words says %q", text)
	}
}

// TestErrorsArePrintedOnOneLine checks that a server's text is printed on one line without control characters.
func TestErrorsArePrintedOnOneLine(t *testing.T) {
	kubeconfig(t, nowhere)
	_, stderr, _ := invoke(t, "--provider", "a\nb\x1b[31m")
	if want := "error: --provider=a b^[[31m is not known: use auto, aws, gke, karpenter or manual\n"; stderr != want {
		t.Errorf("got %q, want %q", stderr, want)
	}
}
