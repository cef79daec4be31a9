// Package reference generates the pages and schemas in docs/reference/json from the Go types of the documents and their comments.
package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

// module is the path of the module whose types are documented.
const module = "github.com/kubectl-nodeupgrade/kubectl-nodeupgrade"

// kind is a kind of document.
type kind struct {
	name string
	// printed names the commands that print it.
	printed string
	value   any
}

// kinds lists the kinds of documents in the order of their pages.
func kinds() []kind {
	return []kind{
		{"NodeGroupList", "`kubectl nodeupgrade -o json` and `kubectl nodeupgrade list -o json`", report.NodeGroupList{}},
		{"Plan", "`plan GROUP`, `upgrade GROUP --dry-run` and `simulate`, for one group", report.Plan{}},
		{"PlanList", "`plan` and `upgrade --dry-run` with two or more groups", report.PlanList{}},
		{"Comparison", "`plan GROUP --compare` and `simulate --compare`", report.Comparison{}},
		{"UpgradeStatus", "`status` (with `-w`, one document for each change), and at its end each command that changes an upgrade", report.UpgradeStatus{}},
		{"CheckReport", "`check` of one group", report.CheckReport{}},
		{"CheckList", "`check` without a group, with `-A` or with two or more groups", report.List[report.CheckReport]{}},
		{"UpgradeStatusList", "`upgrade` with two or more groups, at its end", report.List[report.UpgradeStatus]{}},
		{"Report", "`--report FILE.json` (into FILE) and `--report FILE.html` (in the `script` element of the page)", report.RunReport{}},
		{"Error", "each command that fails before it prints another document, except with exit code 2", report.Failure{}},
		{"Version", "`version`", report.Version{}},
		{contract.EventKind, "`--progress=json`, one on each line of stderr", report.EventLine{}},
	}
}

// Generate returns the files of docs/reference/json by name. It reads the Go files below top/pkg.
func Generate(top string) (map[string]string, error) {
	source, err := readSource(top)
	if err != nil {
		return nil, err
	}
	files := map[string]string{"README.md": overview()}
	for _, k := range kinds() {
		schema := source.reflect(k)
		text, err := encode(schema)
		if err != nil {
			return nil, fmt.Errorf("encoding the schema of %s: %w", k.name, err)
		}
		files[contract.SchemaFile(k.name)] = text
		files[k.name+".md"] = writePage(k, schema)
	}
	return files, nil
}

func encode(schema *jsonschema.Schema) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(schema)
	return out.String(), err
}

// reflect returns the schema of a kind.
func (s *source) reflect(k kind) *jsonschema.Schema {
	optional := map[string][]string{} // fields of embedded pointers, by the type that embeds them
	r := &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, LookupComment: s.comment, Namer: definitionName,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			optional[definitionName(t)] = append(optional[definitionName(t)], fieldsOfEmbeddedPointers(t)...)
			return s.schemaOfSpecialType(t)
		},
	}
	schema := r.Reflect(k.value)
	schema.Title = k.name
	for name, definition := range schema.Definitions {
		definition.Required = exclude(definition.Required, optional[name])
		setMeta(definition, name)
	}
	schema.Required = exclude(schema.Required, optional[definitionName(reflect.TypeOf(k.value))])
	setMeta(schema, k.name)
	return schema
}

func exclude(all, some []string) []string {
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(some, name) })
}

// setMeta sets the only possible values of apiVersion and kind in a document of the kind.
func setMeta(schema *jsonschema.Schema, kind string) {
	if schema.Properties == nil {
		return
	}
	_, isDocument := schema.Properties.Get("apiVersion")
	if !isDocument {
		return
	}
	schema.Properties.Set("apiVersion", &jsonschema.Schema{Type: "string", Const: report.APIVersion, Description: "The version of the format."})
	schema.Properties.Set("kind", &jsonschema.Schema{Type: "string", Const: kind, Description: "The kind of document."})
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(schema.Required, name) {
			schema.Required = append([]string{name}, schema.Required...)
		}
	}
}

// definitionName returns the name of a type's definition. A list is named after its items.
func definitionName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[report.EventLine]():
		return contract.EventKind
	case reflect.TypeFor[report.Failure]():
		return "Error"
	case reflect.TypeFor[report.RunReport]():
		return "Report"
	}
	if strings.HasPrefix(t.Name(), "List[") {
		items, _ := t.FieldByName("Items")
		return strings.TrimSuffix(items.Type.Elem().Name(), "Report") + "List"
	}
	return t.Name()
}

// fieldsOfEmbeddedPointers lists the JSON fields of structs that a struct embeds by pointer. If the pointer is nil, documents
// omit these fields.
func fieldsOfEmbeddedPointers(t reflect.Type) (names []string) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous || f.Type.Kind() != reflect.Pointer {
			continue
		}
		for j := range f.Type.Elem().NumField() {
			name, _, _ := strings.Cut(f.Type.Elem().Field(j).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// durationPattern matches durations in Go's format.
const durationPattern = `^-?(0s|([0-9]+h)?([0-9]+m)?([0-9.]+(s|ms|µs|ns))?)$`

// schemaOfSpecialType returns the schema of a type that encodes itself or has a set of values, and nil for other types.
func (s *source) schemaOfSpecialType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[metav1.ObjectMeta]():
		properties := jsonschema.NewProperties()
		properties.Set("name", &jsonschema.Schema{Type: "string", Description: "The name of the node group; it is left out if the document is about no group."})
		return &jsonschema.Schema{Type: "object", Properties: properties, AdditionalProperties: jsonschema.FalseSchema}
	case reflect.TypeFor[types.NamespacedName]():
		properties := jsonschema.NewProperties()
		properties.Set("namespace", &jsonschema.Schema{Type: "string", Description: "The namespace."})
		properties.Set("name", &jsonschema.Schema{Type: "string", Description: "The name."})
		return &jsonschema.Schema{Type: "object", Properties: properties, AdditionalProperties: jsonschema.FalseSchema, Required: []string{"namespace", "name"}}
	case reflect.TypeFor[metav1.ListMeta]():
		return &jsonschema.Schema{Type: "object", AdditionalProperties: jsonschema.FalseSchema}
	case reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time", Not: &jsonschema.Schema{Pattern: "^0001-"}}
	case reflect.TypeFor[record.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[types.UID]():
		return &jsonschema.Schema{Type: "string"}
	}
	if t.Kind() == reflect.String && strings.HasPrefix(t.PkgPath(), module) {
		return &jsonschema.Schema{Type: "string", Enum: s.values[typeKey(t)]}
	}
	return nil
}
