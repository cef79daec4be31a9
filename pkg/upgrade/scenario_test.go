package upgrade_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestScenariosPrintExpectedTranscripts runs the files of testdata: a cluster in a sketch, commands, and the transcript of
// what became of the group. Renew them with -rewrite, and read the difference.
//
//	group zones=(a:3,b:2) [current=(a:1)] [min=N] [max=N] [provider=manual] [zonal=false] [spot=true] [boot=2m] [pointed=1] [fit=N]   fit is for how many pods a node has room
//	workload name=web replicas=6 [allow=1] [kind=StatefulSet]
//	deployment name=solo                      one of a single pod, on the first node
//	pod name=bare node=old-a-1 [app=web] [drain=skip]   a pod, without a controller unless it is of an app
//	service app=hook [needed=false]           others need the pods of the app, or it only sends to them
//	slow app=web ready=10m [on=new]           pods of the app become ready that long after they are bound [to nodes that are named so]
//	node name=old-a-1 [silent=10m] [cordoned=true]
//	fault action=add outcome=exhausted [detail=text] [times=1]
//	run [like=gke] [max-unavailable=1] [surge=N] [on-timeout=skip] [barrier=true] [stop-at=90s] [crash-at=90s] [keep-fence=true] [evictions=true] [implicit-budgets=false] [ignore-unready=shop/replicaset/web] [move=surge]
//	run strategy=autoscaled-blue-green [wait-for-drain=72h] [leave=true]   an autoscaler brings new nodes up
//	run strategy=blue-green [batch=1] [batch-soak=0s] [soak=1h] [complete-at=5m] [leave=true]   leave ends at a long wait
//	again [stop-at=90s] [crash-at=90s] [after=2h]   the same command after a stop, some time later
//
//	back                                      the rollback of an upgrade that stopped
//
// run and again take verbs, too: pause-at=5m [withdraw-at=6m], abort-at=5m, rollback-at=5m
// [again-at=6m], where the process is killed and the verb requested again.
func TestScenariosPrintExpectedTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			s := &scenario{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.command(t, command{t, d}) })
		})
	}
}

// scenario is a cluster description, and the upgrade that runs in it.
type scenario struct {
	spec       simulate.Spec
	services   []*corev1.Service
	faults     []fault
	driver     *driver
	transcript *transcript
}

func (s *scenario) command(t *testing.T, c command) string {
	switch c.Cmd {
	case "group":
		*s = scenario{spec: groupSketch{
			outdated: c.counts("zones"), current: c.counts("current"), provider: c.text("provider", "aws"),
			zonal: c.flag("zonal", true), max: c.number("max", 0), pointed: c.text("pointed", ""),
		}.spec()}
		s.spec.Group.Min, s.spec.Group.Spot = c.number("min", 0), c.flag("spot", false)
		if fit := c.number("fit", 0); fit > 0 {
			for _, node := range s.spec.Nodes {
				node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(fit), resource.DecimalSI)}
			}
		}
		s.spec.Times.Boot = c.duration("boot", s.spec.Times.Boot)
	case "workload":
		first := len(s.spec.Pods)
		addWorkload(&s.spec, c.text("name", "web"), c.text("kind", "ReplicaSet"), c.number("replicas", 1), c.number("allow", -1))
		for _, pod := range s.spec.Pods[first:][:c.number("unready", 0)] {
			build.Unready(pod)
		}
	case "pod":
		s.pod(c)
	case "deployment":
		s.deployment(c)
	case "slow":
		s.slow(c)
	case "service":
		s.services = append(s.services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": c.text("app", "")}},
		})
		if s.spec.Facts = drain.NewFacts(s.services); !c.flag("needed", true) {
			s.spec.Facts = drain.Webhooks{}.FactsOf(s.services)
		}
	case "node":
		s.node(c)
	case "fault":
		s.faults = append(s.faults, fault{
			key: c.text("action", ""), outcome: nodegroup.Outcome(c.text("outcome", "")), detail: c.text("detail", ""), times: c.number("times", 1),
		})
	case "run":
		s.begin(t, c)
		return s.run(c)
	case "again":
		if after := c.duration("after", 0); after > 0 {
			s.driver.cluster.Advance(s.driver.cluster.Now().Add(after))
		}
		s.driver.reopen()
		return s.run(c)
	case "back":
		s.driver.rollBack()
		return s.run(c)
	default:
		t.Fatalf("%s: unknown command %q", c.Pos, c.Cmd)
	}
	return ""
}

func (s *scenario) deployment(c command) {
	name := c.text("name", "")
	s.spec.Pods = append(s.spec.Pods, build.Pod(name+"-0", build.OwnedBy("ReplicaSet", name+"-1"), build.On(s.spec.Nodes[0].Name), func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"app": name, "pod-template-hash": "1"}
	}))
	s.spec.Movable = drain.NewMovable([]*appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: name, UID: "solo"}}}, nil)
}

func (s *scenario) slow(c command) {
	app, ready, on, usual := c.text("app", ""), c.duration("ready", 0), c.text("on", ""), s.spec.Times.Ready
	s.spec.Times.ReadyOf = func(pod *corev1.Pod) time.Duration {
		if pod.Labels["app"] == app && strings.Contains(pod.Spec.NodeName, on) {
			return ready
		}
		return usual
	}
}

func (s *scenario) pod(c command) {
	pod := build.Pod(c.text("name", "bare"), build.On(c.text("node", "")))
	if app := c.text("app", ""); app != "" {
		build.App(app)(pod)
	} else {
		build.Bare(pod)
	}
	if wish := c.text("drain", ""); wish != "" {
		pod.Labels[drain.Label] = wish
	}
	s.spec.Pods = append(s.spec.Pods, pod)
}

func (s *scenario) node(c command) {
	for _, node := range s.spec.Nodes {
		if node.Name != c.text("name", "") {
			continue
		}
		node.Spec.Unschedulable = c.flag("cordoned", false)
		if silent := c.duration("silent", 0); silent > 0 {
			build.NotReady(start.Add(-silent))(node)
		}
		return
	}
	c.t.Fatalf("%s: no such node", c.Pos)
}

// begin reads the arguments of an upgrade. The default surge is EKS's.
func (s *scenario) begin(t *testing.T, c command) {
	outdated := 0
	for _, node := range s.spec.Nodes {
		if s.spec.Outdated(node) {
			outdated++
		}
	}
	unavailable := c.number("max-unavailable", 1)
	surge := c.number("surge", min(max(2*len(s.spec.Group.Zones), unavailable), outdated))
	window, like := unavailable, c.text("like", "eks")
	if window == 0 || like == "gke" {
		window += surge // GKE G12
	}
	request := record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, Like: like,
		MaxUnavailable: unavailable, Window: window, Surge: surge,
		DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
		OnTimeout: record.OnTimeout(c.text("on-timeout", "fail")), BatchBarrier: c.flag("barrier", false),
		WaitReplacement: c.flag("wait-replacement", true), KeepFence: c.flag("keep-fence", false),
		Move: record.Move(c.text("move", "")), NoImplicitBudgets: !c.flag("implicit-budgets", true),
	}
	if ignored := c.text("ignore-unready", ""); ignored != "" {
		request.IgnoreUnready = []string{ignored}
	}
	if c.text("strategy", "") == string(record.BlueGreen) {
		batch := c.number("batch", 1)
		request.Strategy, request.Surge, request.MaxUnavailable, request.Window = record.BlueGreen, outdated, 0, max(1, batch)
		request.BlueGreen = &record.BlueGreenRequest{Batch: batch, BatchSoak: duration(c.duration("batch-soak", 0)), Soak: duration(c.duration("soak", time.Hour))}
	}
	if c.text("strategy", "") == string(record.AutoscaledBlueGreen) {
		request.Strategy, request.Surge, request.MaxUnavailable, request.Window = record.AutoscaledBlueGreen, 0, 0, 20
		request.DrainTimeout, request.OnTimeout, request.WaitForDrain = duration(time.Hour), record.Force, duration(c.duration("wait-for-drain", 72*time.Hour))
		s.spec.Autoscaled = true
	}
	s.driver = newDriver(t, s.spec, request)
	s.driver.leave = c.flag("leave", false)
	s.driver.faults = s.faults
	s.transcript = &transcript{cluster: s.driver.cluster, states: map[string]record.NodeState{}, told: map[string]bool{}, evictions: c.flag("evictions", false)}
	s.driver.watch = s.transcript.add
}

// run upgrades the group in virtual time and returns the transcript.
func (s *scenario) run(c command) string {
	c.t.Helper()
	s.transcript.text.Reset()
	switch {
	case c.HasArg("stop-at"):
		if !s.driver.run(start.Add(c.duration("stop-at", 0))) {
			s.transcript.line("stop")
			s.driver.stopRequested = true
			s.driver.run(time.Time{})
		}
	case c.HasArg("crash-at"):
		if !s.driver.run(start.Add(c.duration("crash-at", 0))) {
			s.transcript.line("crash")
			s.driver.crash()
			s.driver.run(time.Time{})
		}
	case c.HasArg("pause-at"), c.HasArg("abort-at"), c.HasArg("rollback-at"), c.HasArg("complete-at"):
		s.verb(c)
	default:
		s.driver.run(time.Time{})
	}
	s.transcript.line(fmt.Sprintf("%s %s", s.driver.record.Result, s.driver.record.Message))
	s.transcript.marks(s.driver.world())
	return s.transcript.text.String()
}

// verb makes a user on another machine ask for a verb in the middle of the run.
func (s *scenario) verb(c command) {
	d := s.driver
	verb, carryOn := record.VerbPause, func() {}
	switch {
	case c.HasArg("abort-at"):
		verb, carryOn = record.VerbAbort, d.abort
	case c.HasArg("rollback-at"):
		verb, carryOn = record.VerbRollback, d.rollBack
	case c.HasArg("complete-at"):
		verb = record.VerbComplete
	}
	d.run(start.Add(c.duration(string(verb)+"-at", 0)))
	s.transcript.line(string(verb))
	d.ask(verb)
	if c.HasArg("withdraw-at") && !d.run(start.Add(c.duration("withdraw-at", 0))) {
		s.transcript.line("withdrawn")
		d.asked = record.Asked{}
	}
	d.run(time.Time{})
	if verb == record.VerbPause || verb == record.VerbComplete {
		return
	}
	s.transcript.line(fmt.Sprintf("%s %s", d.record.Result, d.record.Message))
	carryOn()
	if c.HasArg("again-at") && !d.run(start.Add(c.duration("again-at", 0))) {
		s.transcript.line("crash, " + string(verb))
		carryOn()
	}
	d.run(time.Time{})
}

// transcript records what changed: sizes, zones, the states of started nodes, blocked pods, faults.
type transcript struct {
	cluster *simulate.Cluster
	text    strings.Builder
	sizes   string
	phase   record.Phase
	waiting string
	states  map[string]record.NodeState
	told    map[string]bool
	// evictions adds the requests about pods to the transcript.
	evictions bool
}

func (tr *transcript) line(text string) {
	fmt.Fprintf(&tr.text, "%8s  %s\n", tr.cluster.Now().Sub(start), strings.TrimSpace(text))
}

func (tr *transcript) add(w upgrade.World, step upgrade.Step) {
	tr.answers(w)
	if step.Record.Phase != tr.phase {
		tr.phase = step.Record.Phase
		tr.line("phase " + string(tr.phase))
	}
	group := tr.cluster.World(w.Request).Group // with its instances
	sizes := fmt.Sprintf("desired %d max %d  %s", w.Group.Desired, w.Group.Max, build.ZoneSizes(&group))
	if sizes != tr.sizes {
		tr.sizes = sizes
		tr.line(sizes)
	}
	if waiting := step.Status.Waiting; waiting != tr.waiting {
		if tr.waiting = waiting; strings.HasPrefix(waiting, "pausing") {
			tr.line(waiting)
		}
	}
	states := map[string]record.NodeState{}
	for _, n := range step.Status.Nodes {
		states[n.Name] = n.State
		if tr.states[n.Name] != n.State && n.State != record.NodePending && n.State != record.NodeFenced {
			tr.line(fmt.Sprintf("%s %s", n.Name, n.State))
		}
	}
	tr.states = states
	for _, action := range step.Actions {
		switch action.(type) {
		case schedule.Eviction, schedule.Deletion, schedule.Restart:
			if tr.evictions {
				tr.line(action.String())
			}
		case nodegroup.SetRevision:
			tr.line(action.String())
		}
	}
}

// answers writes each answer of a server that is not a success, once.
func (tr *transcript) answers(w upgrade.World) {
	for _, key := range slices.Sorted(maps.Keys(w.Open)) {
		attempt := w.Open[key]
		text := fmt.Sprintf("%s: %s %s", attempt.Action, attempt.Outcome, attempt.Detail)
		if attempt.Outcome != nodegroup.OutcomeDone && !tr.told[text] {
			tr.told[text] = true
			tr.line(text)
		}
	}
}

// marks writes, at the end, which nodes are still fenced and which processes are still suspended.
func (tr *transcript) marks(w upgrade.World) {
	var fenced []string
	for _, m := range w.Members {
		if m.Node != nil && (m.Node.Spec.Unschedulable || len(m.Node.Spec.Taints) > 0 || len(m.Node.Annotations) > 0) {
			fenced = append(fenced, fenceOf(m.Node))
		}
	}
	if len(fenced) > 0 {
		tr.line("left: " + strings.Join(fenced, ", "))
	}
	if len(w.Group.Suspended) > 0 {
		tr.line("suspended: " + strings.Join(w.Group.Suspended, ", "))
	}
}

func fenceOf(node *corev1.Node) string {
	if _, ours := node.Annotations[nodemark.AnnotationRun]; ours {
		return node.Name + " fenced"
	}
	return node.Name + " cordoned by others"
}

// command is a line of a scenario.
type command struct {
	t *testing.T
	*datadriven.TestData
}

func (c command) text(key, otherwise string) string {
	for _, arg := range c.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			return strings.Join(arg.Vals, ",")
		}
	}
	return otherwise
}

func (c command) flag(key string, otherwise bool) bool {
	return c.text(key, strconv.FormatBool(otherwise)) == "true"
}

func (c command) number(key string, otherwise int) int {
	n, err := strconv.Atoi(c.text(key, strconv.Itoa(otherwise)))
	c.must(key, err)
	return n
}

func (c command) duration(key string, otherwise time.Duration) time.Duration {
	d, err := time.ParseDuration(c.text(key, otherwise.String()))
	c.must(key, err)
	return d
}

// counts parses counts by zone such as (a:3,b:2).
func (c command) counts(key string) map[string]int {
	counts := map[string]int{}
	for part := range strings.SplitSeq(c.text(key, ""), ",") {
		zone, text, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		c.must(key, err)
		counts[zone] = n
	}
	return counts
}

func (c command) must(key string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("%s: %s: %v", c.Pos, key, err)
	}
}
