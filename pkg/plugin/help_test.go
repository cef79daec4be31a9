package plugin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestHelpTextsEqualGoldenFiles: the golden files make changes of the help visible in a review.
func TestHelpTextsEqualGoldenFiles(t *testing.T) {
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

func TestHelpFitsTerminalAndListsFlagsUnderHeadings(t *testing.T) {
	kubeconfig(t, nowhere)
	root := NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	for _, cmd := range append(root.Commands(), root) {
		t.Run(cmd.Name(), func(t *testing.T) {
			args := strings.Fields(cmd.CommandPath() + " --help")[2:]
			help, _, _ := invoke(t, args...)
			for line := range strings.Lines(help) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			if !cmd.HasParent() {
				if n := strings.Count(help, "\n"); n > 60 {
					t.Errorf("it has %d lines, want 60 at most", n)
				}
				for _, form := range []string{"list", "plan", "upgrade"} { // the root command has the flags of all three
					of, _, _ := invoke(t, "help", form)
					help += of
				}
			}
			isRefused := func(flag string) bool {
				return slices.ContainsFunc(listFlagsIgnoredByCommand(), func(row ignoredFlags) bool { return row.applies(cmd, nil) && slices.Contains(row.flags, flag) })
			}
			wanted := func(f *pflag.Flag) {
				if !f.Hidden && !isRefused(f.Name) && f.Name != "help" && !strings.Contains(help, " --"+f.Name) {
					t.Errorf("--%s is under no heading", f.Name)
				}
			}
			cmd.LocalFlags().VisitAll(wanted)
			cmd.InheritedFlags().VisitAll(wanted)
			if !strings.Contains(help, "kubectl nodeupgrade options") {
				t.Error("the connection flags are not pointed to")
			}
		})
	}
}

func TestHelpListsExitCodes(t *testing.T) {
	help, _, _ := invoke(t, "--help")
	for _, code := range []int{exitDone, exitError, exitUsage, exitStructural, exitLeftBehind, exitPaused, exitWaiting, exitInterrupted} {
		if row := fmt.Sprintf("\n  %-4d ", code); !strings.Contains(help, row) {
			t.Errorf("exit code %d is missing", code)
		}
	}
}

// TestUnsupportedFlagsExplainThemselves checks flags that users know from other commands. The error must explain why
// they do not exist.
func TestUnsupportedFlagsExplainThemselves(t *testing.T) {
	for _, args := range [][]string{{"-n", "web"}, {"status", "--namespace=web"}, {"-A"}, {"status", "--all-namespaces"}} {
		_, stderr, code := invoke(t, args...)
		if code != exitUsage || !strings.Contains(stderr, "nodes have no namespace") {
			t.Errorf("%q: exit code %d, stderr %q", args, code, stderr)
		}
	}
}

// TestErrorNamesMissingKubeconfig: the error must not be about an API server on localhost.
func TestErrorNamesMissingKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent/config")
	_, stderr, code := invoke(t)
	want := "error: reading the kubeconfig: no cluster is named in /nonexistent/config: set KUBECONFIG, or pass --kubeconfig\n"
	if code != exitUsage || stderr != want {
		t.Errorf("exit code %d, stderr %q, want %q", code, stderr, want)
	}
	kubeconfig(t, nowhere)
	if _, stderr, _ := invoke(t); !strings.Contains(stderr, "reaching the API server at "+nowhere) {
		t.Errorf("with one: %q", stderr)
	}
	t.Setenv("KUBECONFIG", "/nonexistent/config")
	if _, stderr, _ := invoke(t, "--server="+nowhere); !strings.Contains(stderr, "reaching the API server at "+nowhere) {
		t.Errorf("with a server: %q", stderr)
	}
}

// TestHelpNamesThePlugin checks that the help uses the name kubectl nodeupgrade, whatever the binary's name.
func TestHelpNamesThePlugin(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"status", "--help"}, {"help", "status"}} {
		stdout, _, _ := invoke(t, args...)
		if !strings.Contains(stdout, "\n  kubectl nodeupgrade ") || strings.Contains(stdout, "kubectl-nodeupgrade ") {
			t.Errorf("%q:\n%s", args, stdout)
		}
	}
}

// TestConnectionFlagsAreListedSeparately checks that every command accepts kubectl's flags, and that only options lists
// them.
func TestConnectionFlagsAreListedSeparately(t *testing.T) {
	help, _, _ := invoke(t, "upgrade", "--help")
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

func TestVersionPrintsOneLine(t *testing.T) {
	stdout, stderr, code := invoke(t, "version")
	if code != exitDone || stderr != "" || !strings.HasPrefix(stdout, "kubectl-nodeupgrade ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestVersionAsJSONIsOneDocument(t *testing.T) {
	stdout, stderr, code := invoke(t, "version", "-o", "json")
	var got struct{ Kind, Version, Go, Platform string }
	decodeOneDocument(t, stdout, &got)
	if code != exitDone || stderr != "" || got.Kind != "Version" || got.Version == "" || !strings.Contains(got.Platform, "/") {
		t.Errorf("exit code %d, stderr %q, got %+v", code, stderr, got)
	}
}

// TestUserAgentNamesProgramVersionAndPlatform: audit logs show the user agent.
func TestUserAgentNamesProgramVersionAndPlatform(t *testing.T) {
	if got := makeUserAgent(); !regexp.MustCompile(`^kubectl-nodeupgrade/\S+ \([a-z0-9]+/[a-z0-9]+\)$`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}
