package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// The parts of a SARIF 2.1.0 log that findings need (OASIS, Static Analysis Results Interchange Format). Code
// scanning requires a physical location for each result. It is the checked context or dump.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID            string      `json:"id"`
		Text          sarifText   `json:"shortDescription"`
		Help          sarifText   `json:"help"`
		Configuration sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		Rule         string             `json:"ruleId"`
		Index        int                `json:"ruleIndex"`
		Kind         string             `json:"kind"`
		Level        string             `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
)

// WriteSARIF writes the findings of all reports as one SARIF log for code scanning. version is the version of
// this tool. It returns the writer's error.
func WriteSARIF(w io.Writer, reports []CheckReport, version string) error {
	run := sarifRun{Results: []sarifResult{}, Tool: sarifTool{Driver: sarifDriver{Name: "kubectl-nodeupgrade", Version: version}}}
	places := map[string]int{}
	for _, rule := range preflight.Catalogue() {
		places[rule.ID] = len(run.Tool.Driver.Rules)
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: rule.ID, Text: sarifText{rule.Text}, Help: sarifText{"Source: " + rule.Source}, Configuration: sarifConfig{sarifLevel(rule.Severity)},
		})
	}
	for i := range reports {
		r := &reports[i]
		if r.Outdated == nil {
			run.Results = append(run.Results, newSARIFResult(r, &preflight.Finding{
				Rule: "NG002", Severity: preflight.Refuse, Object: "group", Message: "nothing was checked: " + r.Unknown,
			}, places))
		}
		for j := range r.Findings {
			run.Results = append(run.Results, newSARIFResult(r, &r.Findings[j], places))
		}
	}
	text, err := json.MarshalIndent(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the findings as SARIF: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// newSARIFResult returns a finding as a SARIF result. places has the index of each rule.
func newSARIFResult(r *CheckReport, f *preflight.Finding, places map[string]int) sarifResult {
	index, known := places[f.Rule]
	if !known {
		index = -1
	}
	result := sarifResult{Rule: f.Rule, Index: index, Kind: "fail", Level: sarifLevel(f.Severity), Message: sarifText{describeFinding(f)}, Locations: []sarifLocation{{
		Physical: sarifPhysical{sarifArtifact{escapeURI(cmp.Or(r.Context, "cluster"))}},
		Logical:  []sarifLogical{{Name: r.Name + "/" + cmp.Or(f.Object, f.Workload, f.Node, "group"), Kind: "resource"}},
	}}}
	if f.Severity == preflight.Unknown { // the rule could not be checked
		result.Kind, result.Level = "open", "none"
	}
	if f.Skipped != "" {
		result.Suppressions = []sarifSuppression{{Kind: "external", Justification: f.Skipped}}
	}
	return result
}

// escapeURI returns a text as a relative reference to a file. If the first segment has a colon, it adds "./"
// in front, because the segment would otherwise be read as a scheme (RFC 3986, 4.2).
func escapeURI(text string) string {
	var uri strings.Builder
	if first, _, _ := strings.Cut(text, "/"); strings.Contains(first, ":") {
		uri.WriteString("./")
	}
	for _, b := range []byte(text) {
		if 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("-._~/:", b) >= 0 {
			uri.WriteByte(b)
		} else {
			fmt.Fprintf(&uri, "%%%02X", b)
		}
	}
	return uri.String()
}

// sarifLevel returns the SARIF level of a severity.
func sarifLevel(s preflight.Severity) string {
	switch s {
	case preflight.Refuse, preflight.Block, preflight.Error:
		return "error"
	case preflight.Warn:
		return "warning"
	default:
		return "note"
	}
}
