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
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// choosePrinter is what writes an object in one of kubectl's formats: JSON, YAML, JSONPath or a Go
// template. It returns a genericclioptions.NoCompatiblePrinterError for a format that is none of
// them, and an error for a template that cannot be read.
//
// cli-runtime's PrintFlags know these formats, too. They reach text/template, which calls methods
// by name, so that the linker keeps every exported method of every library: the binary was two and
// a half times as large. See docs/decisions/0021.
func choosePrinter(format string) (printers.ResourcePrinter, error) {
	for _, toPrinter := range []func(string) (printers.ResourcePrinter, error){
		genericclioptions.NewJSONYamlPrintFlags().ToPrinter,
		genericclioptions.NewJSONPathPrintFlags("", true).ToPrinter,
	} {
		printer, err := toPrinter(format)
		if !genericclioptions.IsNoCompatiblePrinterError(err) {
			return printer, err
		}
	}
	return newTemplatePrinter(format)
}

// templatePrinter writes objects through a Go template that calls no methods.
type templatePrinter struct{ template *template.Template }

func newTemplatePrinter(format string) (printers.ResourcePrinter, error) {
	kind, source, _ := strings.Cut(format, "=")
	switch kind {
	case "go-template", "template", "go-template-file", "templatefile":
	default:
		return nil, genericclioptions.NoCompatiblePrinterError{OutputFormat: &format}
	}
	if source == "" {
		return nil, errors.New("template format specified but no template given")
	}
	if strings.HasSuffix(kind, "file") {
		text, err := os.ReadFile(source)
		if err != nil {
			return nil, fmt.Errorf("reading the template: %w", err)
		}
		source = string(text)
	}
	parsed, err := template.New("output").Funcs(template.FuncMap{"exists": templateExists, "base64decode": decodeBase64}).Parse(source)
	if err != nil {
		return nil, fmt.Errorf("parsing the template %s: %w", source, err)
	}
	return &templatePrinter{parsed.Option("missingkey=default")}, nil
}

// PrintObj writes the object as its JSON has it.
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

// templateExists reports whether there is something at the keys and numbers, one below the other;
// kubectl's templates have it.
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
