package plugin

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// completions returns what the shell would offer. cobra writes one line on stderr for debugging; any other text on
// stderr would disturb the user.
func completions(t *testing.T, args ...string) []string {
	t.Helper()
	var out, errOut bytes.Buffer
	code := Run(t.Context(), append([]string{"__complete"}, args...), strings.NewReader(""), &out, &errOut)
	noFiles := []string{":4", ":6"} // :6 also adds no space, because a value follows
	lines := strings.Fields(out.String())
	if code != exitDone || len(lines) == 0 || !slices.Contains(noFiles, lines[len(lines)-1]) {
		t.Errorf("exit code %d, stdout %q, want file names not to be offered", code, out.String())
		return nil
	}
	if text := errOut.String(); strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "Completion ended with directive") {
		t.Errorf("stderr: %q", text)
	}
	return lines[:len(lines)-1]
}

func TestCompletionOffersGroupsNotYetNamed(t *testing.T) {
	twoGroups().serve(t)
	cases := map[string]struct {
		args []string
		want string
	}{
		"nothing typed":            {[]string{""}, "blue green"},
		"the first letter":         {[]string{"g"}, "green"},
		"nothing that begins so":   {[]string{"x"}, ""},
		"a group that is given":    {[]string{"blue", ""}, "green"},
		"with the prefix":          {[]string{"nodegroup/"}, "nodegroup/blue nodegroup/green"},
		"with the prefix and more": {[]string{"nodegroup/b"}, "nodegroup/blue"},
		"given with the prefix":    {[]string{"nodegroup/blue", ""}, "green"},
		"of status":                {[]string{"status", "b"}, "blue"},
		"of a plan":                {[]string{"plan", ""}, "blue green"},
		"of an upgrade":            {[]string{"upgrade", "g"}, "green"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var groups []string
			for _, word := range completions(t, c.args...) {
				if strings.HasPrefix(word, "blue") || strings.HasPrefix(word, "green") || strings.HasPrefix(word, nodegroup.Prefix) {
					groups = append(groups, word)
				}
			}
			if got := strings.Join(groups, " "); got != c.want {
				t.Errorf("offered %q, want %q", got, c.want)
			}
		})
	}
}

func TestCompletionOffersFlagValues(t *testing.T) {
	twoGroups().serve(t)
	cases := map[string]struct {
		args []string
		want string
	}{
		"what happens in the end":   {[]string{"blue", "--on-timeout", ""}, "fail force skip"},
		"with an equals sign":       {[]string{"blue", "--on-timeout=f"}, "fail force"},
		"a model":                   {[]string{"blue", "--like="}, "eks gke"},
		"a strategy":                {[]string{"blue", "--strategy="}, "surge blue-green autoscaled-blue-green short-lived delegated"},
		"a provider":                {[]string{"--provider="}, "auto aws gke karpenter manual"},
		"a way to show progress":    {[]string{"blue", "--progress", "p"}, "plain"},
		"a kind of plan":            {[]string{"blue", "--dry-run="}, "none client server"},
		"pods of nobody":            {[]string{"blue", "--unmanaged-pods="}, "refuse evict"},
		"a format":                  {[]string{"-o", "j"}, "json jsonpath="},
		"a format of a status":      {[]string{"status", "-o", "y"}, "yaml"},
		"a format of a check":       {[]string{"check", "-o", "pa"}, "patch"},
		"a format for CI":           {[]string{"check", "-o", "s"}, "sarif"},
		"no format of a list":       {[]string{"list", "-o", "pa"}, ""},
		"a label":                   {[]string{"-l", "im"}, "image="},
		"its value":                 {[]string{"-l", "image="}, "image=v1 image=v2"},
		"of two labels":             {[]string{"--current", "a=b,image=v1"}, "a=b,image=v1"},
		"a colour":                  {[]string{"list", "--color", "a"}, "auto always"},
		"a group of the example":    {[]string{"simulate", "w"}, "workers"},
		"a group of a dump":         {[]string{"simulate", "-f", "testdata/dumps/five.json", ""}, "workers"},
		"a group of a dump's check": {[]string{"check", "-f", "testdata/dumps/five.json", ""}, "workers"},
		"a command":                 {[]string{"help", "pl"}, "plan"},
		"a node":                    {[]string{"--node", "b"}, "b1 b2"},
		"a context":                 {[]string{"--context", ""}, "test"},
		"a number":                  {[]string{"blue", "--max-surge", ""}, ""},
		"a time":                    {[]string{"blue", "--settle", ""}, ""},
		"of a simulation":           {[]string{"simulate", "--on-timeout", "s"}, "skip"},
		"what a rollback goes to":   {[]string{"rollback", "--to", ""}, ""},
		"what a rollback would do":  {[]string{"rollback", "--dry-run=c"}, "client"},
		"a namespace that is there": {[]string{"--state-namespace", ""}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(completions(t, c.args...), " "); got != c.want {
				t.Errorf("offered %q, want %q", got, c.want)
			}
		})
	}
}

// TestNameOfCompletionLinkRequestsCompletion runs the binary under the name that kubectl uses for completions.
func TestNameOfCompletionLinkRequestsCompletion(t *testing.T) {
	cases := map[string]struct{ process, want []string }{
		"the plugin": {[]string{"/bin/kubectl-nodeupgrade", "status"}, []string{"status"}},
		"completion": {[]string{"/bin/kubectl_complete-nodeupgrade", "status", ""}, []string{"__complete", "status", ""}},
		"on Windows": {[]string{"kubectl_complete-nodeupgrade.exe", ""}, []string{"__complete", ""}},
		"not at all": {[]string{"kubectl-nodeupgrade"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Arguments(c.process); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCompletionPrintsNoErrors(t *testing.T) {
	forbid := func(path string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			w.Header().Set("Warning", `299 - "be warned"`)
			http.Error(w, "no", http.StatusForbidden)
			return true
		}
	}
	cases := map[string]func(*testing.T){
		"no server":           func(t *testing.T) { kubeconfig(t, nowhere) },
		"no kubeconfig":       func(t *testing.T) { t.Setenv("KUBECONFIG", "/nonexistent/config"); t.Setenv("HOME", t.TempDir()) },
		"no right to connect": func(t *testing.T) { (&apiServer{refuse: forbid("/version")}).serve(t) },
		"no right to list":    func(t *testing.T) { (&apiServer{refuse: forbid("/api/v1/nodes")}).serve(t) },
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			prepare(t)
			if got := completions(t, "workers", "b"); len(got) > 0 {
				t.Errorf("offered %q", got)
			}
		})
	}
}

// TestCompletionTimesOut uses servers that accept the request and never answer.
func TestCompletionTimesOut(t *testing.T) {
	for _, path := range []string{"/version", "/api/v1/nodes"} {
		s := &apiServer{refuse: func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				<-r.Context().Done()
			}
			return r.URL.Path == path
		}}
		s.serve(t)
		start := time.Now()
		if got := completions(t, "workers", "b"); len(got) > 0 {
			t.Errorf("offered %q", got)
		}
		if took := time.Since(start); took < completionLimit || took > 3*completionLimit {
			t.Errorf("%s: it took %s, want %s", path, took, completionLimit)
		}
	}
}

// TestConnectCanBeInterrupted interrupts a command whose server does not answer.
func TestConnectCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &apiServer{refuse: func(_ http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	}}
	s.serve(t)
	var out, errOut bytes.Buffer
	code := Run(ctx, []string{}, strings.NewReader(""), &out, &errOut)
	if code != exitInterrupted || strings.Count(errOut.String(), "\n") != 1 {
		t.Errorf("exit code %d, stderr %q, want %d and one line", code, errOut.String(), exitInterrupted)
	}
}

// TestStatusCompletionOffersOnlyOneGroup: status takes no second group.
func TestStatusCompletionOffersOnlyOneGroup(t *testing.T) {
	s := twoGroups()
	s.serve(t)
	for want, args := range map[string][]string{"blue\ngreen\n:4\n": {""}, ":4\n": {"blue", ""}} {
		if stdout, _, _ := invoke(t, append([]string{"__complete", "status"}, args...)...); stdout != want {
			t.Errorf("status %v: got %q, want %q", args, stdout, want)
		}
	}
}
