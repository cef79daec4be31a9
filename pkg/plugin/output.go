package plugin

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// ownFormats are the formats that this program prints without cli-runtime.
var ownFormats = []string{"", "table", "wide", "name", "markdown"}

// usageOfOutput is the usage of --output for commands without formats of their own.
const usageOfOutput = "Output format: table, wide, json, yaml, name, markdown, jsonpath=…, go-template=…"

// checkFormat returns an error for an unknown format. own are the command's own formats, which the error lists, too.
func checkFormat(format string, own ...string) error {
	if slices.Contains(ownFormats, format) {
		return nil
	}
	_, err := choosePrinter(format)
	if errors.Is(err, errUnknownFormat) {
		known := slices.Concat([]string{"table", "wide", "json", "yaml", "name", "markdown", "jsonpath=…", "go-template=…"}, own)
		return fmt.Errorf("--output=%s is not known: use %s", format, joinAlternatives(known))
	}
	return err
}

// isForPrograms reports whether stdout has output for programs instead of people.
func (c console) isForPrograms() bool {
	return !slices.Contains(ownFormats, c.format) || c.format == "name"
}

// isJSONOrYAML reports whether stdout has a whole document, as opposed to the parts that a template selects.
func (c console) isJSONOrYAML() bool { return c.format == "json" || c.format == "yaml" }

// printObject prints one object on stdout. names is the output of -o name. table prints the object for people. If
// commands in the table lack flags that are needed to reach the same cluster, a note on stderr names the flags.
func (c console) printObject(object runtime.Object, names []string, table func(io.Writer, report.Options) error) error {
	options := c.optionsFor(c.Out)
	switch c.format {
	case "name":
		return writeLines(c.Out, names)
	case "markdown":
		options.Style = report.Markdown
		return c.printTable(table, options)
	case "", "table", "wide":
		return c.printTable(table, options)
	}
	printer, err := choosePrinter(c.format)
	if err != nil {
		return err
	}
	if c.printed != nil {
		*c.printed = true
	}
	if err := printer.PrintObj(report.KebabCaseValues(object), c.Out); err != nil {
		return err
	}
	if strings.HasPrefix(c.format, "jsonpath") || strings.HasPrefix(c.format, "go-template") {
		return writeLines(c.Out, []string{""})
	}
	return nil
}

func (c console) printTable(table func(io.Writer, report.Options) error, options report.Options) error {
	if err := table(c.Out, options); err != nil {
		return err
	}
	if len(c.clusterFlags) == 0 {
		return nil
	}
	var text strings.Builder
	if err := table(&text, report.Options{Now: options.Now, Wide: options.Wide, Style: options.Style}); err != nil {
		return err
	}
	if note := noteMissingFlags(text.String(), c.clusterFlags); note != "" {
		return c.writeNotes([]string{note})
	}
	return nil
}

func writeLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
