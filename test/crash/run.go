package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

const (
	// timeLimit is how long an upgrade may take. After five minutes the upgrade itself stops because of a workload that does not
	// recover. The limit is longer, so that the upgrade can report the reason.
	timeLimit = 8 * time.Minute
	// exitKilled is the exit code that a shell reports for a command that SIGKILL ended.
	exitKilled = 128 + 9
)

// setup contains the settings that all cases share.
type setup struct {
	// counts is the number of nodes in each zone of the group.
	counts []int
	// managed is true if EKS carries the upgrade out.
	managed bool
	// strategy is the value of --strategy; "" for none.
	strategy string
	// course is what is done with a GKE node pool; nil for an Auto Scaling group.
	course *course
	// keep is the folder for the commands' writes and output; "" for none.
	keep string
	// older is a folder with an older release of the tool, which begins each upgrade; "" for the current tool.
	older string
}

// maxSurge returns how many nodes the upgrade may add: as many as the group has for blue-green, otherwise two for each zone (EKS E21).
func (c setup) maxSurge() int {
	if c.strategy != string(record.BlueGreen) {
		return 2 * len(zones())
	}
	nodes := 0
	for _, n := range c.counts {
		nodes += n
	}
	return nodes
}

func zones() []string { return []string{"us-east-1a", "us-east-1b"} }

func workloads(group string) []fixture.Workload {
	all := []fixture.Workload{
		{Name: "web", Replicas: 4, MaxUnavailable: "1", Gone: time.Second},
		{Name: "cart", Replicas: 3, MinAvailable: "2", Gone: time.Second},
		// The disruption controller identifies pods by their names. If the new pod exists before the controller notices the end of the
		// evicted one, it counts the new pod as disrupted for two minutes (disruption.go, buildDisruptedPodMap).
		{Name: "db", Kind: "StatefulSet", Replicas: 2, MaxUnavailable: "1", Gone: 2 * time.Second},
		{Name: "agent", Kind: "DaemonSet", Gone: time.Second},
	}
	for i := range all {
		all[i].Ready, all[i].NodeSelector = time.Second, map[string]string{"pool": group}
	}
	return all
}

// testCase is one upgrade of its own group.
type testCase struct {
	*fixture.Fixture
	setup
	point point
	// scaling is the name of the Auto Scaling group.
	scaling string
	before  snapshot
	// stderr contains the stderr of the commands. writes lists the first command's writes.
	stderr bytes.Buffer
	writes []string
	// misbehaviour lists wrong actions of a command that the final state does not show.
	misbehaviour []string
	// carriedOut is the verb that succeeded; "" for none.
	carriedOut  record.Verb
	finalRecord record.Record
}

// nameAt returns the name of the case at the point. The group, its nodes' pool and the namespace have this name.
func (c setup) nameAt(p point) string {
	switch {
	case c.course != nil:
		return "gke-" + c.course.name + "-" + p.String()
	case c.managed:
		return "managed-" + p.String()
	case c.strategy != "":
		return c.strategy + "-" + p.String()
	default:
		return p.String()
	}
}

func (t *testCase) group() string { return t.nameAt(t.point) }

// outcome is the result of a case.
type outcome struct {
	point point
	// name is the name of the case.
	name   string
	writes []string
	// problems lists the differences from the state that an undisturbed upgrade leaves behind.
	problems []string
	// carriedOut is the verb that succeeded; "" for none.
	carriedOut record.Verb
}

// isReached reports whether the upgrade made the point's write.
func (o *outcome) isReached() bool {
	return o.point.fault == startedTwice || len(o.writes) >= o.point.n
}

// writeAtPoint returns the write at the point.
func (o *outcome) writeAtPoint() string {
	if o.point.fault == startedTwice {
		return "two processes at the same time"
	}
	return o.writes[o.point.n-1]
}

// reportLines returns one line if the point was not reached or the outcome has problems.
func (o *outcome) reportLines() []string {
	switch {
	case !o.isReached():
		return []string{fmt.Sprintf("%s: not reached: this upgrade made %d writes", o.name, len(o.writes))}
	case len(o.problems) > 0:
		return []string{fmt.Sprintf("%s: %s: %s", o.name, o.writeAtPoint(), strings.Join(o.problems, "; "))}
	default:
		return nil
	}
}

// runUndisturbed returns the writes of an upgrade without a fault.
func (c setup) runUndisturbed(ctx context.Context, s *fixture.Fixture) ([]string, error) {
	o, err := c.run(ctx, s, point{})
	if err == nil && len(o.problems) > 0 {
		err = fmt.Errorf("the undisturbed upgrade has problems: %s", strings.Join(o.problems, "; "))
	}
	return o.writes, err
}

// run upgrades a new group, injects the fault at the point, continues the upgrade, and compares the final state with the expected one.
// It returns an error if a step before the comparison failed.
func (c setup) run(ctx context.Context, shared *fixture.Fixture, p point) (outcome, error) {
	own, err := shared.InNamespace(ctx, c.nameAt(p))
	if err != nil {
		return outcome{}, err
	}
	if c.course != nil {
		return c.runCourse(ctx, own, p)
	}
	t := &testCase{Fixture: own, setup: c, point: p}
	if t.scaling, err = t.setUp(ctx); err != nil {
		return outcome{}, err
	}
	defer t.removeMachines(context.WithoutCancel(ctx))
	if t.before, err = t.takeSnapshot(ctx); err != nil {
		return outcome{}, err
	}
	budgets, err := t.WatchBudgets(ctx)
	if err != nil {
		return outcome{}, err
	}
	code, err := t.runToEnd(ctx)
	broken, seen := budgets.Stop()
	if err != nil {
		return outcome{}, err
	}
	if seen == 0 {
		return outcome{}, errors.New("no state of a budget was seen")
	}
	after, err := t.readState(ctx)
	if err != nil {
		return outcome{}, err
	}
	after["budgets below their need"] = strings.Join(broken, ", ")
	o := outcome{point: p, name: t.group(), writes: t.writes, problems: append(t.misbehaviour, differences(after, t.expectedState(after))...), carriedOut: t.carriedOut}
	if err := c.storeOutput(o, t.stderr.String()); err != nil {
		return outcome{}, err
	}
	if code != 0 { // the other problems follow from the failed command
		o.problems = []string{fmt.Sprintf("the last command ended with %d: %s; %d things differ", code, fixture.LastError(t.stderr.String()), len(o.problems))}
	}
	return o, nil
}

// setUp creates the group and its workloads, and returns the name of its Auto Scaling group.
func (t *testCase) setUp(ctx context.Context) (string, error) {
	clearable := func(spec *awscloud.GroupSpec) { spec.Min = 0 }
	if t.managed {
		return t.DeployManaged(ctx, fixture.ManagedGroup{
			Name: t.group(), Zones: zones(), Counts: t.counts, More: func(spec *awscloud.NodegroupSpec) { clearable(&spec.Group) },
		}, workloads(t.group()))
	}
	return t.group(), t.Deploy(ctx, fixture.Group{Name: t.group(), Zones: zones(), Counts: t.counts, More: clearable}, workloads(t.group()))
}

// removeMachines deletes the namespace and the machines, to make room for further upgrades. It ignores errors.
func (t *testCase) removeMachines(ctx context.Context) {
	_ = t.Cluster.Client().CoreV1().Namespaces().Delete(ctx, t.Namespace, metav1.DeleteOptions{})
	_ = t.Cloud.SetDesired(t.scaling, 0)
}

func (t *testCase) args(more ...string) []string {
	args := []string{"nodeupgrade", t.group(), "--yes", "--parallel-groups", "--progress=json", "--boot-timeout=5m"}
	if t.managed {
		args = append(args, "--to=1.36") // the control plane's version, which must be requested
	} else {
		args = append(args, "--settle=0s", "--drain-timeout=10m")
	}
	if t.strategy != "" {
		args = append(args, "--strategy="+t.strategy)
	}
	if t.strategy == string(record.BlueGreen) {
		args = append(args, "--batch=2", "--soak=3s")
	}
	return append(args, more...)
}

// storeOutput writes the writes, the problems and the output to a file, if a folder is set.
func (c setup) storeOutput(o outcome, stderr string) error {
	if c.keep == "" {
		return nil
	}
	if err := os.MkdirAll(c.keep, 0o755); err != nil {
		return err
	}
	var text bytes.Buffer
	for i, write := range o.writes {
		fmt.Fprintf(&text, "%d %s\n", i+1, write)
	}
	fmt.Fprintf(&text, "faults: %s\n%s", strings.Join(o.problems, "; "), stderr)
	return os.WriteFile(filepath.Join(c.keep, c.nameAt(o.point)+".txt"), text.Bytes(), 0o644)
}
