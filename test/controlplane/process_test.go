package controlplane

import (
	"context"
	"os/exec"
	"strings"
	"testing"
)

func TestLastLinesReturnsNoMoreLinesThanRequested(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		lines int
		want  string
	}{
		"fewer than asked for":     {"a\nb\n", 5, "a\nb"},
		"as many as asked for":     {"a\nb\n", 2, "a\nb"},
		"more than asked for":      {"a\nb\nc\n", 2, "b\nc"},
		"without an end of line":   {"a\nb\nc", 1, "c"},
		"empty lines in between":   {"a\n\nc\n", 2, "\nc"},
		"nothing":                  {"", 3, ""},
		"nothing but ends of line": {"\n\n", 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(lastLines([]byte(test.text), test.lines)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestErrorOfExitedProcessContainsItsOutput(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	p, err := startProcess(t.TempDir(), sh, []string{"-c", "echo no such flag >&2; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := cancelOnExit(t.Context(), p)
	defer cancel()
	<-ctx.Done()
	got := context.Cause(ctx).Error()
	for _, want := range []string{"running sh", "exit status 3", "no such flag"} {
		if !strings.Contains(got, want) {
			t.Errorf("error %q does not say %q", got, want)
		}
	}
	killAll([]*process{p}) // it has already exited, so kill must return
}

func TestStartOfMissingProgramFails(t *testing.T) {
	if _, err := startProcess(t.TempDir(), "/missing/etcd", nil); err == nil {
		t.Error("starting a program that does not exist succeeded")
	}
}
