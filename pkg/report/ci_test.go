package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// reportsForCI returns reports of a group with findings of each severity, a group without findings, and a
// group that could not be checked.
func reportsForCI() []CheckReport {
	found := CheckReport{Context: "prod eu", Nodes: 3, Outdated: new(2), Findings: []preflight.Finding{
		{Rule: "PDB001", Severity: preflight.Block, Workload: "Deployment shop/cart", Object: "pod shop/cart-0", Message: "PDB shop/cart can never allow a disruption", Remedy: "run 4 replicas"},
		{Rule: "TSC004", Severity: preflight.Warn, Workload: "Deployment shop/web", Message: "<script>&\x1b[2J"},
		{Rule: "PDB001", Severity: preflight.Block, Workload: "Deployment shop/api", Message: "it needs every pod", Skipped: "it is scaled up on Sunday"},
		{Rule: "LB001", Severity: preflight.Unknown, Message: "you may not list ingresses"},
		{Rule: "TERM004", Severity: preflight.Note, Message: "its delay is not known"},
	}}
	found.Name = "workers"
	none := CheckReport{Nodes: 1, Outdated: new(1)}
	none.Name = "idle"
	unknown := CheckReport{Nodes: 1, Unknown: "pass --current KEY=VALUE"}
	unknown.Name = "unknown"
	return []CheckReport{found, none, unknown}
}

func TestSARIFResultsNameRulesOfCatalogue(t *testing.T) {
	var got bytes.Buffer
	if err := WriteSARIF(&got, reportsForCI(), "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	var log sarifLog
	if err := json.Unmarshal(got.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	if len(run.Tool.Driver.Rules) != len(preflight.Catalogue()) {
		t.Errorf("%d rules", len(run.Tool.Driver.Rules))
	}
	for _, r := range run.Results {
		if r.Index >= 0 && run.Tool.Driver.Rules[r.Index].ID != r.Rule {
			t.Errorf("%s has rule index %d, which is rule %s", r.Rule, r.Index, run.Tool.Driver.Rules[r.Index].ID)
		}
	}
	run.Tool.Driver.Rules = nil // docs/internals/rules.md lists the rules
	for i := range run.Results {
		run.Results[i].Index = 0
	}
	text, err := json.MarshalIndent(run.Results, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, filepath.Join("testdata", "check-sarif.golden"), append(text, '\n'))
}

// A colon in the first segment would make the name a URI with a scheme (RFC 3986, 4.2).
func TestURIOfAFileIsRelative(t *testing.T) {
	for text, want := range map[string]string{
		"dump:1.json": "./dump:1.json", "dump.json": "dump.json", "prod eu": "prod%20eu", "a/dump:1.json": "a/dump:1.json", "./dump:1.json": "./dump:1.json",
		"/tmp/dump:1.json": "/tmp/dump:1.json", "arn:aws:eks:eu-west-1:1:cluster/shop": "./arn:aws:eks:eu-west-1:1:cluster/shop", ":": "./:",
	} {
		if got := escapeURI(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// A test fails from the requested severity on. A finding that is skipped or could not be checked is a skipped
// test.
func TestJUnitFailsTestsFromRequestedSeverityOn(t *testing.T) {
	for least, want := range map[preflight.Severity][4]int{preflight.Error: {1, 0, 2, 0}, preflight.Warn: {2, 0, 2, 0}, preflight.Note: {3, 0, 2, 0}, "": {0, 0, 2, 0}} {
		var got bytes.Buffer
		fails := func(f *preflight.Finding) bool { return least != "" && f.Severity.IsAtLeast(least) }
		if err := WriteJUnit(&got, reportsForCI(), fails); err != nil {
			t.Fatal(err)
		}
		var all junitSuites
		if err := xml.Unmarshal(got.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
		rules := len(preflight.Catalogue())
		first, second, third := all.Suites[0], all.Suites[1], all.Suites[2]
		if got := [4]int{first.Failures, first.Errors, first.Skipped, 0}; got != want || first.Tests != len(first.Cases) || first.Tests != 5+rules-4 {
			t.Errorf("from %q on: failures, errors and skipped are %v of %d, want %v of %d", least, got, first.Tests, want, 5+rules-4)
		}
		if second.Tests != rules || second.Failures+second.Errors+second.Skipped != 0 {
			t.Errorf("a group without findings: %d tests, %d failures", second.Tests, second.Failures)
		}
		if third.Errors != 1 || third.Tests != 1 || third.Cases[0].Error == nil {
			t.Errorf("a group that was not checked: %+v", third)
		}
		if strings.ContainsAny(got.String(), "\x1b") || strings.Contains(got.String(), "<script>") {
			t.Error("a text was not escaped")
		}
	}
}
