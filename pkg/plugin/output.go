package plugin

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// output is -o: a table of ours, or whatever cli-runtime's printers know.
type output struct {
	format string
}

// ours are the formats that cli-runtime does not have.
var ours = []string{"", "table", "wide", "name", "markdown"}

// checkFormat refuses a format that no one knows, before anything is read.
func (o *output) checkFormat() error {
	if slices.Contains(ours, o.format) {
		return nil
	}
	_, err := choosePrinter(o.format)
	var unknown genericclioptions.NoCompatiblePrinterError
	if errors.As(err, &unknown) {
		return fmt.Errorf("--output=%s is not known: use table, wide, json, yaml, name, markdown, jsonpath=… or go-template=…", o.format)
	}
	return err
}

// isForPrograms reports whether stdout carries one document for a program.
func (o *output) isForPrograms() bool { return !slices.Contains(ours, o.format) || o.format == "name" }

// printValue writes one value: names are what -o name prints, table how people read it.
func (o *output) printValue(w io.Writer, object runtime.Object, names []string, table func(report.Options) error) error {
	options := report.Options{Now: time.Now(), Wide: o.format == "wide"}
	switch o.format {
	case "name":
		return writeLines(w, names)
	case "markdown":
		options.Style = report.Markdown
		return table(options)
	case "", "table", "wide":
		return table(options)
	}
	printer, err := choosePrinter(o.format)
	if err != nil {
		return err
	}
	if err := printer.PrintObj(object, w); err != nil {
		return err
	}
	if strings.HasPrefix(o.format, "jsonpath") || strings.HasPrefix(o.format, "go-template") {
		return writeLines(w, []string{""})
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
