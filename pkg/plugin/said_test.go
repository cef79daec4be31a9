package plugin

import (
	"strings"
	"testing"
)

// checkSaid holds a command's output to the texts that it has to contain and to those that it must not.
func checkSaid(t *testing.T, said string, has, without []string) {
	t.Helper()
	for _, text := range has {
		if !strings.Contains(said, text) {
			t.Errorf("it does not say %q:\n%s", text, said)
		}
	}
	for _, text := range without {
		if strings.Contains(said, text) {
			t.Errorf("it says %q:\n%s", text, said)
		}
	}
}
