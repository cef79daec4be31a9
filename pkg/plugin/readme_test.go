package plugin

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

var update = flag.Bool("update", false, "rewrite what is generated from the code")

const readme = "../../README.md"

// TestReadmeFlags holds the README's table of flags to the flags there are.
func TestReadmeFlags(t *testing.T) {
	const begin, end = "<!-- flags -->\n", "<!-- /flags -->\n"
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no table of flags between %q and %q", readme, begin, end)
	}
	want := flagTable()
	if *update {
		if err := os.WriteFile(readme, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		t.Errorf("the table of flags in %s is not up to date: run go test ./pkg/plugin -run TestReadme -update\nwant:\n%s", readme, want)
	}
}

func flagTable() string {
	cmd := NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	var b strings.Builder
	b.WriteString("| flag | default | |\n|---|---|---|\n")
	write := func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := f.DefValue
		if value == "" || value == "false" || value == "0s" {
			value = ""
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	}
	cmd.LocalFlags().VisitAll(write)
	return b.String()
}

// TestReadmeExitCodes holds the README's table of exit codes to the codes there are.
func TestReadmeExitCodes(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{exitDone, exitError, exitUsage, exitStructural, exitLeftBehind, exitPaused, exitInterrupted} {
		if row := fmt.Sprintf("\n| %d | ", code); !strings.Contains(string(text), row) {
			t.Errorf("%s does not explain exit code %d", readme, code)
		}
	}
}
