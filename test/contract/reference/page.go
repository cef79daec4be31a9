package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

// generated is the first line of each page.
const generated = "<!-- Generated from the Go types by go test ./test/house -update. -->\n\n"

func overview() string {
	var b strings.Builder
	b.WriteString(generated)
	b.WriteString(`# Which documents are printed for programs?

With ` + "`-o json` and `-o yaml`" + ` a command prints one document on stdout. With ` + "`--progress=json`" + ` it writes one event on each line of stderr, beside
lines of plain text for warnings and the error. Each kind has a page and a JSON Schema.

| kind | printed by | schema |
|---|---|---|
`)
	for _, k := range kinds() {
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | [%s](%s) |\n", k.name, k.name, k.printed, contract.SchemaFile(k.name), contract.SchemaFile(k.name))
	}
	return b.String()
}

func writePage(k kind, schema *jsonschema.Schema) string {
	var b strings.Builder
	b.WriteString(generated)
	fmt.Fprintf(&b, "# What is in a document of kind %s?\n\n", k.name)
	if schema.Description != "" {
		fmt.Fprintf(&b, "%s\n\n", schema.Description)
	}
	fmt.Fprintf(&b, "Written by %s. Schema: [%s](%s).\n\n", k.printed, contract.SchemaFile(k.name), contract.SchemaFile(k.name))
	b.WriteString("| field | type | always there | meaning |\n|---|---|---|---|\n")
	p := &page{definitions: schema.Definitions}
	p.addFields("", schema)
	b.WriteString(p.rows.String())
	return b.String()
}

// page is the table of a document's fields.
type page struct {
	definitions jsonschema.Definitions
	rows        strings.Builder
}

func (p *page) addFields(path string, schema *jsonschema.Schema) {
	if schema.Properties == nil {
		return
	}
	for pair := schema.Properties.Oldest(); pair != nil; pair = pair.Next() {
		always := ""
		if slices.Contains(schema.Required, pair.Key) {
			always = "yes"
		}
		p.addField(strings.TrimPrefix(path+"."+pair.Key, "."), always, pair.Value.Description, pair.Value)
	}
}

// addField adds the row of a field, and the rows of the fields in it.
func (p *page) addField(path, always, meaning string, schema *jsonschema.Schema) {
	schema = p.resolve(schema)
	if len(schema.Enum) > 0 {
		meaning = strings.TrimSpace(meaning + " One of " + joinValues(schema.Enum) + ".")
	}
	fmt.Fprintf(&p.rows, "| `%s` | %s | %s | %s |\n", path, describeType(schema), always, strings.ReplaceAll(meaning, "|", "\\|"))
	switch {
	case schema.Items != nil:
		p.addElementFields(path+"[]", schema.Items)
	case schema.AdditionalProperties != nil && p.resolve(schema.AdditionalProperties).Properties != nil:
		p.addElementFields(path+".*", schema.AdditionalProperties)
	default:
		p.addFields(path, schema)
	}
}

// addElementFields adds the fields of the values of a list or map.
func (p *page) addElementFields(path string, schema *jsonschema.Schema) {
	p.addFields(path, p.resolve(schema))
}

func (p *page) resolve(schema *jsonschema.Schema) *jsonschema.Schema {
	if name, isRef := strings.CutPrefix(schema.Ref, "#/$defs/"); isRef {
		return p.definitions[name]
	}
	return schema
}

func joinValues(values []any) string {
	words := make([]string, 0, len(values))
	for _, v := range values {
		words = append(words, fmt.Sprintf("`%v`", v))
	}
	return strings.Join(words, ", ")
}

func describeType(schema *jsonschema.Schema) string {
	switch {
	case schema.Format == "date-time":
		return "time"
	case schema.Pattern == durationPattern:
		return "duration"
	case schema.Type == "array" && schema.Items.Ref != "":
		return "list of objects"
	case schema.Type == "array":
		return "list of " + schema.Items.Type + "s"
	case schema.Type == "object" && schema.AdditionalProperties != nil && schema.Properties == nil && schema.AdditionalProperties.Type != "":
		return "map of " + schema.AdditionalProperties.Type + "s"
	default:
		return schema.Type
	}
}
