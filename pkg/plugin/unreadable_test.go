package plugin

import (
	"maps"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestUnreadableNodeAnnotationsAreReported checks that a node with an unreadable mark is named before anything is changed, and in
// a status.
func TestUnreadableNodeAnnotationsAreReported(t *testing.T) {
	for _, key := range []string{nodemark.AnnotationNodeBaseline, nodemark.AnnotationOwner, nodemark.AnnotationGroupBaseline, nodemark.AnnotationDeadline} {
		for _, args := range []string{"blue --yes", "blue --dry-run", "status blue"} {
			t.Run(key+" "+args, func(t *testing.T) {
				s := twoGroups()
				for i := range s.nodes {
					if s.nodes[i].Name == "b1" {
						s.nodes[i].Annotations = map[string]string{key: "{"}
					}
				}
				s.serve(t)
				stdout, stderr, code := invoke(t, append(strings.Fields(args), "--current=image=v2")...)
				if said := stdout + stderr; !strings.Contains(said, "annotation "+key+" of node") || !strings.Contains(said, "kubectl annotate node b1 "+key+"-") {
					t.Errorf("exit code %d, it said %q", code, said)
				}
				if refused := code != exitDone; refused == strings.HasPrefix(args, "status") || len(s.sentRequests()) > 0 {
					t.Errorf("exit code %d, it sent %q", code, s.sentRequests())
				}
			})
		}
	}
}

// TestUnreadableRecordsAreReported checks that the error for an unreadable record has the command that deletes it. The
// same is checked for an unreadable request.
func TestUnreadableRecordsAreReported(t *testing.T) {
	name := cluster.ObjectName("blue")
	forget := "run kubectl delete configmap -n kube-system " + name + " to forget that upgrade"
	cases := map[string]struct {
		change func(*record.Record)
		text   map[string]string
		args   string
		says   []string
	}{
		"no JSON":             {nil, map[string]string{"record": "{"}, "blue --yes", []string{"unexpected end of JSON input", forget}},
		"an unknown strategy": {func(r *record.Record) { r.Request.Strategy = "hope" }, nil, "blue --yes", []string{`its strategy "hope" is unknown`, forget}},
		"an unknown phase":    {func(r *record.Record) { r.Phase = "limbo" }, nil, "resume blue", []string{`its phase "limbo" is unknown`, forget}},
		"an unknown state": {
			func(r *record.Record) { r.Nodes["b1"] = record.NodeRecord{UID: "b1", State: "Lost"} }, nil, "abort blue",
			[]string{`the state "Lost" of node "b1" is unknown`, forget},
		},
		"a request that is no JSON": {nil, map[string]string{"request": "{"}, "status blue", []string{
			"the request in ConfigMap kube-system/" + name + " cannot be read",
			`kubectl patch configmap -n kube-system --type=json -p '[{"op":"remove","path":"/data/request"}]' ` + name,
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			record := inDrain()
			if c.change != nil {
				c.change(&record)
			}
			s.storeRecord(t, "blue", record)
			maps.Copy(s.maps[0].Data, c.text)
			s.withLeases("blue")
			s.serve(t)
			args := strings.Fields(c.args)
			if args[0] == "blue" || args[0] == "status" {
				args = append(args, "--current=image=v2")
			}
			stdout, stderr, code := invoke(t, args...)
			for _, part := range c.says {
				if !strings.Contains(stdout+stderr, part) {
					t.Errorf("exit code %d, stdout %q, stderr %q do not say %q", code, stdout, stderr, part)
				}
			}
			if len(s.sentRequests()) > 0 {
				t.Errorf("requests were sent: %q", s.sentRequests())
			}
		})
	}
}
