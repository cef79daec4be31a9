package plugin

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
)

// errUnknownFormat is returned by choosePrinter for a format that it does not support.
var errUnknownFormat = errors.New("unknown output format")

// choosePrinter returns a printer for one of kubectl's formats: JSON, YAML, JSONPath or a Go template. It returns
// errUnknownFormat for any other format, and an error for a template that cannot be read or parsed.
//
// cli-runtime's PrintFlags support these formats, too. But they reach text/template, which calls methods by name, and
// Go's plugin package. Because of either, the linker keeps every exported method of every library, and the binary
// becomes two to four times as large. See docs/decisions/0021 and 0050.
func choosePrinter(format string) (printers.ResourcePrinter, error) {
	switch strings.ToLower(format) {
	case "json":
		return &printers.JSONPrinter{}, nil
	case "yaml":
		return &printers.YAMLPrinter{}, nil
	case "kyaml":
		return &printers.KYAMLPrinter{}, nil
	}
	kind, source, _ := strings.Cut(format, "=")
	makers := map[string]func(string) (printers.ResourcePrinter, error){
		"jsonpath": newJSONPathPrinter, "jsonpath-file": newJSONPathPrinter, "jsonpath-as-json": newJSONListPrinter,
		"go-template": newTemplatePrinter, "template": newTemplatePrinter, "go-template-file": newTemplatePrinter, "templatefile": newTemplatePrinter,
	}
	newPrinter, known := makers[kind]
	switch {
	case !known:
		return nil, errUnknownFormat
	case source == "":
		return nil, errors.New("template format specified but no template given")
	case strings.HasSuffix(kind, "file"):
		text, err := os.ReadFile(source)
		if err != nil {
			return nil, fmt.Errorf("reading the template: %w", err)
		}
		source = string(text)
	}
	return newPrinter(source)
}

// newJSONPathPrinter returns cli-runtime's printer. It prints nothing for keys that an object lacks.
func newJSONPathPrinter(source string) (printers.ResourcePrinter, error) {
	printer, err := printers.NewJSONPathPrinter(source)
	if err != nil {
		return nil, fmt.Errorf("parsing the JSONPath %s: %w", source, err)
	}
	printer.AllowMissingKeys(true)
	return printer, nil
}

// newJSONListPrinter returns a printer that prints the results of the JSONPath as a JSON list.
func newJSONListPrinter(source string) (printers.ResourcePrinter, error) {
	printer, err := newJSONPathPrinter(source)
	if err == nil {
		printer.(*printers.JSONPathPrinter).EnableJSONOutput(true)
	}
	return printer, err
}

// templatePrinter prints objects with a Go template that calls no methods.
type templatePrinter struct{ template *template.Template }

func newTemplatePrinter(source string) (printers.ResourcePrinter, error) {
	parsed, err := template.New("output").Funcs(template.FuncMap{"exists": templateExists, "base64decode": decodeBase64}).Parse(source)
	if err != nil {
		return nil, fmt.Errorf("parsing the template %s: %w", source, err)
	}
	return &templatePrinter{parsed.Option("missingkey=default")}, nil
}

// PrintObj prints the object. The template sees the object's JSON.
func (p *templatePrinter) PrintObj(object runtime.Object, w io.Writer) error {
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("writing the answer as JSON: %w", err)
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		return fmt.Errorf("reading the answer's JSON: %w", err)
	}
	if err := p.template.Execute(w, data); err != nil {
		return fmt.Errorf("applying the template: %w", err)
	}
	return nil
}

// templateExists reports whether the item has a value at the path of keys and indexes. It is a function of kubectl's
// templates.
func templateExists(item any, path ...any) bool {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, _ := item.(map[string]any)
			next, found := object[key]
			if !found {
				return false
			}
			item = next
		case int:
			list, _ := item.([]any)
			if key < 0 || key >= len(list) {
				return false
			}
			item = list[key]
		default:
			return false
		}
	}
	return true
}

func decodeBase64(text string) (string, error) {
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("reading base64: %w", err)
	}
	return string(plain), nil
}
