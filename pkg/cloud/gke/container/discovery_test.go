package container

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// discoveryFlag names Google's whole discovery document: container/v1/container-api.json of the module google.golang.org/api.
// With the flag, TestFixtureIsPartOfDiscoveryDocument writes the fixture again.
var discoveryFlag = flag.String("discovery", "", "write the fixture from this container-api.json")

const fixturePath = "testdata/container-api.json"

// discovery is the part of a discovery document that concerns this package.
type discovery struct {
	Revision string                     `json:"revision"`
	RootURL  string                     `json:"rootUrl"`
	Methods  map[string]discoveryMethod `json:"methods"`
	Schemas  map[string]discoverySchema `json:"schemas"`
}

type discoveryMethod struct {
	HTTPMethod string                        `json:"httpMethod"`
	Path       string                        `json:"path"`
	FlatPath   string                        `json:"flatPath"`
	Parameters map[string]discoveryParameter `json:"parameters,omitempty"`
	Request    *discoveryReference           `json:"request,omitempty"`
	Response   *discoveryReference           `json:"response,omitempty"`
	Scopes     []string                      `json:"scopes"`
}

type discoveryParameter struct {
	Location string `json:"location"`
	Pattern  string `json:"pattern,omitempty"`
	Required bool   `json:"required,omitempty"`
}

type discoveryReference struct {
	Ref string `json:"$ref"`
}

type discoverySchema struct {
	Type       string                       `json:"type"`
	Properties map[string]discoveryProperty `json:"properties,omitempty"`
}

type discoveryProperty struct {
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Ref                  string             `json:"$ref,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Items                *discoveryProperty `json:"items,omitempty"`
	AdditionalProperties *discoveryProperty `json:"additionalProperties,omitempty"`
	ReadOnly             bool               `json:"readOnly,omitempty"`
	Deprecated           bool               `json:"deprecated,omitempty"`
	// Description is kept only if it is about a format.
	Description string `json:"description,omitempty"`
}

// methodIDs maps each method of Client that sends a request to the ID of its method in the discovery document.
func methodIDs() map[string]string {
	const clusters, pools = "container.projects.locations.clusters.", "container.projects.locations.clusters.nodePools."
	const operations = "container.projects.locations.operations."
	return map[string]string{
		"GetCluster": clusters + "get", "ListClusters": clusters + "list",
		"GetNodePool": pools + "get", "ListNodePools": pools + "list", "UpdateNodePool": pools + "update", "RollbackNodePool": pools + "rollback",
		"CompleteNodePoolUpgrade": pools + "completeUpgrade", "FetchNodePoolUpgradeInfo": pools + "fetchNodePoolUpgradeInfo",
		"GetOperation": operations + "get", "ListOperations": operations + "list", "CancelOperation": operations + "cancel",
		"GetServerConfig": "container.projects.locations.getServerConfig",
	}
}

// roots are the types of answers and requests. All other types are fields of them.
func roots() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[Cluster](), reflect.TypeFor[NodePool](), reflect.TypeFor[Operation](), reflect.TypeFor[ServerConfig](),
		reflect.TypeFor[NodePoolUpgradeInfo](), reflect.TypeFor[ListClustersResponse](), reflect.TypeFor[ListNodePoolsResponse](),
		reflect.TypeFor[ListOperationsResponse](), reflect.TypeFor[UpdateNodePoolRequest](), reflect.TypeFor[RollbackNodePoolUpgradeRequest](),
	}
}

// collectStructs returns the structs that the types consist of, by name.
func collectStructs(types ...reflect.Type) map[string]reflect.Type {
	found := map[string]reflect.Type{}
	var visit func(reflect.Type)
	visit = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(t.Elem())
		case reflect.Struct:
			if t != reflect.TypeFor[Time]() && found[t.Name()] == nil {
				found[t.Name()] = t
				for i := range t.NumField() {
					visit(t.Field(i).Type)
				}
			}
		}
	}
	for _, t := range types {
		visit(t)
	}
	return found
}

// extract returns the part of a whole discovery document that the types and methods of this package use. It keeps all fields of
// the schemas.
func extract(whole []byte) (discovery, error) {
	type resource struct {
		Methods   map[string]json.RawMessage `json:"methods"`
		Resources map[string]json.RawMessage `json:"resources"`
	}
	all := discovery{}
	if err := json.Unmarshal(whole, &all); err != nil {
		return all, err
	}
	part := discovery{Revision: all.Revision, RootURL: all.RootURL, Methods: map[string]discoveryMethod{}, Schemas: map[string]discoverySchema{}}
	ids := slices.Collect(maps.Values(methodIDs()))
	var visit func(json.RawMessage) error
	visit = func(raw json.RawMessage) error {
		var here resource
		if err := json.Unmarshal(raw, &here); err != nil {
			return err
		}
		for _, raw := range here.Methods {
			var method struct {
				discoveryMethod
				ID string `json:"id"`
			}
			if err := json.Unmarshal(raw, &method); err != nil {
				return err
			}
			if slices.Contains(ids, method.ID) {
				part.Methods[method.ID] = method.discoveryMethod
			}
		}
		for _, raw := range here.Resources {
			if err := visit(raw); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(whole); err != nil {
		return all, err
	}
	names := slices.Collect(maps.Keys(collectStructs(roots()...)))
	names = append(names, "Empty", "CancelOperationRequest", "CompleteNodePoolUpgradeRequest")
	for _, name := range names {
		schema, ok := all.Schemas[name]
		if !ok {
			return all, fmt.Errorf("no schema %s", name)
		}
		for field, property := range schema.Properties {
			if !strings.Contains(property.Description, "RFC3339") {
				property.Description = ""
			}
			schema.Properties[field] = property
		}
		part.Schemas[name] = schema
	}
	return part, nil
}

func readFixture(t *testing.T) discovery {
	t.Helper()
	data, err := os.ReadFile(fixturePath)
	if err != nil {
		t.Fatal(err)
	}
	var document discovery
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

func TestFixtureIsPartOfDiscoveryDocument(t *testing.T) {
	if *discoveryFlag == "" {
		if got := readFixture(t); got.Revision != "20261027" || got.RootURL != DefaultEndpoint {
			t.Errorf("the fixture is of revision %q of %q", got.Revision, got.RootURL)
		}
		return
	}
	whole, err := os.ReadFile(*discoveryFlag)
	if err != nil {
		t.Fatal(err)
	}
	part, err := extract(whole)
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.MarshalIndent(part, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fixturePath, append(written, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fieldFaults lists the differences between a struct and its schema.
func fieldFaults(t reflect.Type, schema discoverySchema, sent bool) (faults []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		property, known := schema.Properties[name]
		switch {
		case !known:
			faults = append(faults, fmt.Sprintf("%s.%s: the schema has no field %q", t.Name(), field.Name, name))
			continue
		case sent && property.ReadOnly:
			faults = append(faults, fmt.Sprintf("%s.%s is sent, but read-only", t.Name(), field.Name))
		}
		if fault := typeFault(field.Type, property, options); fault != "" {
			faults = append(faults, fmt.Sprintf("%s.%s: %s", t.Name(), field.Name, fault))
		}
	}
	return faults
}

// typeFault returns why a Go type does not fit a property, or "".
func typeFault(t reflect.Type, p discoveryProperty, options string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var want bool
	switch {
	case p.Ref != "":
		want = t.Kind() == reflect.Struct && t.Name() == p.Ref
	case p.Type == "array":
		if t.Kind() == reflect.Slice {
			return typeFault(t.Elem(), *p.Items, "")
		}
	case p.Type == "object":
		if t.Kind() == reflect.Map && p.AdditionalProperties != nil {
			return typeFault(t.Elem(), *p.AdditionalProperties, "")
		}
	case p.Type == "string":
		want = isTextOf(t, p, options)
	case p.Type == "integer" && p.Format == "int32":
		want = t.Kind() == reflect.Int32
	case p.Type == "number":
		want = t.Kind() == reflect.Float64
	case p.Type == "boolean":
		want = t.Kind() == reflect.Bool
	}
	if !want {
		return fmt.Sprintf("%s does not fit %+v", t, p)
	}
	return ""
}

// isTextOf reports whether a Go type fits a property that is a text in JSON.
func isTextOf(t reflect.Type, p discoveryProperty, options string) bool {
	switch {
	case p.Format == "google-duration":
		return t == reflect.TypeFor[Duration]()
	case p.Format == "google-datetime":
		return t == reflect.TypeFor[Time]()
	case p.Format == "int64":
		return t.Kind() == reflect.Int64 && strings.Contains(options, "string")
	case len(p.Enum) > 0:
		return t.Kind() == reflect.String && t != reflect.TypeFor[string]()
	case t == reflect.TypeFor[Time]():
		return strings.Contains(p.Description, "RFC3339") && !strings.Contains(p.Description, "HH")
	}
	return p.Format == "" && t == reflect.TypeFor[string]()
}

func TestStructsFitDiscoveryDocument(t *testing.T) {
	document := readFixture(t)
	sent := collectStructs(reflect.TypeFor[UpdateNodePoolRequest](), reflect.TypeFor[RollbackNodePoolUpgradeRequest]())
	structs := collectStructs(roots()...)
	if len(structs) < 30 {
		t.Fatalf("only %d structs found", len(structs))
	}
	for name, one := range structs {
		for _, fault := range fieldFaults(one, document.Schemas[name], sent[name] != nil) {
			t.Error(fault)
		}
	}
}

func TestInventedFieldsAreFound(t *testing.T) {
	document := readFixture(t)
	type mode string
	pool := document.Schemas["NodePool"]
	cases := map[string]struct {
		one  any
		sent bool
		want string
	}{
		"good": {one: struct {
			Version string     `json:"version"`
			Status  PoolStatus `json:"status"`
		}{}},
		"a field of another schema": {one: struct {
			NodeVersion string `json:"nodeVersion"`
		}{}, want: `the schema has no field "nodeVersion"`},
		"a misspelled field": {one: struct {
			Locations []string `json:"location"`
		}{}, want: "the schema has no field"},
		"a number as a text": {one: struct {
			Count string `json:"initialNodeCount"`
		}{}, want: "does not fit"},
		"one text for a list": {one: struct {
			Locations string `json:"locations"`
		}{}, want: "does not fit"},
		"an enum without a type": {one: struct {
			Status string `json:"status"`
		}{}, want: "does not fit"},
		"another schema": {one: struct {
			Config *UpdateInfo `json:"config"`
		}{}, want: "does not fit"},
		"a time without a format": {one: struct {
			Version Time `json:"version"`
		}{}, want: "does not fit"},
		"a read-only field is sent": {sent: true, one: struct {
			Status mode `json:"status"`
		}{}, want: "read-only"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(fieldFaults(reflect.TypeOf(c.one), pool, c.sent), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestConstantsAreValuesOfTheirEnum checks each typed constant of types.go.
func TestConstantsAreValuesOfTheirEnum(t *testing.T) {
	enums := map[string][]string{}
	document := readFixture(t)
	for name, one := range collectStructs(roots()...) {
		for i := range one.NumField() {
			field := one.Field(i)
			jsonName, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			property, kind := document.Schemas[name].Properties[jsonName], field.Type
			if kind.Kind() == reflect.Slice && property.Items != nil {
				property, kind = *property.Items, kind.Elem()
			}
			if len(property.Enum) > 0 {
				enums[kind.Name()] = append(enums[kind.Name()], property.Enum...)
			}
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		kind := spec.Type.(*ast.Ident).Name
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		checked++
		// v1beta1 and the gRPC API have this value.
		if !slices.Contains(enums[kind], value) && value != string(PhaseWaitingToDrainBluePool) {
			t.Errorf("%s has no value %s", kind, value)
		}
		return true
	})
	if checked < 50 {
		t.Errorf("only %d constants found", checked)
	}
	if slices.Contains(enums["Phase"], string(PhaseWaitingToDrainBluePool)) {
		t.Error("v1 lists WAITING_TO_DRAIN_BLUE_POOL now: remove the exception here and in the comment of Phase")
	}
}

// bodyFaults lists the fields of a request's JSON that its schema does not have.
func bodyFaults(document discovery, schema string, value any) (faults []string) {
	object, ok := value.(map[string]any)
	if !ok {
		return []string{schema + " is no object"}
	}
	for name, field := range object {
		property, known := document.Schemas[schema].Properties[name]
		if !known {
			faults = append(faults, schema+" has no field "+name)
		} else if property.Ref != "" {
			faults = append(faults, bodyFaults(document, property.Ref, field)...)
		}
	}
	return faults
}

func TestMethodsFitDiscoveryDocument(t *testing.T) {
	document := readFixture(t)
	cluster := ClusterName{Project: "example.com:acme", Location: "europe-west1", Cluster: "prod"}
	pool := PoolName{ClusterName: cluster, Pool: "web"}
	surge, share, yes := int32(0), 0.25, true
	soak := Duration(90e9)
	update := UpdateNodePoolRequest{
		NodeVersion: "1.34", ImageType: "COS_CONTAINERD", Etag: "e",
		UpgradeSettings: &UpgradeSettings{Strategy: StrategyBlueGreen, MaxSurge: &surge, MaxUnavailable: &surge, BlueGreenSettings: &BlueGreenSettings{
			NodePoolSoakDuration: &soak, StandardRolloutPolicy: &StandardRolloutPolicy{BatchNodeCount: &surge, BatchPercentage: &share, BatchSoakDuration: &soak},
			AutoscaledRolloutPolicy: &AutoscaledRolloutPolicy{WaitForDrainDuration: &soak},
		}},
		NodeDrainConfig: &NodeDrainConfig{PDBTimeoutDuration: &soak, GraceTerminationDuration: &soak, RespectPDBDuringNodePoolDeletion: &yes},
	}
	arguments := map[string][]any{
		"GetCluster": {cluster}, "ListClusters": {cluster.Parent()}, "GetNodePool": {pool}, "ListNodePools": {cluster},
		"UpdateNodePool": {pool, update}, "RollbackNodePool": {pool, RollbackNodePoolUpgradeRequest{}},
		"CompleteNodePoolUpgrade": {pool}, "FetchNodePoolUpgradeInfo": {pool}, "GetOperation": {cluster.Operation("operation-1")},
		"ListOperations": {cluster.Parent()}, "CancelOperation": {cluster.Operation("operation-1")}, "GetServerConfig": {cluster.Parent()},
	}
	var got *http.Request
	var body []byte
	client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"name":"x"}`)
	})
	methods := reflect.TypeFor[*Client]()
	for i := range methods.NumMethod() {
		name := methods.Method(i).Name
		t.Run(name, func(t *testing.T) {
			want, ok := document.Methods[methodIDs()[name]]
			if !ok {
				t.Fatalf("%s is not in the discovery document", name)
			}
			in := []reflect.Value{reflect.ValueOf(client), reflect.ValueOf(t.Context())}
			for _, argument := range arguments[name] {
				in = append(in, reflect.ValueOf(argument))
			}
			out := methods.Method(i).Func.Call(in)
			if err := out[len(out)-1].Interface(); err != nil {
				t.Fatal(err)
			}
			checkRequest(t, document, want, got, body)
		})
	}
}

// checkRequest compares a request with its method in the discovery document.
func checkRequest(t *testing.T, document discovery, want discoveryMethod, got *http.Request, body []byte) {
	t.Helper()
	path := regexp.MustCompile(`\\\{[^}]+\\\}`).ReplaceAllString(regexp.QuoteMeta(want.FlatPath), `[^/:]+`)
	if got.Method != want.HTTPMethod || !regexp.MustCompile("^/"+path+"$").MatchString(got.URL.EscapedPath()) {
		t.Errorf("sent %s %s, want %s %s", got.Method, got.URL.EscapedPath(), want.HTTPMethod, want.FlatPath)
	}
	for name := range got.URL.Query() {
		if want.Parameters[name].Location != "query" {
			t.Errorf("sent the parameter %s", name)
		}
	}
	for name, parameter := range want.Parameters {
		suffix := regexp.MustCompile(`^v1/\{\+` + name + `\}(.*)$`).FindStringSubmatch(want.Path)
		if parameter.Location != "path" || suffix == nil {
			continue
		}
		value, err := url.PathUnescape(strings.TrimSuffix(strings.TrimPrefix(got.URL.EscapedPath(), "/v1/"), suffix[1]))
		if err != nil || !regexp.MustCompile(parameter.Pattern).MatchString(value) {
			t.Errorf("%s is %q, want %s (%v)", name, value, parameter.Pattern, err)
		}
	}
	if !slices.Contains(want.Scopes, Scope) {
		t.Errorf("the method accepts the scopes %q", want.Scopes)
	}
	if want.Request == nil {
		if len(body) > 0 {
			t.Errorf("sent %s without a schema", body)
		}
		return
	}
	var value any
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&value); err != nil {
		t.Fatal(err)
	}
	for _, fault := range bodyFaults(document, want.Request.Ref, value) {
		t.Error(fault)
	}
	if got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type is %q", got.Header.Get("Content-Type"))
	}
}

func TestInventedRequestFieldsAreFound(t *testing.T) {
	document := readFixture(t)
	var value any
	if err := json.Unmarshal([]byte(`{"nodeVersion":"1","version":"2","upgradeSettings":{"maxSurge":1,"surge":2}}`), &value); err != nil {
		t.Fatal(err)
	}
	faults := bodyFaults(document, "UpdateNodePoolRequest", value)
	slices.Sort(faults)
	if want := []string{"UpdateNodePoolRequest has no field version", "UpgradeSettings has no field surge"}; !slices.Equal(faults, want) {
		t.Errorf("got %q, want %q", faults, want)
	}
}
