package plugin

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "rewrite what is generated from the code")

const readme = "../../README.md"

// TestReadmeExplainsEachExitCode compares the README's table of exit codes with the code.
func TestReadmeExplainsEachExitCode(t *testing.T) {
	for _, code := range []int{exitDone, exitError, exitUsage, exitStructural, exitLeftBehind, exitPaused, exitWaiting, exitInterrupted} {
		if row := fmt.Sprintf("\n| %d | ", code); !strings.Contains(readmeText(t), row) {
			t.Errorf("%s does not explain exit code %d", readme, code)
		}
	}
}

// TestReadmeIsOnePage checks the README's length, because newcomers read all of it.
func TestReadmeIsOnePage(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(readmeText(t), "\n"), "\n")
	if n := len(lines); n > 120 {
		t.Errorf("%s has %d lines, want 120 at most: move details to docs", readme, n)
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > 120 && !strings.HasPrefix(line, "|") {
			t.Errorf("%s:%d has %d columns, want 120 at most", readme, i+1, n)
		}
	}
}

func readmeText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
