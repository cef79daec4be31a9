package plugin

import (
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// ownedNodes returns a cluster with a node of Fargate, one of Cluster API and one of a group without an owner.
func ownedNodes() *apiServer {
	fargate, machine, plain := build.Node("fargate-ip-10-0-0-1", "a"), build.Node("m1", "a"), build.Node("p1", "a")
	machine.Annotations = map[string]string{"cluster.x-k8s.io/owner-kind": "MachineSet", "cluster.x-k8s.io/owner-name": "md-0-5c8fx"}
	plain.Labels["kops.k8s.io/instancegroup"] = "blue"
	s := &apiServer{}
	s.nodes = append(s.nodes, *fargate, *machine, *plain)
	for i := range s.nodes {
		s.nodes[i].Labels["image"] = "v1"
	}
	return s
}

// TestCommandsNameOwnersOfNodes checks that lists, plans and checks name the owners of nodes, and do not suggest labels
// that would not help.
func TestCommandsNameOwnersOfNodes(t *testing.T) {
	const capi, fargate = "cluster.x-k8s.io/owner-name=md-0-5c8fx", "eks.amazonaws.com/compute-type=fargate"
	cases := map[string]struct {
		args          []string
		code          int
		says, without []string
	}{
		"the list": {
			args:    []string{"-o", "wide"},
			says:    []string{capi, "Cluster API machines", "Cluster API replaces this node itself", fargate, "Fargate nodes", "It is unknown which nodes of blue are outdated"},
			without: []string{"of blue, " + capi},
		},
		"a plan, nobody says":    {args: []string{capi, "--dry-run"}, code: exitStructural, says: []string{"(Cluster API machines)", "Refused     node m1: Cluster API replaces this node itself"}, without: []string{"--current"}},
		"a plan":                 {args: []string{capi, "--dry-run", "--current=image=v2"}, code: exitStructural, says: []string{"Refused     node m1: Cluster API replaces this node itself"}, without: []string{"Takes", "Strategy "}},
		"a plan of chosen nodes": {args: []string{"-l", "image=v1", "--dry-run", "--current=image=v2"}, code: exitStructural, says: []string{"Refused     node fargate-ip-10-0-0-1: Fargate created this node"}},
		"a check, nobody says":   {args: []string{"check", fargate}, code: exitStructural, says: []string{"Nothing was checked: node fargate-ip-10-0-0-1: Fargate created this node"}, without: []string{"--current"}},
		"a check":                {args: []string{"check", fargate, "--all-nodes"}, code: exitStructural, says: []string{"NG001", "Fargate created this node for one pod"}},
		"a status":               {args: []string{"status", capi}, says: []string{"unknown which nodes are outdated: node m1: Cluster API replaces this node itself"}, without: []string{"--current", "0 outdated"}},
		"a status for programs":  {args: []string{"status", capi, "-o", "json"}, says: []string{`"unknown": "node m1: Cluster API replaces this node itself`}, without: []string{`"outdated"`}},
		"an upgrade":             {args: []string{capi, "--yes", "--current=image=v2"}, code: exitError, says: []string{"node m1: Cluster API replaces this node itself"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := ownedNodes()
			s.serve(t)
			stdout, stderr, code := invoke(t, c.args...)
			for _, text := range c.says {
				if !strings.Contains(stdout+stderr, text) {
					t.Errorf("the output lacks %q:\n%s%s", text, stdout, stderr)
				}
			}
			for _, text := range c.without {
				if strings.Contains(stdout+stderr, text) {
					t.Errorf("the output contains %q:\n%s%s", text, stdout, stderr)
				}
			}
			if code != c.code || len(s.sentRequests()) > 0 {
				t.Errorf("exit code %d, want %d; sent %q", code, c.code, s.sentRequests())
			}
		})
	}
}

// TestGKEPoolsWithoutCredentials: without credentials a list takes the pools from labels and says why, and other commands name the
// remedy. With --current or --provider=manual the nodes are upgraded by their labels, and GKE is not asked.
func TestGKEPoolsWithoutCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"the list":                   {nil, 0, []string{"pool-1", "warning: groups are taken from labels: finding credentials for the GKE API", "It is unknown which nodes of pool-1 are outdated"}},
		"a plan":                     {[]string{"pool-1", "--dry-run"}, exitError, []string{"finding credentials for the GKE API: the file of GOOGLE_APPLICATION_CREDENTIALS cannot be used", "or use node labels with --provider=manual"}},
		"a plan, by labels":          {[]string{"pool-1", "--dry-run", "--current=image=v2"}, 0, []string{"1 of 1 node is outdated"}},
		"labels that nobody named":   {[]string{"pool-1", "--dry-run", "--provider=manual"}, exitStructural, []string{"which nodes are current is unknown: pass --current KEY=VALUE"}},
		"GKE's numbers":              {[]string{"pool-1", "--dry-run", "--current=image=v2", "--like=gke"}, exitUsage, []string{"--like=gke adds a node before it drains one, but groups of labelled nodes (provider manual) cannot be made larger: pass --max-unavailable=1"}},
		"a strategy that adds nodes": {[]string{"pool-1", "--dry-run", "--current=image=v2", "--strategy=blue-green"}, exitUsage, []string{"--strategy=blue-green: this tool cannot add nodes to groups of provider manual"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/does/not/exist")
			node := build.Node("gke-c-pool-1-abc", "a")
			node.Labels["cloud.google.com/gke-nodepool"], node.Labels["image"], node.Spec.ProviderID = "pool-1", "v1", "gce://proj/us-central1-a/gke-c-pool-1-abc"
			s := &apiServer{}
			s.nodes = append(s.nodes, *node)
			s.serve(t)
			stdout, stderr, code := invoke(t, c.args...)
			for _, text := range c.says {
				if !strings.Contains(stdout+stderr, text) {
					t.Errorf("the output lacks %q:\n%s%s", text, stdout, stderr)
				}
			}
			if code != c.code || len(s.sentRequests()) > 0 {
				t.Errorf("exit code %d, want %d; sent %q", code, c.code, s.sentRequests())
			}
		})
	}
}
