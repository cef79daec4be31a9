// Package stub runs the printed commands of the product in a real shell, with programs that only record their calls.
package stub

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// HostileWords returns names that must be quoted. Without quotes, a shell runs them or a program reads them as flags.
func HostileWords() []string {
	return []string{
		"plain", "", "a b", "a  b", "$HOME", "$(touch ran)", "`touch ran`", "; touch ran", "&& touch ran", "| touch ran", "> ran",
		"it's", `"`, `\`, "#", "~", "*", "!", "a\nb", "\ttab", "{a,b}", "(a)", "-x", "--takeover", "--", "ümläut", "é$",
		"a\nb's 100% \\n", "-a\n$(touch ran)\"", "\x1b[31m", "a\u202eb", "a\n",
	}
}

// programs lists the programs that printed commands call.
func programs() []string { return []string{"kubectl", "aws", "touch"} }

// record is a program that appends its name and its arguments to the file $CALLS. It writes a zero byte after each of them. Each
// call ends with the byte 1 and another zero byte.
const record = `#!/bin/sh
for word in "${0##*/}" "$@"; do printf '%s\0' "$word" >>"$CALLS"; done
printf '\001\0' >>"$CALLS"
`

// RunCommands runs a script with sh and returns the calls of programs, each with its arguments. Hostile words call touch, which
// is recorded like any other program, or write a file, which fails the test.
func RunCommands(t testing.TB, script string) [][]string {
	t.Helper()
	bin, dir, calls := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "calls")
	for _, name := range programs() {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(record), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin, "CALLS=" + calls, "HOME=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("running %s: %v: %s", script, err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("running %s wrote %v (%v)", script, left, err)
	}
	text, err := os.ReadFile(calls)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return splitCalls(string(text))
}

func splitCalls(text string) [][]string {
	var calls [][]string
	for call := range strings.SplitSeq(text, "\001\000") {
		if call != "" {
			calls = append(calls, strings.Split(strings.TrimSuffix(call, "\x00"), "\x00"))
		}
	}
	return calls
}
