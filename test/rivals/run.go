package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

const (
	// timeLimit is how long an upgrade may take.
	timeLimit = 5 * time.Minute
	// stateSpace is the default namespace for the records of upgrades.
	stateSpace = "kube-system"
	// minSize is the group's minimum size, so that the rival cannot remove all nodes.
	minSize = 2
)

func workloads(group string) []fixture.Workload {
	all := []fixture.Workload{
		{Name: "web", Replicas: 4, MaxUnavailable: "1"},
		{Name: "cart", Replicas: 3, MinAvailable: "2"},
		{Name: "agent", Kind: "DaemonSet"},
	}
	for i := range all {
		all[i].Ready, all[i].Gone, all[i].NodeSelector = time.Second, time.Second, map[string]string{"pool": group}
	}
	return all
}

// testCase is one upgrade of its own group, with a rival.
type testCase struct {
	*fixture.Fixture
	seed    uint64
	resizes []resize
	proxy   *proxy
	rival   *rival
	before  awscloud.GroupStatus
	stderr  bytes.Buffer

	// killed is true if the upgrade was killed and its record deleted.
	killed bool

	mu sync.Mutex // guards the field below
	// podsOnTerminated lists the pods that were on current nodes when the upgrade terminated these nodes.
	podsOnTerminated []string
}

// outcome is the result of a case.
type outcome struct {
	seed          uint64
	resizes       []resize
	code          int
	message       string
	before, after awscloud.GroupStatus
	killed        bool
	faults        []string
}

// report returns one line, and one line for each fault.
func (o *outcome) report() string {
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d: %v: ", o.seed, o.resizes)
	if o.killed {
		fmt.Fprint(&text, "killed, its record deleted: ")
	}
	fmt.Fprintf(&text, "ended with %d", o.code)
	if o.message != "" {
		fmt.Fprintf(&text, " (%s)", o.message)
	}
	fmt.Fprintf(&text, ", desired %d → %d, max %d → %d\n", o.before.Desired, o.after.Desired, o.before.Max, o.after.Max)
	for _, fault := range o.faults {
		fmt.Fprintf(&text, "  %s\n", fault)
	}
	return text.String()
}

// runSeed upgrades a new group while the rival makes the seed's changes. It returns an error if a step before the checks failed.
func (o options) runSeed(ctx context.Context, shared *fixture.Fixture, seed uint64) (outcome, error) {
	t, name := &testCase{seed: seed}, "lost"
	if !o.lost {
		t.resizes, name = drawResizes(seed), "rivals"
	}
	var err error
	if t.Fixture, err = shared.InNamespace(ctx, fmt.Sprintf("%s-%03d", name, seed)); err != nil {
		return outcome{}, err
	}
	if t.proxy, err = openProxy(t.Cloud.URL(), t.notePodsOnTerminated); err != nil {
		return outcome{}, err
	}
	defer t.proxy.close()
	t.rival = newRival(t.Fixture, t.group(), t.proxy)
	if err := t.setUp(ctx); err != nil {
		return outcome{}, err
	}
	defer t.removeMachines(context.WithoutCancel(ctx))
	if t.before, err = t.Cloud.Group(t.group()); err != nil {
		return outcome{}, err
	}
	found, err := t.upgradeAndCheck(ctx, o.lost)
	if err == nil && o.keep != "" {
		err = os.WriteFile(filepath.Join(o.keep, t.group()+".txt"), []byte(found.report()+t.stderr.String()), 0o644)
	}
	return found, err
}

// group returns the name of the group, of its nodes' pool and of the namespace.
func (t *testCase) group() string { return t.Namespace }

// setUp creates a group of six nodes, with room for zero to four more, and its workloads.
func (t *testCase) setUp(ctx context.Context) error {
	return t.Deploy(ctx, fixture.Group{
		Name: t.group(), Zones: []string{"us-east-1a", "us-east-1b"}, Counts: []int{3, 3}, Max: 6 + rand.New(rand.NewPCG(t.seed, 1)).IntN(5),
		More: func(spec *awscloud.GroupSpec) { spec.Min = minSize },
	}, workloads(t.group()))
}

// removeMachines deletes the namespace and the machines, to make room for further upgrades. It ignores errors.
func (t *testCase) removeMachines(ctx context.Context) {
	_ = t.Cluster.Client().CoreV1().Namespaces().Delete(ctx, t.Namespace, metav1.DeleteOptions{})
	_, _ = t.rival.cloud.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(t.group()), MinSize: aws.Int32(0), DesiredCapacity: aws.Int32(0),
	})
}

// upgradeAndCheck runs the upgrade with the rival, or with a lost record, and checks the final state.
func (t *testCase) upgradeAndCheck(ctx context.Context, lost bool) (outcome, error) {
	budgets, err := t.WatchBudgets(ctx)
	if err != nil {
		return outcome{}, err
	}
	upgrade := t.upgradeWithRival
	if lost {
		upgrade = t.upgradeWithLostRecord
	}
	code, err := upgrade(ctx)
	broken, seen := budgets.Stop()
	switch {
	case err != nil:
		return outcome{}, err
	case seen == 0:
		return outcome{}, errors.New("no state of a budget was seen")
	}
	record, err := cluster.NewStore(t.Cluster.Client(), stateSpace, t.group()).LoadRecord(ctx)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{seed: t.seed, resizes: t.resizes, code: code, message: cmp.Or(fixture.LastError(t.stderr.String()), record.Message), before: t.before, killed: t.killed}
	end, err := t.readFinalState(ctx, record)
	o.after = end.group
	o.faults = append(end.faults(&o), broken...)
	return o, err
}

// upgradeWithRival runs the command until it exits, while the rival makes its changes. It returns the exit code.
func (t *testCase) upgradeWithRival(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	rivalry, over := context.WithCancel(ctx)
	defer over()
	done := make(chan error, 1)
	go func() { done <- t.rival.applyResizes(rivalry, t.resizes) }()
	code, err := t.startUpgrade(ctx).Wait()
	over()
	return code, errors.Join(err, <-done)
}

func (t *testCase) startUpgrade(ctx context.Context, more ...string) *fixture.Process {
	args := []string{"nodeupgrade", t.group(), "--yes", "--parallel-groups", "--progress=json", "--settle=0s", "--drain-timeout=4m", "--boot-timeout=1m"}
	return t.Start(ctx, io.Discard, &t.stderr, t.proxy.env(), append(args, more...)...)
}

// notePodsOnTerminated records the pods of a current node that the upgrade is about to terminate.
func (t *testCase) notePodsOnTerminated(r *http.Request, instance string) {
	group, err := t.Cloud.Group(t.group())
	if err != nil {
		return // the upgrade gets the same error
	}
	for _, i := range group.Instances {
		if i.ID != instance || i.Image != fixture.NewImage || i.Node == "" {
			continue
		}
		load, err := podsToMove(r.Context(), t.Fixture, i.Node)
		if err != nil {
			load = []string{err.Error()}
		}
		t.mu.Lock()
		t.podsOnTerminated = append(t.podsOnTerminated, load...)
		t.mu.Unlock()
	}
}
