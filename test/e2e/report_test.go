package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

// checkReport compares the page from --report with the output of the same upgrade: the document on stdout and the events.
func checkReport(t *testing.T, file string, c *command) {
	t.Helper()
	var ended report.UpgradeStatus
	if err := json.Unmarshal([]byte(c.out.String()), &ended); err != nil {
		t.Fatalf("%s printed no document: %v", c.what, err)
	}
	page := readPage(t, file)
	nodes, evictions := c.finalStates(), 0
	for i := range ended.Impacts {
		evictions += ended.Impacts[i].Evictions
	}
	facts := map[string]string{
		"Nodes": fmt.Sprintf("%d of %d nodes replaced", len(nodes), len(nodes)), "Evictions": fmt.Sprint(evictions), "Run": ended.Run,
		"Nodes at the peak": fmt.Sprint(c.largestDesired()), "Target": ended.Target.Name,
	}
	for name, want := range facts {
		if got := page.facts[name]; got != want {
			t.Errorf("the page says %s: %q, want %q", name, got, want)
		}
	}
	r := &page.data
	if r.Result != ended.Result || r.Run != ended.Run || !r.Started.Equal(ended.Started) || !slices.Equal(r.Workloads, ended.Impacts) {
		t.Errorf("the report has run %s (%s, from %s) and the impacts %v; the document has run %s (%s, from %s) and %v",
			r.Run, r.Result, r.Started, r.Workloads, ended.Run, ended.Result, ended.Started, ended.Impacts)
	}
	page.checkNodes(t, nodes)
	for _, e := range c.nodeEvents() {
		if !slices.ContainsFunc(r.Log, func(l report.LogLine) bool { return l.Node == e.Node && l.State == e.State && !l.At.After(e.Time) }) {
			t.Errorf("the log lacks the event %+v", e)
		}
	}
}

// checkNodes compares the nodes of the page with their last states in the events.
func (page *reportPage) checkNodes(t *testing.T, nodes map[string]string) {
	t.Helper()
	r := &page.data
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if nodes[n.Name] != string(n.State) || len(n.States) == 0 {
			t.Errorf("node %s is %q in the report with the states %v, and %q by the events", n.Name, n.State, n.States, nodes[n.Name])
		}
		if !slices.ContainsFunc(page.rows, func(title string) bool {
			return strings.HasPrefix(title, n.Name) && strings.Contains(title, "draining ")
		}) {
			t.Errorf("the timeline has no row for node %s: %q", n.Name, page.rows)
		}
	}
	if len(r.Nodes) != len(nodes) || r.Plan == nil || len(r.Plan.Nodes) != len(nodes) {
		t.Errorf("the report has %d nodes, and by the events %d were drained", len(r.Nodes), len(nodes))
	}
}

// reportFile is the path of a JSON report that a command writes.
type reportFile string

func (s *testCase) newReportFile() reportFile {
	return reportFile(filepath.Join(s.t.TempDir(), "report.json"))
}

func (f reportFile) flag() string { return "--report=" + string(f) }

// check checks that the report is about an upgrade of the group that ended with the wanted result. Then it deletes the report.
func (f reportFile) check(t *testing.T, group string, want record.Result) {
	t.Helper()
	text, err := os.ReadFile(string(f))
	if err != nil {
		t.Fatal(err)
	}
	if err := contract.Validate(string(text)); err != nil {
		t.Error(err)
	}
	var r report.RunReport
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Name != group || string(r.Result) != report.KebabCase(string(want)) || r.About != report.AboutUpgrade || r.Run == "" || r.Ended.IsZero() || len(r.Log) == 0 {
		t.Errorf("the report is about the %s of %s (run %s), which ended as %q at %s, with %d lines; want %s", r.About, r.Name, r.Run, r.Result, r.Ended, len(r.Log), want)
	}
	if err := os.Remove(string(f)); err != nil {
		t.Error(err)
	}
}

// reportPage is the content of an HTML report: its JSON document, the rows of its summary, and the titles of its timeline's rows.
type reportPage struct {
	data  report.RunReport
	facts map[string]string
	rows  []string
}

func readPage(t *testing.T, file string) *reportPage {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	page := &reportPage{facts: map[string]string{}}
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "script":
			if err := contract.Validate(textOf(n)); err != nil {
				t.Error(err)
			}
			if err := json.Unmarshal([]byte(textOf(n)), &page.data); err != nil {
				t.Fatalf("the page's document: %v", err)
			}
		case n.Data == "dt":
			page.facts[textOf(n)] = textOf(n.NextSibling)
		case n.Data == "title" && n.Parent.Data == "g":
			page.rows = append(page.rows, textOf(n))
		}
	}
	return page
}

// textOf returns the text in an element.
func textOf(n *html.Node) string {
	var b strings.Builder
	for below := range n.Descendants() {
		if below.Type == html.TextNode {
			b.WriteString(below.Data)
		}
	}
	return b.String()
}

// nodeEvents returns the events about nodes.
func (c *command) nodeEvents() (found []event) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for _, e := range c.log.events {
		if e.Type == report.NodeEvent {
			found = append(found, e)
		}
	}
	return found
}

// finalStates returns the last state of each node that the command drained, as documents spell it.
func (c *command) finalStates() map[string]string {
	states := map[string]string{}
	for _, e := range c.nodeEvents() {
		if _, known := states[e.Node]; known || e.State == report.KebabCase(string(record.NodeDraining)) {
			states[e.Node] = e.State
		}
	}
	return states
}

// largestDesired returns the largest desired size in the events.
func (c *command) largestDesired() (most int) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for _, e := range c.log.events {
		if e.Counts != nil && e.Counts.Desired != nil {
			most = max(most, *e.Counts.Desired)
		}
	}
	return most
}
