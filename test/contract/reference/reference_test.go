package reference

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const top = "../../.."

// TestDocumentsWithEveryFieldMatchTheirSchema sets every field of a document of each kind, and compares the document with a golden file
// and with its schema.
func TestDocumentsWithEveryFieldMatchTheirSchema(t *testing.T) {
	source, err := readSource(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			value := reflect.New(reflect.TypeOf(k.value)).Elem()
			(&filler{source: source, kind: k.name}).fill(value)
			got, err := json.MarshalIndent(value.Addr().Interface(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			golden := filepath.Join("testdata", k.name+".json")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s does not match its Go type (%v): run go test . -update and review the diff", golden, err)
			}
			validate := contract.Validate
			if k.name == contract.EventKind {
				validate = contract.ValidateEvent
			}
			if err := validate(string(got)); err != nil {
				t.Error(err)
			}
			var document any
			if err := json.Unmarshal(got, &document); err != nil {
				t.Fatal(err)
			}
			checkChangesAreRejected(t, k.name, document)
		})
	}
}

// checkChangesAreRejected checks that the schema rejects the document with an unknown field in any object, and with a value of another
// type.
func checkChangesAreRejected(t *testing.T, kind string, document any) {
	t.Helper()
	objects := 0
	visit(document, func(path string, object map[string]any) {
		if hasFreeKeys(path) {
			return
		}
		objects++
		object["surplus"] = true
		if isValid(t, document) {
			t.Errorf("%s: the schema accepts an unknown field in %q", kind, path)
		}
		delete(object, "surplus")
		for name, value := range object {
			object[name] = []any{value}
			if _, isList := value.([]any); !isList && isValid(t, document) {
				t.Errorf("%s: the schema accepts a list as the value of %s.%s", kind, path, name)
			}
			object[name] = value
		}
	})
	if objects == 0 {
		t.Errorf("%s has no object", kind)
	}
}

// hasFreeKeys reports whether the object at a path has keys that users choose.
func hasFreeKeys(path string) bool {
	for _, name := range []string{"surge", "current", "zones"} {
		if strings.HasSuffix(path, "."+name) {
			return true
		}
	}
	return false
}

func visit(value any, do func(path string, object map[string]any)) { visitAt("", value, do) }

func visitAt(path string, value any, do func(path string, object map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		do(path, v)
		for name, below := range v {
			visitAt(path+"."+name, below, do)
		}
	case []any:
		for _, below := range v {
			visitAt(path+"[]", below, do)
		}
	}
}

func isValid(t *testing.T, document any) bool {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return contract.Validate(string(text)) == nil
}

// filler sets every field of a document that is printed.
type filler struct {
	source *source
	kind   string
}

func (f *filler) fill(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[metav1.TypeMeta]():
		v.Set(reflect.ValueOf(metav1.TypeMeta{APIVersion: report.APIVersion, Kind: f.kind}))
		return
	case reflect.TypeFor[metav1.ObjectMeta]():
		v.Set(reflect.ValueOf(metav1.ObjectMeta{Name: "workers"}))
		return
	case reflect.TypeFor[metav1.ListMeta]():
		return
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 1, 8, 12, 0, 0, 0, time.UTC)))
		return
	case reflect.TypeFor[record.Duration]():
		v.Set(reflect.ValueOf(record.Duration{Duration: 90 * time.Second}))
		return
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse("1500m")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		f.fillStruct(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString("text")
		if values := f.source.values[typeKey(v.Type())]; len(values) > 0 {
			v.SetString(values[len(values)-1].(string))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5)
	default:
		v.SetInt(2)
	}
}

func (f *filler) fillStruct(v reflect.Value) {
	outer := f.kind
	defer func() { f.kind = outer }()
	if _, isDocument := v.Type().FieldByName("TypeMeta"); isDocument {
		f.kind = definitionName(v.Type())
	}
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
			f.fill(v.Field(i))
		}
	}
}
