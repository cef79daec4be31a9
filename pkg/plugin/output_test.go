package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

func sampleList() *report.NodeGroupList {
	list := &report.NodeGroupList{Items: make([]report.NodeGroup, 2)}
	list.TypeMeta, _ = report.NewMeta("NodeGroupList", "")
	for i, name := range []string{"blue", "green"} {
		list.Items[i].TypeMeta, list.Items[i].ObjectMeta = report.NewMeta("NodeGroup", name)
	}
	return list
}

// printSampleList returns the list in a format. In place of a table it returns the table's options.
func printSampleList(t *testing.T, format string) string {
	t.Helper()
	var w bytes.Buffer
	if err := checkFormat(format); err != nil {
		t.Fatal(err)
	}
	c := console{IOStreams: genericiooptions.IOStreams{Out: &w}, format: format}
	err := c.printObject(sampleList(), []string{"nodegroup/blue", "nodegroup/green"}, func(w io.Writer, ro report.Options) error {
		if ro.Now.IsZero() {
			t.Error("ages would be counted to nothing")
		}
		return json.NewEncoder(w).Encode(map[string]any{"wide": ro.Wide, "markdown": ro.Style == report.Markdown})
	})
	if err != nil {
		t.Fatal(err)
	}
	return w.String()
}

func TestListIsPrintedInRequestedFormat(t *testing.T) {
	table := func(wide, markdown string) string { return `{"markdown":` + markdown + `,"wide":` + wide + "}\n" }
	cases := map[string]struct{ format, want string }{
		"nothing said":     {"", table("false", "false")},
		"table":            {"table", table("false", "false")},
		"wide":             {"wide", table("true", "false")},
		"markdown":         {"markdown", table("false", "true")},
		"name":             {"name", "nodegroup/blue\nnodegroup/green\n"},
		"jsonpath":         {"jsonpath={.items[*].metadata.name}", "blue green\n"},
		"go-template":      {"go-template={{range .items}}{{.metadata.name}},{{end}}", "blue,green,\n"},
		"jsonpath-as-json": {"jsonpath-as-json={.items[*].metadata.name}", "[\n    \"blue\",\n    \"green\"\n]\n\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := printSampleList(t, c.format); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestEachFormatPrintsWholeDocuments(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		text := []byte(printSampleList(t, format))
		if format == "yaml" {
			var err error
			if text, err = yaml.YAMLToJSONStrict(text); err != nil {
				t.Fatal(err)
			}
		}
		var list report.NodeGroupList
		decodeOneDocument(t, string(text), &list)
		if list.Kind != "NodeGroupList" || list.APIVersion != report.APIVersion || len(list.Items) != 2 || list.Items[1].TypeMeta.Kind != "NodeGroup" || list.Items[1].Name != "green" {
			t.Errorf("%s: got %+v", format, list)
		}
	}
}

// decodeOneDocument decodes the text and checks that it is one JSON document.
func decodeOneDocument(t *testing.T, text string, into any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v: in %q", err, text)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Errorf("there is more than one document in %q", text)
	}
}

func TestFormatsExceptTablesAreForPrograms(t *testing.T) {
	cases := map[string]bool{"": false, "table": false, "wide": false, "markdown": false, "name": true, "json": true, "yaml": true, "jsonpath={.kind}": true}
	for format, want := range cases {
		if got := (console{format: format}).isForPrograms(); got != want {
			t.Errorf("%q: got %t, want %t", format, got, want)
		}
	}
}

func TestOnePlanIsPrintedAsObjectSeveralAsList(t *testing.T) {
	plan := func(name string) report.Plan {
		p := report.Plan{Nodes: []report.PlanNode{}}
		p.TypeMeta, p.ObjectMeta = report.NewMeta("Plan", name)
		return p
	}
	cases := map[string]struct {
		asksForOne bool
		plans      []report.Plan
		kind       string
		items      int
	}{
		"one":                 {true, []report.Plan{plan("blue")}, "Plan", 0},
		"two":                 {false, []report.Plan{plan("blue"), plan("green")}, "PlanList", 2},
		"one of perhaps more": {false, []report.Plan{plan("blue")}, "PlanList", 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			programs := console{IOStreams: streams, format: "json"}
			list := &report.PlanList{Items: c.plans}
			list.TypeMeta, _ = report.NewMeta("PlanList", "")
			if err := programs.printPlans(c.asksForOne, list.Items...); err != nil {
				t.Fatal(err)
			}
			var got struct {
				Kind  string          `json:"kind"`
				Nodes json.RawMessage `json:"nodes"`
				Items []report.Plan   `json:"items"`
			}
			decodeOneDocument(t, out.String(), &got)
			if got.Kind != c.kind || len(got.Items) != c.items || (got.Kind == "Plan" && string(got.Nodes) != "[]") {
				t.Errorf("got %s", out)
			}
		})
	}
}

func TestBlankLineSeparatesPlansInTables(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	list := &report.PlanList{Items: make([]report.Plan, 2)}
	list.Items[0].Name, list.Items[1].Name = "blue", "green"
	if err := (console{IOStreams: streams}).printPlans(false, list.Items...); err != nil {
		t.Fatal(err)
	}
	blue, green, ok := strings.Cut(out.String(), "\n\n")
	if !ok || !strings.Contains(blue, "Group       blue") || !strings.Contains(green, "Group       green") {
		t.Errorf("got %q, want two plans with a blank line between them", out)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestPrintingReturnsWriteErrors(t *testing.T) {
	for _, format := range []string{"name", "json", "yaml", "jsonpath={.kind}"} {
		c := console{IOStreams: genericiooptions.IOStreams{Out: fullDisk{}}, format: format}
		err := c.printObject(sampleList(), []string{"x"}, nil)
		if err == nil || !strings.Contains(err.Error(), io.ErrShortWrite.Error()) {
			t.Errorf("%s: got error %v", format, err)
		}
	}
}

// TestFormatsPrintAsKubectl compares the formats' output with that of kubectl's printers.
func TestFormatsPrintAsKubectl(t *testing.T) {
	file := filepath.Join(t.TempDir(), "template")
	if err := os.WriteFile(file, []byte(`{{.metadata.name}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "path")
	if err := os.WriteFile(path, []byte(`{.metadata.name}`), 0o600); err != nil {
		t.Fatal(err)
	}
	status := &report.UpgradeStatus{Run: "r1"}
	status.TypeMeta, status.ObjectMeta = report.NewMeta("UpgradeStatus", "blue")
	formats := []string{
		"json", "yaml", "kyaml", "jsonpath={.run}", "jsonpath-as-json={.run}", "jsonpath-file=" + path, "go-template={{.run}} {{len .metadata.name}}",
		"template={{range $k, $v := .metadata}}{{$k}}={{$v}} {{end}}", "go-template-file=" + file, "templatefile=" + file,
		`go-template={{exists . "metadata" "name"}} {{exists . "no" "such"}} {{base64decode "aGk="}}`, "go-template={{.nothing}}",
	}
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			var mine, theirs strings.Builder
			printer, err := choosePrinter(format)
			if err != nil {
				t.Fatal(err)
			}
			kubectl, err := genericclioptions.NewPrintFlags("").WithDefaultOutput(format).ToPrinter()
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(printer.PrintObj(status, &mine), kubectl.PrintObj(status, &theirs)); err != nil {
				t.Fatal(err)
			}
			if mine.String() != theirs.String() {
				t.Errorf("got  %q\nwant %q", mine.String(), theirs.String())
			}
		})
	}
	for _, format := range []string{"xml", "go-template=", "go-template={{", "go-template-file=/no/such/file", "jsonpath={"} {
		if _, err := choosePrinter(format); err == nil {
			t.Errorf("%s is accepted", format)
		}
	}
}

// TestNoteAfterTableNamesFlagsThatItsCommandsLack: the note is on stderr. There is none if stdout has a document for
// programs.
func TestNoteAfterTableNamesFlagsThatItsCommandsLack(t *testing.T) {
	for format, want := range map[string]string{"": "note: add --context=prod to the commands above that do not have it\n", "markdown": "note: add --context=prod to the commands above that do not have it\n", "name": "", "json": ""} {
		var out, errOut bytes.Buffer
		c := console{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, format: format, clusterFlags: []string{"--context=prod"}}
		err := c.printObject(sampleList(), []string{"x"}, func(w io.Writer, _ report.Options) error {
			return writeLines(w, []string{"Leftover    node n1 is fenced: kubectl uncordon n1"})
		})
		if err != nil || errOut.String() != want {
			t.Errorf("%q: error %v, stderr %q, want %q", format, err, &errOut, want)
		}
	}
}

// TestFailurePrintsErrorDocument checks that a failed command prints a document with its error in JSON and YAML. A rejected
// command line prints none.
func TestFailurePrintsErrorDocument(t *testing.T) {
	kubeconfig(t, nowhere)
	for _, args := range []string{"", "workers --dry-run", "workers --yes", "status workers", "check workers", "abort workers --yes", "pause workers", "list", "plan workers", "upgrade workers --yes"} {
		stdout, stderr, code := invoke(t, append(strings.Fields(args), "-o", "json")...)
		var got report.Failure
		decodeOneDocument(t, stdout, &got)
		if got.Kind != "Error" || got.ExitCode != code || code != exitError || "error: "+got.Error+"\n" != stderr {
			t.Errorf("%s: exit code %d, stderr %q, and\n%s", args, code, stderr, stdout)
		}
	}
	for args, want := range map[string]int{"-o name": exitError, "-o jsonpath={.run}": exitError, "--outdated workers -o json": exitUsage} {
		if stdout, _, code := invoke(t, strings.Fields(args)...); code != want || stdout != "" {
			t.Errorf("%s: exit code %d, want %d, and stdout %q", args, code, want, stdout)
		}
	}
}

// TestUpgradesOfSeveralGroupsPrintOneDocument checks that the list has all groups that were begun, with the error of
// the last.
func TestUpgradesOfSeveralGroupsPrintOneDocument(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	c := console{IOStreams: streams, format: "json", groupStatuses: &[]report.UpgradeStatus{}}
	if err := c.printDone("blue", record.Record{Run: "r1", Phase: record.PhaseDone, Result: record.Succeeded}); err != nil {
		t.Fatal(err)
	}
	c.addFailedStatus("blue", errors.New("a second time"))
	c.addFailedStatus("green", errors.New("the cloud does not answer"))
	gathered := *c.groupStatuses
	c.groupStatuses = nil
	if err := printAll(c, "UpgradeStatusList", false, gathered, report.WriteStatus); err != nil {
		t.Fatal(err)
	}
	if err := contract.Validate(out.String()); err != nil {
		t.Error(err)
	}
	if strings.Contains(out.String(), `"desired"`) || strings.Contains(out.String(), `"newReady"`) {
		t.Errorf("the record does not show the group's numbers, and the document has them:\n%s", out)
	}
	var got report.List[report.UpgradeStatus]
	decodeOneDocument(t, out.String(), &got)
	if len(got.Items) != 2 || got.Items[0].Result != record.Succeeded || got.Items[1].Name != "green" || got.Items[1].Message != "the cloud does not answer" {
		t.Errorf("got %s", out)
	}
}
