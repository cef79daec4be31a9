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

// ownFormats are the formats that cli-runtime does not have.
var ownFormats = []string{"", "table", "wide", "name", "markdown"}

// usageOfOutput is the usage of --output for a command without formats of its own.
const usageOfOutput = "Output format: table, wide, json, yaml, name, markdown, jsonpath=…, go-template=…"

// checkFormat refuses a format that no one knows, before anything is read. The error names the command's own formats, too.
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

// isForPrograms reports whether stdout carries one document for a program.
func (c console) isForPrograms() bool {
	return !slices.Contains(ownFormats, c.format) || c.format == "name"
}

// isJSONOrYAML reports whether stdout carries a whole document, from which no template takes a part.
func (c console) isJSONOrYAML() bool { return c.format == "json" || c.format == "yaml" }

// printObject writes one value on stdout: names are what -o name prints, table how people read it. Which flags the commands in a
// table lack is noted on stderr.
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
