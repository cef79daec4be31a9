package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// document decodes what a command prints as JSON, of the one schema that all kinds of groups have.
func document[T any](t *testing.T, s *fixture.Fixture, code int, args ...string) (found T) {
	t.Helper()
	result := run(t, s, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(result.Stdout), &found); err != nil || result.Code != code {
		t.Fatalf("kubectl %s ended with %d (%v)\n%s%s", strings.Join(args, " "), result.Code, err, result.Stdout, result.Stderr)
	}
	checkSchema(t, result.Stdout)
	return found
}

// schema is what a document has, by path: "nodes[].name" is of a type, "surge.*" of any key. Optional fields may be left out.
type schema map[string]field

type field struct {
	kind     string
	optional bool
}

// readSchema reads a schema of testdata: a line for each path, its type and perhaps the word "optional".
func readSchema(t *testing.T, name string) schema {
	t.Helper()
	text, err := os.ReadFile("testdata/schema/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	s := schema{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 1 {
			s[words[0]] = field{words[1], len(words) > 2}
		}
	}
	return s
}

// checkSchema holds the plans, the statuses and the reports of check in a document to their schemas.
func checkSchema(t *testing.T, document string) {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal([]byte(document), &value); err != nil {
		t.Fatal(err)
	}
	items, isList := value["items"].([]any)
	if !isList {
		items = []any{value}
	}
	for _, item := range items {
		kind, _ := item.(map[string]any)["kind"].(string)
		if kind != "Plan" && kind != "UpgradeStatus" && kind != "CheckReport" {
			continue
		}
		for _, fault := range readSchema(t, kind).faults("", item) {
			t.Errorf("%s: %s, in\n%s", kind, fault, document)
		}
	}
}

// faults lists what of a value at a path is not as the schema says.
func (s schema) faults(at string, value any) []string {
	var found []string
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = append(found, s.faultsOfField(at, key, v[key])...)
		}
		for _, p := range slices.Sorted(maps.Keys(s)) {
			key, below := strings.CutPrefix("."+p, strings.TrimSuffix("."+at, ".")+".")
			_, has := v[key]
			if below && !strings.ContainsAny(key, ".[*") && !s[p].optional && !has {
				found = append(found, p+" is missing")
			}
		}
	case []any:
		for _, one := range v {
			found = append(found, s.faultsOfField(at+"[]", "", one)...)
		}
	}
	return found
}

func (s schema) faultsOfField(at, key string, value any) []string {
	p := strings.TrimPrefix(at+"."+key, ".")
	if key == "" {
		p = at
	}
	if _, known := s[p]; !known && key != "" {
		p = strings.TrimPrefix(at+".*", ".")
	}
	want, known := s[p]
	switch {
	case !known:
		return []string{fmt.Sprintf("%s has %q, which is not known", at, key)}
	case want.kind != kindOf(value):
		return []string{fmt.Sprintf("%s is %s, want %s", p, kindOf(value), want.kind)}
	}
	return s.faults(p, value)
}

// kindOf is what JSON calls the type of a value.
func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	default:
		return "null"
	}
}

func TestSchemaFaults(t *testing.T) {
	s := schema{
		"name": {"string", false}, "nodes": {"array", false}, "nodes[]": {"object", false}, "nodes[].pods": {"number", false}, "nodes[].why": {"string", true},
		"surge": {"object", true}, "surge.*": {"number", false},
	}
	for document, want := range map[string]string{
		`{"name": "a", "nodes": []}`: "",
		`{"name": "a", "nodes": [{"pods": 1, "why": "x"}], "surge": {"a.b": 1}}`: "",
		`{"nodes": []}`:                                       "name is missing",
		`{"name": 1, "nodes": []}`:                            "name is number, want string",
		`{"name": "a", "nodes": null}`:                        "nodes is null, want array",
		`{"name": "a", "nodes": [{"pods": 1, "when": 2}]}`:    `nodes[] has "when", which is not known`,
		`{"name": "a", "nodes": [{"why": "x"}]}`:              "nodes[].pods is missing",
		`{"name": "a", "nodes": [], "surge": {"a": "three"}}`: "surge.* is string, want number",
	} {
		var value any
		if err := json.Unmarshal([]byte(document), &value); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.faults("", value), "; "); got != want {
			t.Errorf("%s: got %q, want %q", document, got, want)
		}
	}
}
