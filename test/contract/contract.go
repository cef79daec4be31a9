// Package contract checks the documents and events that the tool prints for programs against the schemas in docs/reference/json.
package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Folder is the folder of the schemas, below the top of the checkout.
const Folder = "docs/reference/json"

// EventKind is the kind of a line of --progress=json.
const EventKind = "Event"

// Validate returns an error unless the text is one document that matches the schema of its kind.
func Validate(text string) error { return validate(text, "") }

// ValidateEvent returns an error unless the text is one event of --progress=json.
func ValidateEvent(text string) error { return validate(text, EventKind) }

// validate validates a document. wanted is the only allowed kind, "" for all kinds.
func validate(text, wanted string) error {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("parsing the document as JSON: %w", err)
	}
	var meta struct{ Kind string }
	if err := json.Unmarshal([]byte(text), &meta); err != nil || meta.Kind == "" {
		return errors.New("the document has no kind")
	}
	if wanted != "" && meta.Kind != wanted {
		return fmt.Errorf("the document's kind is %s, want %s", meta.Kind, wanted)
	}
	schema, err := compile(meta.Kind)
	if err != nil {
		return err
	}
	if err := schema.Validate(document); err != nil {
		return fmt.Errorf("comparing the document with its schema: %w", err)
	}
	return nil
}

// compiled caches the schemas by kind.
var compiled struct {
	mu      sync.Mutex // guards schemas
	schemas map[string]*jsonschema.Schema
}

func compile(kind string) (*jsonschema.Schema, error) {
	compiled.mu.Lock()
	defer compiled.mu.Unlock()
	if schema := compiled.schemas[kind]; schema != nil {
		return schema, nil
	}
	top, err := findTop()
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(filepath.Join(top, Folder, SchemaFile(kind)))
	if err != nil {
		return nil, fmt.Errorf("reading the schema of kind %s: %w", kind, err)
	}
	if compiled.schemas == nil {
		compiled.schemas = map[string]*jsonschema.Schema{}
	}
	compiled.schemas[kind] = schema
	return schema, nil
}

// SchemaFile returns the name of a kind's schema in Folder.
func SchemaFile(kind string) string { return kind + ".schema.json" }

// findTop returns the top of the checkout that contains the working directory.
func findTop() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the schemas: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, Folder)); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", fmt.Errorf("finding the schemas: no folder above the working directory has %s: run it in the checkout", Folder)
		}
		dir = above
	}
}

// CheckOutput checks what a run of the tool with the arguments has printed for programs. With -o json, stdout must have one
// document, or nothing after a usage error. With --progress=json, stderr must have events. Other lines are allowed there.
func CheckOutput(args []string, stdout, stderr string, code int) error {
	switch {
	case !printsJSON(args) || stdout == "" && code == exitUsage:
	case stdout == "":
		return fmt.Errorf("%s ended with %d and printed no document on stdout", strings.Join(args, " "), code)
	default:
		if err := Validate(stdout); err != nil {
			return fmt.Errorf("%s: stdout: %w\n%s", strings.Join(args, " "), err, stdout)
		}
	}
	if !printsEvents(args) {
		return nil
	}
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "\n") { // it is not an event, or a signal has cut it off
			continue
		}
		if err := ValidateEvent(line); err != nil {
			return fmt.Errorf("%s: stderr: %w\n%s", strings.Join(args, " "), err, line)
		}
	}
	return nil
}

// exitUsage is the exit code for an invalid command line.
const exitUsage = 2

// printsJSON reports whether a command line makes the tool print a JSON document on stdout.
func printsJSON(args []string) bool {
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return false
	}
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "-o", "--output":
			return i+1 < len(args) && args[i+1] == "json"
		case "-ojson", "-o=json", "--output=json":
			return true
		}
	}
	return false
}

// printsEvents reports whether a command line makes the tool print JSON events on stderr.
func printsEvents(args []string) bool {
	i := slices.Index(args, "--progress")
	return slices.Contains(args, "--progress=json") || i >= 0 && i+1 < len(args) && args[i+1] == "json"
}
