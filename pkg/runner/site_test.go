package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

const (
	boots  = 12 * time.Second
	leaves = 4 * time.Second
)

// site is a cluster, its cloud and its store, as the runner's interfaces see them. It is used
// inside a synctest bubble, so that waiting costs no time. It records each request with the time
// since the start.
type site struct {
	t     *testing.T
	began time.Time

	mu        sync.Mutex
	nodes     map[string]*corev1.Node
	seen      []*corev1.Node // the nodes in the last View
	pods      map[types.UID]*corev1.Pod
	budgets   []*policyv1.PodDisruptionBudget
	instances map[string]nodegroup.Instance
	desired   int
	version   int
	notes     []note
	flying    map[string]bool
	most      int
	saved     record.Record

	changed, nodesChanged chan struct{}

	// onDo and onSave replace the server until they return. If they return an error, it is the
	// answer and nothing is done.
	onDo   func(context.Context, nodegroup.Action) error
	onSave func(context.Context, record.Record) error
	// onObserve replaces the cloud in the same way.
	onObserve func() error
	// lost is closed by the test.
	lost chan struct{}
	// steps are all decided steps, polled are the results of all readings of the cloud.
	steps  []upgrade.Step
	polled []error
}

// note is one recorded request: "save", "observe" or an action.
type note struct {
	what string
	at   time.Duration
}

// newSite returns a site with the outdated nodes old-1, old-2, … in one zone, each an instance of a
// group like an Auto Scaling group.
func newSite(t *testing.T, outdated int) *site {
	s := &site{
		t: t, began: time.Now(), desired: outdated, nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{},
		instances: map[string]nodegroup.Instance{}, flying: map[string]bool{},
		changed: make(chan struct{}, 1), nodesChanged: make(chan struct{}, 1), lost: make(chan struct{}),
	}
	for i := range outdated {
		s.addNode(fmt.Sprintf("old-%d", i+1), true)
	}
	return s
}

func (s *site) addNode(name string, outdated bool) {
	node := build.Node(name, "a")
	node.Spec.ProviderID = "cloud:///a/i-" + name
	s.nodes[name] = node
	s.instances["i-"+name] = nodegroup.Instance{ID: "i-" + name, Zone: "a", State: nodegroup.InstanceInService, Outdated: outdated}
}

func (s *site) addPods(node string, n int) {
	for i := range n {
		pod := build.Pod(fmt.Sprintf("%s-web-%d", node, i), build.On(node))
		s.pods[pod.UID] = pod
	}
}

// signal reports a change without waiting, as an observer does.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *site) note(what string) {
	s.notes = append(s.notes, note{what, time.Since(s.began)})
}

// times returns when requests with this prefix were recorded.
func (s *site) times(what string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at []time.Duration
	for _, n := range s.notes {
		if strings.HasPrefix(n.what, what) {
			at = append(at, n.at)
		}
	}
	return at
}

// View implements Observer.
func (s *site) View() drain.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := slices.SortedFunc(maps.Values(s.nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	if !slices.Equal(nodes, s.seen) {
		s.seen = nodes
	}
	v := drain.Snapshot{Nodes: s.seen, Pods: map[string][]*corev1.Pod{}, Budgets: drain.NewBudgets(s.budgets)}
	for _, pod := range s.pods {
		v.Pods[pod.Spec.NodeName] = append(v.Pods[pod.Spec.NodeName], pod)
	}
	return v
}

// Changed implements Observer.
func (s *site) Changed() <-chan struct{} { return s.changed }

// NodesChanged implements Observer.
func (s *site) NodesChanged() <-chan struct{} { return s.nodesChanged }

// Save implements Saver.
func (s *site) Save(ctx context.Context, rec record.Record) error {
	s.mu.Lock()
	s.note("save")
	s.mu.Unlock()
	if s.onSave != nil {
		if err := s.onSave(ctx, rec); err != nil {
			return err
		}
	}
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = record.Record{}
	return json.Unmarshal(text, &s.saved)
}

// Do implements Actor.
func (s *site) Do(ctx context.Context, action nodegroup.Action) error {
	if nodegroup.IsCloudAction(action) {
		s.t.Errorf("the cluster was asked to %s", action)
	}
	return s.do(ctx, action)
}

func (s *site) do(ctx context.Context, action nodegroup.Action) error {
	s.begin(action)
	defer func() {
		s.mu.Lock()
		delete(s.flying, action.Key())
		s.mu.Unlock()
	}()
	if s.onDo != nil {
		if err := s.onDo(ctx, action); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effect(action)
	signal(s.changed)
	return nil
}

// begin records an action. It fails the test if the action begins twice, or if the stored record
// lacks what the action depends on.
func (s *site) begin(action nodegroup.Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(action.String())
	if s.flying[action.Key()] {
		s.t.Errorf("begun twice: %s", action)
	}
	s.flying[action.Key()] = true
	s.most = max(s.most, len(s.flying))
	if why := missingFromRecord(&s.saved, action); why != "" {
		s.t.Errorf("%s: the record that is stored %s", action, why)
	}
}

// missingFromRecord returns what the action depends on and the stored record lacks.
func missingFromRecord(saved *record.Record, action nodegroup.Action) string {
	var node string
	var states []record.NodeState
	switch a := action.(type) {
	case nodegroup.AddCapacity:
		if len(saved.Ledger.Books().Zones[a.Zone].Open) == 0 {
			return "has no open launch in the zone"
		}
	case nodemark.StartDrain:
		node, states = a.Node, []record.NodeState{record.NodeDraining, record.NodeEmpty}
	case schedule.Eviction:
		node, states = a.Node, []record.NodeState{record.NodeDraining}
	case nodegroup.Terminate:
		node, states = a.Node, []record.NodeState{record.NodeRemoving}
	}
	switch {
	case saved.Run == "":
		return "has no run"
	case node != "" && !slices.Contains(states, saved.Nodes[node].State):
		return fmt.Sprintf("has the node in state %q", saved.Nodes[node].State)
	}
	return ""
}

func (s *site) effect(action nodegroup.Action) {
	switch a := action.(type) {
	case nodemark.NodeAction:
		s.mark(a.Target().Node, func(n *corev1.Node) error { return a.Apply(n, s.saved.Run, nodegroup.FenceTaint("aws")) })
	case schedule.Eviction:
		delete(s.pods, a.UID)
	case nodegroup.AddCapacity:
		s.desired += a.N
		s.launch("new-" + a.Token)
	case nodegroup.Terminate:
		s.terminate(a)
	default:
		s.t.Errorf("the site cannot %s", action)
	}
}

func (s *site) mark(name string, change func(*corev1.Node) error) {
	node := s.nodes[name].DeepCopy()
	if err := change(node); err != nil {
		s.t.Error(err)
	}
	s.version++
	node.ResourceVersion = fmt.Sprint("v", s.version)
	s.nodes[name] = node
}

// launch creates an instance immediately, and its node after the boot time.
func (s *site) launch(name string) {
	s.instances["i-"+name] = nodegroup.Instance{ID: "i-" + name, Zone: "a", State: nodegroup.InstancePending}
	time.AfterFunc(boots, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.addNode(name, false)
		signal(s.nodesChanged)
		signal(s.changed)
	})
}

// terminate marks the machine as leaving. After a while, the machine and its node are removed together.
func (s *site) terminate(a nodegroup.Terminate) {
	instance := s.instances[a.Instance]
	instance.State = nodegroup.InstanceLeaving
	s.instances[a.Instance] = instance
	if a.Shrink {
		s.desired--
	}
	time.AfterFunc(leaves, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.instances, a.Instance)
		delete(s.nodes, a.Node)
		signal(s.nodesChanged)
		signal(s.changed)
	})
}

// siteCloud is the site as its cloud.
type siteCloud struct{ *site }

var _ cloud.Provider = siteCloud{}

// Name implements cloud.Provider.
func (siteCloud) Name() string { return "aws" }

// Account implements cloud.Provider.
func (siteCloud) Account(context.Context) (string, error) {
	return "", errors.New("not asked for by a runner")
}

// Groups implements cloud.Provider.
func (siteCloud) Groups(context.Context, []*corev1.Node) ([]nodegroup.Group, error) {
	return nil, errors.New("not asked for by a runner")
}

// Observe implements cloud.Provider.
func (c siteCloud) Observe(_ context.Context, ref cloud.Ref) (nodegroup.Group, error) {
	c.mu.Lock()
	c.note("observe " + ref.Name + " to " + ref.To)
	c.mu.Unlock()
	if c.onObserve != nil {
		if err := c.onObserve(); err != nil {
			return nodegroup.Group{Name: "an answer that must not be looked at"}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.group(), nil
}

func (s *site) group() nodegroup.Group {
	revision := nodegroup.Revision{ID: "2", Name: "workers:2"}
	return nodegroup.Group{
		Name: "workers", Provider: "aws", Wanted: revision, Pointed: revision, Observed: time.Now(),
		Can: nodegroup.FullControl(), Desired: s.desired, Max: 30, Zones: []string{"a"},
		Instances: slices.Collect(maps.Values(s.instances)),
	}
}

// Belongs implements cloud.Provider.
func (siteCloud) Belongs(*nodegroup.Group, *corev1.Node) bool { return true }

// Outdated implements cloud.Provider.
func (siteCloud) Outdated(_ *nodegroup.Group, node *corev1.Node) bool {
	return strings.HasPrefix(node.Name, "old-")
}

// Do implements cloud.Provider.
func (c siteCloud) Do(ctx context.Context, group string, action nodegroup.Action) error {
	if group != "workers" || !nodegroup.IsCloudAction(action) {
		c.t.Errorf("the cloud was asked to %s in group %q", action, group)
	}
	return c.do(ctx, action)
}

// runner returns a Runner of the site. Its request adds no node and drains one node at a time.
func (s *site) runner(with ...func(*record.Request)) *Runner {
	request := record.Request{
		Group: "workers", To: "7", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, OnTimeout: record.Fail,
		DrainTimeout: record.Duration{Duration: time.Hour}, BootTimeout: record.Duration{Duration: 20 * time.Minute},
	}
	for _, change := range with {
		change(&request)
	}
	return &Runner{
		Request: request, Cluster: s, Cloud: siteCloud{s}, Writer: s, Store: s, Group: s.group(), Lost: s.lost,
		Requests: &requestSource{}, Expires: func() time.Time { return s.began.AddDate(1, 0, 0) }, RenewalError: func() error { return nil },
		Watch:     func(step upgrade.Step) { s.steps = append(s.steps, step) },
		CloudRead: func(_ *nodegroup.Group, err error) { s.polled = append(s.polled, err) }, BalancersRead: func(error) {}, ReportOutage: func(string) {},
	}
}

func surge(n int) func(*record.Request) { return func(r *record.Request) { r.Surge = n } }

// last returns the last step.
func (s *site) last() upgrade.Step { return s.steps[len(s.steps)-1] }
