package manual_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/manual"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// node returns a node with labels in the form KEY=VALUE.
func node(pairs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		n.Labels[key] = value
	}
	return n
}

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func observe(t *testing.T, p *manual.Provider, ref cloud.Ref) nodegroup.Group {
	t.Helper()
	g, err := p.Observe(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGroupNameIsReadFromNodeLabels(t *testing.T) {
	const master, controlPlane = "node-role.kubernetes.io/master=", "node-role.kubernetes.io/control-plane="
	all := []string{
		"karpenter.sh/nodepool=a", "cluster.x-k8s.io/deployment-name=b", "eks.amazonaws.com/nodegroup=c", "alpha.eksctl.io/nodegroup-name=d",
		"cloud.google.com/gke-nodepool=e", "kubernetes.azure.com/agentpool=f", "kops.k8s.io/instancegroup=g", "node.kubernetes.io/instancegroup=h",
	}
	cases := map[string]struct {
		labels       []string
		selector     string
		typed        string
		controlPlane bool
		want         string // empty for no group
	}{
		"no label":                        {labels: []string{"kubernetes.io/hostname=x"}},
		"empty label":                     {labels: []string{"eks.amazonaws.com/nodegroup="}},
		"first":                           {labels: all, want: "karpenter.sh/nodepool=a"},
		"second":                          {labels: all[1:], want: "cluster.x-k8s.io/deployment-name=b"},
		"third":                           {labels: all[2:], want: "c"},
		"fourth":                          {labels: all[3:], want: "d"},
		"fifth":                           {labels: all[4:], want: "e"},
		"sixth":                           {labels: all[5:], want: "f"},
		"seventh":                         {labels: all[6:], want: "g"},
		"eighth":                          {labels: all[7:], want: "h"},
		"control plane":                   {labels: append([]string{controlPlane}, all[6:]...)},
		"control plane, older":            {labels: append([]string{master}, all[6:]...)},
		"control plane, asked for":        {labels: append([]string{controlPlane}, all[6:]...), controlPlane: true, want: "g"},
		"selector":                        {labels: []string{"pool=x", "eks.amazonaws.com/nodegroup=c"}, selector: "pool in (x,y)", want: "pool in (x,y)"},
		"selector in any order":           {labels: []string{"a=1", "b=2"}, selector: "b=2,a=1", want: "a=1,b=2"},
		"selector as it was typed":        {labels: []string{"a=1", "b=2"}, selector: "b=2,a=1", typed: "b=2, a=1", want: "b=2, a=1"},
		"selector that does not match":    {labels: all, selector: "pool=x"},
		"selector for a control plane":    {labels: []string{"pool=x", controlPlane}, selector: "pool=x"},
		"selector for one, asked for":     {labels: []string{"pool=x", controlPlane}, selector: "pool=x", controlPlane: true, want: "pool=x"},
		"selector that matches all nodes": {labels: all[2:], selector: "", want: "c"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := node(c.labels...)
			p := manual.New(manual.Options{Selector: selector(t, c.selector), SelectorText: c.typed, ControlPlane: c.controlPlane})
			groups, err := p.Groups(t.Context(), []*corev1.Node{n, n})
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if len(groups) > 0 {
					t.Errorf("got %+v, want no group", groups)
				}
				return
			}
			if len(groups) != 1 || groups[0].Name != c.want || !p.Belongs(&groups[0], n) {
				t.Errorf("got %+v, want %s, and the node in it", groups, c.want)
			}
			if other := observe(t, manual.New(manual.Options{}), cloud.Ref{Name: "other"}); p.Belongs(&other, n) {
				t.Error("the node belongs to another group as well")
			}
		})
	}
}

func TestGroupsAreSorted(t *testing.T) {
	groups, err := manual.New(manual.Options{}).Groups(t.Context(), []*corev1.Node{
		node("cloud.google.com/gke-nodepool=pool-2"), node("cloud.google.com/gke-nodepool=pool-1"), node(), node("cloud.google.com/gke-nodepool=pool-2"),
	})
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	if err != nil || !slices.Equal(names, []string{"pool-1", "pool-2"}) {
		t.Errorf("got %v, %v", names, err)
	}
}

func TestNodesWithoutCurrentLabelsAreOutdated(t *testing.T) {
	cases := map[string]struct {
		current map[string]string
		labels  []string
		want    bool
	}{
		"all labels":           {map[string]string{"image": "2", "pool": ""}, []string{"image=2", "pool=", "x=y"}, false},
		"another value":        {map[string]string{"image": "2"}, []string{"image=1"}, true},
		"one of two":           {map[string]string{"image": "2", "kernel": "6"}, []string{"image=2"}, true},
		"empty is not absent":  {map[string]string{"image": ""}, nil, true},
		"nobody says the rest": {nil, []string{"image=1"}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := manual.New(manual.Options{Current: c.current})
			g := observe(t, p, cloud.Ref{Name: "g"})
			if got := p.Outdated(&g, node(c.labels...)); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestObserveReturnsLabelledNodesAsGroup(t *testing.T) {
	p := manual.New(manual.Options{Current: map[string]string{"b": "2", "a": "1"}})
	g := observe(t, p, cloud.Ref{Name: "workers"})
	revision := nodegroup.Revision{ID: "a=1,b=2", Name: "a=1,b=2"}
	if g.Name != "workers" || g.Provider != "manual" || g.Kind != "labelled nodes" || g.Wanted != revision || g.Pointed != revision {
		t.Errorf("got %+v", g)
	}
	if g.Can.Resize || g.Can.NameZone || g.Refusal != "" || len(g.Instances) > 0 || len(g.Quiesce) > 0 || g.Observed.IsZero() {
		t.Errorf("got %+v, want a group of no cloud that may be driven", g)
	}
}

func TestGroupsThatCannotBeUpgradedAreRefused(t *testing.T) {
	current := manual.Options{Current: map[string]string{"image": "2"}}
	cases := map[string]struct {
		options manual.Options
		ref     cloud.Ref
		says    string
	}{
		"what is current is unknown": {manual.Options{}, cloud.Ref{Name: "workers"}, "pass --current KEY=VALUE"},
		"Karpenter's":                {current, cloud.Ref{Name: "karpenter.sh/nodepool=default"}, "Karpenter"},
		"Cluster API's":              {current, cloud.Ref{Name: "cluster.x-k8s.io/deployment-name=md-0"}, "MachineDeployment"},
		"target":                     {current, cloud.Ref{Name: "workers", To: "ami-1"}, "--to=ami-1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if g := observe(t, manual.New(c.options), c.ref); !strings.Contains(g.Refusal, c.says) {
				t.Errorf("got %q, want it to say %q", g.Refusal, c.says)
			}
		})
	}
}

func TestObserveOfUnknownGroupsFails(t *testing.T) {
	for name, p := range map[string]*manual.Provider{
		"":      manual.New(manual.Options{}),
		"other": manual.New(manual.Options{Selector: selector(t, "pool=x")}),
	} {
		if _, err := p.Observe(t.Context(), cloud.Ref{Name: name}); !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("group %q: %v", name, err)
		}
	}
}

func TestEveryActionIsUnsupported(t *testing.T) {
	p := manual.New(manual.Options{})
	for _, action := range []nodegroup.Action{
		nodegroup.SetRevision{}, nodegroup.Quiesce{}, nodegroup.Resume{}, nodegroup.RaiseMax{}, nodegroup.LowerMax{}, nodegroup.AddCapacity{}, nodegroup.Terminate{Instance: "i-1"},
	} {
		var sorted *cloud.Error
		if err := p.Do(t.Context(), "workers", action); !errors.As(err, &sorted) || sorted.Outcome != nodegroup.OutcomeFatal {
			t.Errorf("%s: got %v, want it fatal", action, err)
		}
	}
	if account, err := p.Account(t.Context()); err != nil || account != "" || p.Name() != "manual" {
		t.Errorf("%s: account %q, %v", p.Name(), account, err)
	}
}
