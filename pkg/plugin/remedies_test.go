package plugin

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestConnectionErrorsHaveARemedy checks the errors of servers that reject the user or have an unknown certificate.
func TestConnectionErrorsHaveARemedy(t *testing.T) {
	unauthorized := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusUnauthorized, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonUnauthorized, Code: http.StatusUnauthorized, Message: "Unauthorized",
		})
	}))
	defer unauthorized.Close()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	const brokenCA = `"certificate-authority-data":"YnJva2Vu",`
	for name, c := range map[string]struct{ server, authority, says string }{
		"a token that is not valid": {unauthorized.URL, "", "log in again, or renew the token of the kubeconfig's user"},
		"another authority":         {untrusted.URL, "", "check certificate-authority-data of the cluster in the kubeconfig"},
		"an authority that is none": {untrusted.URL, brokenCA, "check certificate-authority-data of the cluster in the kubeconfig"},
		"no server":                 {nowhere, "", "check --context and the network"},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig(t, c.server)
			file := os.Getenv("KUBECONFIG")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, bytes.Replace(text, []byte(`{"server":`), []byte("{"+c.authority+`"server":`), 1), 0o600); err != nil {
				t.Fatal(err)
			}
			_, stderr, code := invoke(t, "list")
			if code != exitError || !strings.HasSuffix(stderr, ": "+c.says+"\n") {
				t.Errorf("exit code %d, stderr %q, want %q", code, stderr, c.says)
			}
		})
	}
}

// TestReadsCanBeInterrupted interrupts commands while they read the cluster.
func TestReadsCanBeInterrupted(t *testing.T) {
	for _, c := range []struct{ command, while string }{
		{"list", "configmaps"},
		{"list", "nodes"},
		{"list -o json", "configmaps"},
		{"status", "configmaps"},
		{"check blue --current=image=v2", "pods"},
		{"plan blue --current=image=v2", "pods"},
		{"plan blue --current=image=v2 -o yaml", "services"},
		{"blue --current=image=v2 --yes", "pods"},
		{"pause blue", "configmaps"},
	} {
		t.Run(c.command+" "+c.while, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			s := closedBudget()
			s.refuse = func(_ http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/"+c.while) {
					return false
				}
				interrupt()
				<-r.Context().Done() // wait until the client closes the connection
				return true
			}
			s.serve(t)
			var stdout, stderr bytes.Buffer
			code := Run(ctx, strings.Fields(c.command), strings.NewReader(""), &stdout, &stderr)
			const want = "interrupted: nothing was touched"
			if code != exitInterrupted || !strings.HasSuffix(stderr.String(), want+"\n") || strings.Contains(stderr.String(), "error: ") {
				t.Errorf("exit code %d, stderr %q, want %q", code, stderr.String(), want)
			}
			if strings.Contains(c.command, "-o") && !strings.Contains(stdout.String(), want) {
				t.Errorf("stdout has no document that says %q: %q", want, stdout.String())
			}
			if len(s.sentRequests()) > 0 {
				t.Errorf("requests for changes were sent: %v", s.sentRequests())
			}
		})
	}
}

func TestListShowsUnknownPhaseIfRecordsAreForbidden(t *testing.T) {
	for forbidden, want := range map[string]string{"configmaps": "?", "": "-"} {
		s := closedBudget()
		s.refuse = forbidding(strings.Fields(forbidden)...)
		s.serve(t)
		table, stderr, code := invoke(t, "list", "--no-headers", "--current=image=v2")
		rows := strings.Split(strings.TrimSpace(table), "\n")
		if cells := strings.Fields(rows[0]); code != exitDone || len(rows) != 2 || len(cells) != 6 || cells[4] != want {
			t.Errorf("exit code %d, want the phase %q:\n%s", code, want, table)
		}
		isUnknown := forbidden != ""
		if strings.Contains(stderr, "phases are unknown: ") != isUnknown || strings.Contains(stderr, "ask for a role that allows it") != isUnknown {
			t.Errorf("%q is forbidden, stderr %q", forbidden, stderr)
		}
		document, _, _ := invoke(t, "list", "-o", "json", "--current=image=v2")
		if strings.Count(document, `"phaseUnknown": true`) != map[bool]int{true: 2}[isUnknown] {
			t.Errorf("%q is forbidden, got\n%s", forbidden, document)
		}
	}
}

// TestOnlyCheckListsItsOwnFormats: only the help and the errors of check name the formats that only check has.
func TestOnlyCheckListsItsOwnFormats(t *testing.T) {
	kubeconfig(t, nowhere)
	for _, format := range formatsOfCheck() {
		for args, want := range map[string]bool{"check --help": true, "check -o bogus": true, "list --help": false, "list -o bogus": false} {
			stdout, stderr, _ := invoke(t, strings.Fields(args)...)
			_, text, found := strings.Cut(stdout+stderr, "table, wide, json, yaml")
			text, _, _ = strings.Cut(text, "--") // the next flag
			if !found || strings.Contains(text, format) != want {
				t.Errorf("%s names the format %s: want %t, got %q", args, format, want, text)
			}
		}
	}
}

func TestHelpHidesFlagsThatCommandRejects(t *testing.T) {
	for command, flags := range map[string]string{
		"list": "node selector progress", "plan": "progress", "check": "progress compare", "status": "progress", "abort": "parallel-groups",
		"version": "node selector current provider cluster-name state-namespace control-plane progress",
	} {
		help, _, _ := invoke(t, command, "--help")
		for _, flag := range strings.Fields(flags) {
			if strings.Contains(help, "--"+flag+" ") {
				t.Errorf("%s --help shows --%s", command, flag)
			}
		}
	}
	for command, flags := range map[string]string{
		"upgrade": "node selector progress forecast dry-run yes", "check": "node selector filename", "list": "current output outdated", "abort": "dry-run report yes",
	} {
		help, _, _ := invoke(t, append(strings.Fields(command), "--help")...)
		for _, flag := range strings.Fields(flags) {
			if !strings.Contains(help, "--"+flag) {
				t.Errorf("%q --help does not show --%s", command, flag)
			}
		}
	}
}
