package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// The elements of JUnit XML that CI systems read.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Failure *junitReason `xml:"failure"`
		Error   *junitReason `xml:"error"`
		Skipped *junitReason `xml:"skipped"`
		Out     string       `xml:"system-out,omitempty"`
	}
	junitReason struct {
		Type    string `xml:"type,attr,omitempty"`
		Message string `xml:"message,attr"`
	}
)

// WriteJUnit writes each report as a test suite. The suite has a test for each finding, and a passing test for
// each rule without findings. fails reports whether a finding fails its test. A test is skipped if an
// annotation skips the finding or if the rule could not be checked. WriteJUnit returns the writer's error.
func WriteJUnit(w io.Writer, reports []CheckReport, fails func(*preflight.Finding) bool) error {
	var all junitSuites
	for i := range reports {
		all.Suites = append(all.Suites, makeSuite(&reports[i], fails))
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the findings as JUnit: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

// makeSuite returns a report as a test suite.
func makeSuite(r *CheckReport, fails func(*preflight.Finding) bool) junitSuite {
	s := junitSuite{Name: r.Name}
	if r.Outdated == nil {
		s.add(junitCase{Class: r.Name, Name: "which nodes are outdated", Error: &junitReason{Message: "nothing was checked: " + r.Unknown}})
		return s
	}
	found := map[string]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		found[f.Rule] = true
		c := junitCase{Class: cmp.Or(f.Workload, r.Name), Name: f.Rule + withPrefix(" ", f.Object)}
		reason := &junitReason{Type: string(f.Severity), Message: describeFinding(f)}
		switch {
		case f.Skipped != "" || f.Severity == preflight.Unknown:
			c.Skipped = reason
		case fails(f):
			c.Failure = reason
		default:
			c.Out = string(f.Severity) + ": " + reason.Message
		}
		s.add(c)
	}
	for _, rule := range preflight.Catalogue() {
		if !found[rule.ID] {
			s.add(junitCase{Class: r.Name, Name: rule.ID})
		}
	}
	return s
}

// add adds a test and updates the counts.
func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}
