package plugin

import (
	"strings"
	"testing"
)

// checkOutput checks that a command's output contains some texts and not others.
func checkOutput(t *testing.T, said string, has, without []string) {
	t.Helper()
	for _, text := range has {
		if !strings.Contains(said, text) {
			t.Errorf("the output lacks %q:\n%s", text, said)
		}
	}
	for _, text := range without {
		if strings.Contains(said, text) {
			t.Errorf("the output contains %q:\n%s", text, said)
		}
	}
}
