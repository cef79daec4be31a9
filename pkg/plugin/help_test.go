package plugin

import (
	"strings"
	"testing"
)

// TestHelp holds the help texts to files, so that a change of them is seen in review.
func TestHelp(t *testing.T) {
	kubeconfig(t, nowhere)
	cases := map[string][]string{
		"help":          {"--help"},
		"help-status":   {"status", "--help"},
		"help-simulate": {"simulate", "--help"},
		"help-version":  {"version", "--help"},
		"help-pause":    {"pause", "--help"},
		"help-resume":   {"resume", "--help"},
		"help-rollback": {"rollback", "--help"},
		"help-abort":    {"abort", "--help"},
		"help-complete": {"complete", "--help"},
		"help-options":  {"options", "--help"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := invoke(t, args...)
			if code != exitDone || stderr != "" {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			golden(t, "testdata/"+name+".txt", stdout)
		})
	}
}

// TestHelpNamesThePlugin as its users call it, whatever the binary is called.
func TestHelpNamesThePlugin(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"status", "--help"}, {"help", "status"}} {
		stdout, _, _ := invoke(t, args...)
		if !strings.Contains(stdout, "\n  kubectl nodeupgrade ") || strings.Contains(stdout, "kubectl-nodeupgrade ") {
			t.Errorf("%q:\n%s", args, stdout)
		}
	}
}

// TestConnectionFlagsAreApart holds kubectl's own flags to being understood everywhere and listed once.
func TestConnectionFlagsAreApart(t *testing.T) {
	help, _, _ := invoke(t, "--help")
	options, _, code := invoke(t, "options")
	if code != exitDone {
		t.Errorf("exit code %d", code)
	}
	for _, flag := range []string{"--as ", "--token ", "--insecure-skip-tls-verify", "--request-timeout "} {
		if strings.Contains(help, flag) || !strings.Contains(options, flag) {
			t.Errorf("%s: in the help: %t, in the options: %t; want the options alone", flag, strings.Contains(help, flag), strings.Contains(options, flag))
		}
	}
	for _, flag := range []string{"--context ", "--kubeconfig "} {
		if !strings.Contains(help, flag) {
			t.Errorf("the help lacks %s", flag)
		}
	}
}

func TestVersion(t *testing.T) {
	stdout, stderr, code := invoke(t, "version")
	if code != exitDone || stderr != "" || !strings.HasPrefix(stdout, "kubectl-nodeupgrade ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
