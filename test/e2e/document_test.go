package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// document decodes a document that a command prints as JSON. The fixture has checked it against its schema.
func document[T any](t *testing.T, s *fixture.Fixture, code int, args ...string) (found T) {
	t.Helper()
	result := runKubectl(t, s, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(result.Stdout), &found); err != nil || result.Code != code {
		t.Fatalf("kubectl %s ended with %d (%v)\n%s%s", strings.Join(args, " "), result.Code, err, result.Stdout, result.Stderr)
	}
	return found
}
