package aws_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/aws"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// site is a simulated AWS with a Provider that connects to it through the environment, as the program does.
type site struct {
	*awscloud.Cloud
	*aws.Provider
	t    *testing.T
	seen int // the number of requests that were already checked
}

// instantOptions returns options with which every change in the stand-in happens immediately.
func instantOptions() awscloud.Options {
	return awscloud.Options{
		Boot: time.Nanosecond, Terminate: time.Nanosecond, NodeReady: time.Nanosecond, HealthCheck: time.Nanosecond, Tick: time.Millisecond,
	}
}

func start(t *testing.T, o awscloud.Options) *site {
	t.Helper()
	c, err := awscloud.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	for _, pair := range c.Env() {
		key, value, _ := strings.Cut(pair, "=")
		t.Setenv(key, value)
	}
	for _, id := range []string{"ami-1", "ami-2", "ami-3"} {
		c.AddImage(id, "v1.3"+strings.TrimPrefix(id, "ami-")+".0", "x86_64")
	}
	c.AddImage("ami-arm", "v1.33.0", "arm64")
	p, err := aws.New(t.Context(), aws.Options{Version: "v0.0.0-test"})
	if err != nil {
		t.Fatal(err)
	}
	return &site{Cloud: c, Provider: p, t: t}
}

// addWorkers adds group workers with one instance in each of three zones. Template workers has version 1 with ami-1 and version
// 2 with ami-2. The group launches from version 2, and its instances were launched from version 1.
func (s *site) addWorkers(change ...func(*awscloud.GroupSpec)) string {
	s.t.Helper()
	id := s.AddTemplate("workers", awscloud.TemplateVersion{Image: "ami-1", InstanceType: "m6i.large"}, awscloud.TemplateVersion{Image: "ami-2", InstanceType: "m6i.large"})
	spec := awscloud.GroupSpec{
		Name: "workers", Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"}, Counts: []int{1, 1, 1}, Min: 1, Max: 6,
		Template: awscloud.TemplateRef{ID: id, Version: "2"}, InitialVersion: 1,
	}
	for _, c := range change {
		c(&spec)
	}
	s.addGroup(spec)
	return id
}

func (s *site) addGroup(spec awscloud.GroupSpec) {
	s.t.Helper()
	if err := s.AddGroup(spec); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) observe(name, to string) nodegroup.Group {
	s.t.Helper()
	g, err := s.Observe(s.t.Context(), cloud.Ref{Name: name, To: to})
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

func (s *site) do(action nodegroup.Action) error {
	return s.Do(s.t.Context(), "workers", action)
}

func (s *site) mustDo(action nodegroup.Action) {
	s.t.Helper()
	if err := s.do(action); err != nil {
		s.t.Fatalf("%s: %v", action, err)
	}
}

func (s *site) status() awscloud.GroupStatus {
	s.t.Helper()
	g, err := s.Group("workers")
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

// requests returns the requests since the last call of requests, in order.
func (s *site) requests() []awscloud.Request {
	all := s.Requests()
	news := all[s.seen:]
	s.seen = len(all)
	return news
}

// calls returns the operations of the requests since the last call, sorted.
func (s *site) calls() string {
	var names []string
	for _, r := range s.requests() {
		names = append(names, r.Operation)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// changes returns the operations since the last call that change something.
func (s *site) changes() []string {
	var names []string
	for _, r := range s.requests() {
		if r.Mutating {
			names = append(names, r.Operation)
		}
	}
	return names
}

// nodes returns a Node for each instance of the groups.
func (s *site) nodes(groups ...string) []*corev1.Node {
	s.t.Helper()
	var nodes []*corev1.Node
	for _, name := range groups {
		g, err := s.Group(name)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, i := range g.Instances {
			nodes = append(nodes, node(i.Zone, i.ID))
		}
	}
	return nodes
}

func node(zone, instance string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + instance},
		Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///%s/%s", zone, instance)},
	}
}

// wantOutcome checks the outcome of an error, and that its text contains the words.
func (s *site) wantOutcome(err error, want nodegroup.Outcome, words ...string) {
	s.t.Helper()
	var sorted *cloud.Error
	if !errors.As(err, &sorted) || sorted.Outcome != want {
		s.t.Fatalf("got %v, want %s", err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			s.t.Errorf("got %q, want it to say %q", err, w)
		}
	}
}
