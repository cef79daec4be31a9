package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/gkecloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

const (
	// exitPaused is the exit code of a command whose upgrade was paused.
	exitPaused = 5
	// exitWaiting is the exit code of a command that leaves an upgrade to GKE.
	exitWaiting = 6
	// exitInterrupted is the exit code of a command that was ended with Ctrl-C.
	exitInterrupted = 130
	// gkeCluster is the name of each case's own GKE cluster.
	gkeCluster = "crash"
)

// poolCase is one course of its own GKE node pool.
type poolCase struct {
	*fixture.Fixture
	setup
	point point
	name  string
	cloud *gkecloud.Cloud
	env   []string
	ready map[string]int
	// holder is the process that runs the upgrade in the background; nil if none does.
	holder *fixture.Process
	said   transcript
	writes []string
	// misbehaviour lists wrong actions of a command that the final state does not show.
	misbehaviour []string
	// wasOver is true if the killed command had recorded the end of the upgrade. Its verb is refused then.
	wasOver bool
}

// transcript is the stderr of all commands. Commands may write to it at the same time.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns what was written so far.
func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

func poolZones() []string { return []string{"us-central1-a", "us-central1-b"} }

// runCourse runs the setup's course on a new pool, injects the fault at the point, and compares the final state with the expected one.
// It returns an error if a step before the comparison failed.
func (c setup) runCourse(ctx context.Context, own *fixture.Fixture, p point) (outcome, error) {
	t := &poolCase{Fixture: own, setup: c, point: p, name: c.nameAt(p)}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if err := t.setUp(ctx); err != nil {
		return outcome{}, err
	}
	defer t.remove(context.WithoutCancel(ctx))
	budgets, err := t.WatchBudgets(ctx)
	if err != nil {
		return outcome{}, err
	}
	err = t.runToEnd(ctx)
	broken, seen := budgets.Stop()
	switch {
	case err != nil:
		return outcome{}, fmt.Errorf("%w: %s", err, t.said.String())
	case seen == 0:
		return outcome{}, errors.New("no state of a budget was seen")
	}
	found, err := t.readState(ctx)
	if err != nil {
		return outcome{}, err
	}
	found["budgets below their need"] = strings.Join(broken, ", ")
	wanted := t.expectedState()
	if t.wasOver { // the name of the killed process stays in the lease until it is taken again
		wanted["lease held by"] = found["lease held by"]
	}
	o := outcome{point: p, name: t.name, writes: t.writes, problems: append(t.misbehaviour, differences(found, wanted)...)}
	return o, c.storeOutput(o, t.said.String())
}

// setUp creates the GKE cluster, the pool and its workloads.
func (t *poolCase) setUp(ctx context.Context) error {
	options := gkecloud.Options{Cluster: gkeCluster, DrainLimit: 3 * time.Minute}
	if t.course.holds {
		options.HoldsAfter = 1
	}
	var err error
	if t.cloud, t.env, err = t.StartGKE(ctx, options); err != nil {
		return err
	}
	selector := map[string]string{"pool": t.name}
	spec := gkecloud.PoolSpec{Name: t.name, Zones: poolZones(), Counts: t.counts}
	err = t.DeployPool(ctx, t.cloud, spec, []fixture.Workload{
		{Name: "web", Replicas: 4, MaxUnavailable: "2", Ready: time.Second, Gone: time.Second, NodeSelector: selector},
		{Name: "agent", Kind: "DaemonSet", Ready: time.Second, Gone: time.Second, NodeSelector: selector},
	})
	if err != nil {
		t.cloud.Stop()
		return err
	}
	pods, err := t.Cluster.Client().CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.cloud.Stop()
		return err
	}
	t.ready = countReadyPods(pods.Items)
	return nil
}

// remove ends the GKE cluster, and deletes the namespace and the nodes, to make room for further cases. It ignores errors.
func (t *poolCase) remove(ctx context.Context) {
	t.cloud.Stop()
	client := t.Cluster.Client().CoreV1()
	_ = client.Namespaces().Delete(ctx, t.Namespace, metav1.DeleteOptions{})
	_ = client.Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "pool=" + t.name})
}

// start starts the plugin. extra is added to the environment.
func (t *poolCase) start(ctx context.Context, extra []string, args ...string) *fixture.Process {
	all := append([]string{"nodeupgrade"}, args...)
	return t.Start(ctx, io.Discard, &t.said, append(append([]string(nil), t.env...), extra...), append(all, "--provider=gke", "--cluster-name="+t.cloud.Name())...)
}

// awaitExit waits for the end of a process. It returns an error if its exit code is another one.
func (t *poolCase) awaitExit(process *fixture.Process, want int) error {
	code, err := process.Wait()
	if err == nil && code != want {
		err = fmt.Errorf("a command ended with %d, not with %d: %s", code, want, fixture.LastError(t.said.String()))
	}
	return err
}

// beginUpgrade starts an upgrade, and waits until GKE has replaced a node and the record shows the operation.
func (t *poolCase) beginUpgrade(ctx context.Context) error {
	t.holder = t.start(ctx, nil, t.course.upgradeArgs(t.name)...)
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		rec, err := loadRecord(ctx, t.Fixture, t.name)
		if err != nil || rec.Phase != record.PhaseFollow {
			return false, err
		}
		pool, err := t.cloud.Pool(t.name)
		replaced := 0
		for _, version := range pool.Nodes {
			if version == newVersion {
				replaced++
			}
		}
		return replaced > 0 && len(pool.Nodes) == t.size(), err
	})
}

// pauseUpgrade starts an upgrade and pauses it.
func (t *poolCase) pauseUpgrade(ctx context.Context) error {
	if err := t.beginUpgrade(ctx); err != nil {
		return err
	}
	return errors.Join(t.awaitExit(t.start(ctx, nil, string(record.VerbPause), t.name), 0), t.awaitHolder(exitPaused))
}

// leaveUpgrade starts an upgrade, and ends its process with Ctrl-C. GKE continues.
func (t *poolCase) leaveUpgrade(ctx context.Context) error {
	if err := t.beginUpgrade(ctx); err != nil {
		return err
	}
	return errors.Join(t.holder.Interrupt(), t.awaitHolder(exitInterrupted))
}

// upgradeToSoak starts a blue-green upgrade. Its command ends in the soak.
func (t *poolCase) upgradeToSoak(ctx context.Context) error {
	return t.awaitExit(t.start(ctx, nil, t.course.upgradeArgs(t.name)...), exitWaiting)
}

// awaitHolder waits for the end of the process that runs the upgrade. It does nothing if there is none.
func (t *poolCase) awaitHolder(want int) error {
	if t.holder == nil {
		return nil
	}
	holder := t.holder
	t.holder = nil
	return t.awaitExit(holder, want)
}

func (t *poolCase) size() (size int) {
	for _, n := range t.counts {
		size += n
	}
	return size
}

// runToEnd runs the course until GKE has done all that it is asked to do.
func (t *poolCase) runToEnd(ctx context.Context) error {
	if t.course.begin != nil {
		if err := t.course.begin(t, ctx); err != nil {
			return fmt.Errorf("preparing the course: %w", err)
		}
	}
	paused := make(chan error, 1)
	if t.course.isPaused {
		go func() { paused <- t.pauseBeside(ctx) }()
	} else {
		close(paused)
	}
	if err := t.runInterrupted(ctx); err != nil {
		return err
	}
	if err := errors.Join(<-paused, t.awaitHolder(exitPaused)); err != nil || !t.course.leaves {
		return err
	}
	if rec, err := loadRecord(ctx, t.Fixture, t.name); err != nil || rec.Result != record.Paused {
		return fmt.Errorf("the upgrade was not paused: %s, %w", describeRecord(rec), err)
	}
	return t.awaitExit(t.start(ctx, nil, string(verbResume), t.name, "--yes", "--parallel-groups"), 0)
}

// pauseBeside pauses the upgrade as another user does, once GKE has begun it. While no process runs the upgrade the pause is refused,
// and this user tries again.
func (t *poolCase) pauseBeside(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) { return len(t.cloud.Writes()) > 0, nil })
	for err == nil {
		var code int
		if code, err = t.start(ctx, nil, string(record.VerbPause), t.name).Wait(); err != nil || code == 0 {
			return err
		}
		if code != exitRefused {
			return fmt.Errorf("the pause ended with %d", code)
		}
		err = ctx.Err()
	}
	return err
}

// runInterrupted runs the course's command with the fault. If the fault kills it, the same command is run again.
func (t *poolCase) runInterrupted(ctx context.Context) error {
	var process *fixture.Process
	started, ended := make(chan struct{}), make(chan struct{})
	front, err := hostile.GKE(ctx, t.cloud.URL(), hostile.Plan{})
	if err != nil {
		return err
	}
	proxy, err := openProxyBefore(ctx, t.Fixture, cloudFront{front, nameGKEWrite}, t.point, func() {
		<-started
		_ = process.Kill() // its exit code shows an error
		<-ended
	})
	if err != nil {
		return err
	}
	defer proxy.close()
	process = t.start(ctx, proxy.env(), t.course.args(t.name)...)
	close(started)
	code, err := process.Wait()
	close(ended)
	t.writes = proxy.allWrites()
	if err != nil {
		return err
	}
	if t.point.fault.killsCommand() && len(t.writes) >= t.point.n {
		return t.repeat(ctx, code)
	}
	return t.checkCode(code, t.course.code)
}

// repeat runs the killed command again. code is its exit code.
func (t *poolCase) repeat(ctx context.Context, code int) error {
	if code != exitKilled {
		return fmt.Errorf("the command ended with %d before it could be killed", code)
	}
	rec, err := loadRecord(ctx, t.Fixture, t.name)
	if err != nil {
		return err
	}
	want := t.course.code
	if t.course.verb != "" && rec.Run != "" && !rec.IsResumable() {
		t.wasOver, want = true, exitRefused
	}
	code, err = t.start(ctx, nil, t.course.repeatedArgs(t.name)...).Wait()
	if err != nil {
		return err
	}
	return t.checkCode(code, want)
}

// checkCode notes an unexpected exit code.
func (t *poolCase) checkCode(code, want int) error {
	if code != want {
		t.misbehaviour = append(t.misbehaviour, fmt.Sprintf("the last command ended with %d, not with %d: %s", code, want, fixture.LastError(t.said.String())))
	}
	return nil
}

// nameGKEWrite returns the method, and what follows the cluster in the path: "PUT workers".
func nameGKEWrite(r *http.Request) string {
	last := path.Base(r.URL.Path)
	if i := strings.LastIndexByte(last, ':'); i >= 0 && strings.HasPrefix(last, "operation-") {
		last = last[i:]
	}
	return r.Method + " " + last
}

// expectedState returns the state that the course must leave behind.
func (t *poolCase) expectedState() state {
	total := cmp.Or(t.course.total, t.size())
	rec := record.Record{Phase: record.PhaseDone, Result: record.Succeeded, Total: total, Replaced: total}
	if t.course.verb == record.VerbRollback {
		rec.Message = "rolled back to " + t.name + ":" + oldVersion
	}
	return state{
		"budgets below their need": "",
		"operations":               strings.Join(t.course.operations, ", "),
		"nodes":                    fmt.Sprint(map[string]int{t.course.version: t.size()}),
		"left on nodes":            "",
		"changed by the tool":      "",
		"ready pods":               fmt.Sprint(t.ready),
		"lease held by":            "",
		"record":                   describeRecord(rec),
	}
}

// readState waits until all workloads are running, and reads the state that the course left behind.
func (t *poolCase) readState(ctx context.Context) (state, error) {
	found := state{"operations": strings.Join(t.cloud.Operations(), ", ")}
	if err := errors.Join(t.Settle(ctx), t.AwaitNodes(ctx, "pool="+t.name, t.size())); err != nil {
		found["workloads"] = err.Error()
	}
	for _, part := range []func(context.Context, state) error{t.readNodes, t.readPods, t.readChanges, t.readRecordAndLease} {
		if err := part(ctx, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readNodes reads the versions of the nodes, and what is left on them.
func (t *poolCase) readNodes(ctx context.Context, found state) error {
	list, err := t.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + t.name})
	if err != nil {
		return err
	}
	versions := map[string]int{}
	var left []string
	for i := range list.Items {
		node := &list.Items[i]
		versions[strings.TrimPrefix(node.Status.NodeInfo.KubeletVersion, "v")]++
		for _, mark := range fixture.Marks(node) {
			left = append(left, mark+" on "+node.Name)
		}
	}
	found["nodes"], found["left on nodes"] = fmt.Sprint(versions), strings.Join(left, ", ")
	return nil
}

func (t *poolCase) readPods(ctx context.Context, found state) error {
	pods, err := t.Cluster.Client().CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	found["ready pods"] = fmt.Sprint(countReadyPods(pods.Items))
	return nil
}

// readChanges lists the tool's writes to the nodes and pods of the pool. It must leave both to GKE.
func (t *poolCase) readChanges(ctx context.Context, found state) error {
	events, err := t.Cluster.AuditEvents(ctx)
	if err != nil {
		return err
	}
	var changes []string
	for _, e := range events {
		ref := e.ObjectRef
		isOwn := ref.Namespace == t.Namespace || ref.Resource == "nodes" && strings.HasPrefix(ref.Name, "gke-"+gkeCluster+"-"+t.name+"-")
		if isOwn && fixture.IsOurs(e) && e.IsMutating() && !e.IsDryRun() {
			changes = append(changes, strings.TrimSpace(e.Verb+" "+ref.Resource+" "+ref.Subresource)+" "+ref.Name)
		}
	}
	found["changed by the tool"] = strings.Join(changes, ", ")
	return nil
}

// readRecordAndLease reads the holder of the lease, and the record.
func (t *poolCase) readRecordAndLease(ctx context.Context, found state) error {
	lease, err := loadLease(ctx, t.Fixture, t.name)
	if err != nil {
		return err
	}
	found["lease held by"] = ""
	if holder := lease.Spec.HolderIdentity; holder != nil {
		found["lease held by"] = *holder
	}
	rec, err := loadRecord(ctx, t.Fixture, t.name)
	found["record"] = describeRecord(rec)
	return err
}
