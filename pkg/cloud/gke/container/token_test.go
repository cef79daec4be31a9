package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"k8s.io/client-go/rest"
	api "k8s.io/client-go/tools/clientcmd/api"
)

func TestKubeconfigsOfThePlugin(t *testing.T) {
	for command, want := range map[string]bool{
		"gke-gcloud-auth-plugin": true, "/usr/lib/google-cloud-sdk/bin/gke-gcloud-auth-plugin": true,
		`C:\sdk\bin\gke-gcloud-auth-plugin.EXE`: true, "aws": false, "gke-gcloud-auth-plugin-2": false, "": false,
	} {
		if got := runsPlugin(&rest.Config{ExecProvider: &api.ExecConfig{Command: command}}); got != want {
			t.Errorf("%s: got %v", command, got)
		}
	}
	if runsPlugin(nil) || runsPlugin(&rest.Config{}) {
		t.Error("a kubeconfig without a command runs the plugin")
	}
}

func TestFindToken(t *testing.T) {
	plugin := &rest.Config{ExecProvider: &api.ExecConfig{Command: pluginName}}
	noPlugin := func(string) (string, error) { return "", errors.New("not found") }
	hasPlugin := func(name string) (string, error) { return "/bin/" + name, nil }
	noDefault := func(context.Context, ...string) (*google.Credentials, error) { return nil, errors.New("see the page") }
	hasDefault := func(_ context.Context, scopes ...string) (*google.Credentials, error) {
		if len(scopes) != 1 || scopes[0] != "https://www.googleapis.com/auth/cloud-platform" {
			t.Errorf("the scopes are %q", scopes)
		}
		return &google.Credentials{TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: secret}), JSON: []byte(`{"quota_project_id":"payer"}`)}, nil
	}
	none := func(string) string { return "" }
	cases := map[string]struct {
		finder tokenFinder
		config *rest.Config
		want   string
	}{
		"the plugin":                  {tokenFinder{hasPlugin, hasDefault, none}, plugin, "sign in with gcloud auth login"},
		"the plugin is missing":       {tokenFinder{noPlugin, hasDefault, none}, plugin, defaultRemedy},
		"another plugin":              {tokenFinder{hasPlugin, hasDefault, none}, &rest.Config{ExecProvider: &api.ExecConfig{Command: "aws"}}, defaultRemedy},
		"inside a pod":                {tokenFinder{hasPlugin, hasDefault, none}, &rest.Config{BearerTokenFile: "/var/run/token"}, defaultRemedy},
		"no kubeconfig":               {tokenFinder{hasPlugin, hasDefault, none}, nil, defaultRemedy},
		"neither":                     {tokenFinder{noPlugin, noDefault, none}, plugin, "is not on the PATH, and there are no application default credentials: install the plugin with gcloud components install gke-gcloud-auth-plugin, or run gcloud auth application-default login"},
		"no plugin in the kubeconfig": {tokenFinder{hasPlugin, noDefault, none}, nil, "does not use gke-gcloud-auth-plugin, and there are no application default credentials: run gcloud"},
		"a bad file":                  {tokenFinder{noPlugin, noDefault, func(string) string { return "/etc/key.json" }}, plugin, "GOOGLE_APPLICATION_CREDENTIALS cannot be used: set it"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			token, err := c.finder.find(t.Context(), c.config)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = token.Remedy()
			}
			if !strings.Contains(got, c.want) || err != nil && !strings.HasPrefix(got, "finding credentials for the GKE API: ") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRemedyNamesTheCredentialsOfThePlugin(t *testing.T) {
	token := kubeconfigToken{&rest.Config{ExecProvider: &api.ExecConfig{Command: pluginName, Args: []string{"--use_application_default_credentials"}}}}
	if token.Remedy() != defaultRemedy {
		t.Errorf("got %q", token.Remedy())
	}
}

// writePlugin writes a program gke-gcloud-auth-plugin that runs a script, and returns its path.
func writePlugin(t *testing.T, script string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the plugin is a shell script")
	}
	path := filepath.Join(t.TempDir(), pluginName)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// pluginClient returns a client with the token of a plugin. The kubeconfig also has settings that are only for the cluster.
func pluginClient(t *testing.T, script string, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	config := &rest.Config{
		Host: "https://10.0.0.1", UserAgent: "kubectl", Username: "admin", Password: "hunter2",
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte("the cluster's authority"), CertData: []byte("c"), KeyData: []byte("k")},
		Impersonate:     rest.ImpersonationConfig{UserName: "jane"},
		WrapTransport: func(http.RoundTripper) http.RoundTripper {
			t.Error("the cluster's transport was used")
			return http.DefaultTransport
		},
		ExecProvider: &api.ExecConfig{
			Command: writePlugin(t, script), APIVersion: "client.authentication.k8s.io/v1", ProvideClusterInfo: true,
			InteractiveMode: api.NeverExecInteractiveMode, InstallHint: "Install it\nthen run it",
		},
	}
	token, err := FindToken(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := New(Options{
		Token: token, Endpoint: server.URL, UserAgent: "test/1", Transport: server.Client().Transport,
		Sleep: func(context.Context, time.Duration) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// credential is a line of shell that prints an exec credential with a token.
func credential(token, expires string) string {
	return `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"` + token + `","expirationTimestamp":"` + expires + `"}}'`
}

func TestPluginsTokenIsSent(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	input := filepath.Join(t.TempDir(), "input")
	script := "echo run >> " + runs + "\necho \"$KUBERNETES_EXEC_INFO\" > " + input + "\n" + credential(secret, "2999-01-01T00:00:00Z")
	client := pluginClient(t, script, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+secret {
			t.Errorf("Authorization is %q", got)
		}
		if r.UserAgent() != "test/1" || r.Header.Get("Impersonate-User") != "" {
			t.Errorf("the headers are %v", r.Header)
		}
		_, _ = io.WriteString(w, `{"name":"web"}`)
	})
	for range 3 {
		if _, err := client.GetNodePool(t.Context(), testPool()); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(runs); string(got) != "run\n" {
		t.Errorf("the plugin ran %d times", strings.Count(string(got), "\n"))
	}
	if got, _ := os.ReadFile(input); !strings.Contains(string(got), `"server":"https://10.0.0.1"`) {
		t.Errorf("the plugin got %s", got)
	}
}

// TestPluginRunsAgainAfterRefusedToken has a plugin with another token for each run. The server refuses the first.
func TestPluginRunsAgainAfterRefusedToken(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	script := "echo run >> " + runs + `
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"token-%s"}}' $(grep -c run ` + runs + ")"
	client := pluginClient(t, script, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token-2" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"expired"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"name":"web"}`)
	})
	if _, err := client.GetNodePool(t.Context(), testPool()); err != nil {
		t.Error(err)
	}
}

func TestFailuresOfThePlugin(t *testing.T) {
	cases := map[string]struct{ script, want string }{
		"exit code":     {"echo " + secret + "; exit 3", "failed with exit code 3: sign in with gcloud auth login"},
		"no JSON":       {"echo " + secret, "decoding stdout"},
		"a bare token":  {"echo ya29.a0AfB_by", "decoding stdout"},
		"no token":      {credential("", "2999-01-01T00:00:00Z"), "didn't return a token"},
		"another kind":  {`echo '{"apiVersion":"v1","kind":"Pod"}'`, "getting credentials"},
		"wrong version": {`echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"` + secret + `"}}'`, "API version"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client := pluginClient(t, c.script, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
			_, err := client.GetNodePool(t.Context(), testPool())
			if ClassOf(err) != ClassUnauthenticated || !strings.Contains(err.Error(), c.want) || errors.Unwrap(err) != nil {
				t.Errorf("got %v", err)
			}
			if text := err.Error(); strings.Contains(text, "ya29") || strings.Contains(text, secret) || strings.Contains(text, "\n") || strings.Contains(text, "Install it") {
				t.Errorf("the text is %q", text)
			}
		})
	}
}

func TestHangingPluginEndsWithTheContext(t *testing.T) {
	client := pluginClient(t, "exec sleep 1", func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := client.GetNodePool(ctx, testPool())
	if ClassOf(err) != ClassUnavailable || !strings.Contains(err.Error(), "no credentials in time") || time.Since(began) > 900*time.Millisecond {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
}

// sourceFunc is a source of tokens.
type sourceFunc func() (*oauth2.Token, error)

func (f sourceFunc) Token() (*oauth2.Token, error) { return f() }

func defaultClient(t *testing.T, source sourceFunc, quotaProject string, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	client, err := New(Options{
		Token:    newDefaultToken(&google.Credentials{TokenSource: source, JSON: []byte(`{"quota_project_id":"from-file"}`)}, quotaProject),
		Endpoint: server.URL, Transport: server.Client().Transport, Sleep: func(context.Context, time.Duration) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestDefaultCredentialsAreSent(t *testing.T) {
	for variable, want := range map[string]string{"": "from-file", "from-env": "from-env"} {
		var renewed atomic.Int32
		source := func() (*oauth2.Token, error) {
			renewed.Add(1)
			return &oauth2.Token{AccessToken: secret, Expiry: time.Now().Add(time.Hour)}, nil
		}
		client := defaultClient(t, source, variable, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+secret || r.Header.Get("X-Goog-User-Project") != want {
				t.Errorf("the headers are %v", r.Header)
			}
			_, _ = io.WriteString(w, `{"name":"web"}`)
		})
		for range 3 {
			if _, err := client.GetNodePool(t.Context(), testPool()); err != nil {
				t.Fatal(err)
			}
		}
		if renewed.Load() != 1 {
			t.Errorf("the token was renewed %d times", renewed.Load())
		}
	}
}

func TestFailuresOfDefaultCredentials(t *testing.T) {
	answer := func(code int) *http.Response { return &http.Response{StatusCode: code, Status: fmt.Sprint(code)} }
	cases := map[string]struct {
		err      error
		class    Class
		requests int32
		want     string
	}{
		"refused":             {&oauth2.RetrieveError{Response: answer(400), ErrorCode: "invalid_grant", Body: []byte(secret)}, ClassUnauthenticated, 1, "it was refused (invalid_grant): sign in with gcloud auth application-default login"},
		"refused with a page": {&oauth2.RetrieveError{Response: answer(400), Body: []byte(secret)}, ClassUnauthenticated, 1, "it was refused: sign in"},
		"server failed":       {&oauth2.RetrieveError{Response: answer(503), Body: []byte(secret)}, ClassUnavailable, 6, "the token server answered 503"},
		"no network":          {&net.OpError{Op: "dial", Err: errors.New("no route")}, ClassUnavailable, 6, "no route"},
		"another failure":     {errors.New("no file\n" + secret), ClassUnauthenticated, 1, "no file: sign in"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			source := func() (*oauth2.Token, error) { asked.Add(1); return nil, c.err }
			client := defaultClient(t, source, "", func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
			_, err := client.GetNodePool(t.Context(), testPool())
			if ClassOf(err) != c.class || !strings.Contains(err.Error(), c.want) || asked.Load() != c.requests {
				t.Errorf("got %v after %d requests", err, asked.Load())
			}
			if printed := fmt.Sprintf("%v %v", err, errors.Unwrap(err)); strings.Contains(printed, secret) {
				t.Errorf("the error contains the token: %s", printed)
			}
		})
	}
}

func TestEmptyTokenIsNotSent(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer server.Close()
	client, err := New(Options{Token: staticToken(""), Endpoint: server.URL, Transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetNodePool(t.Context(), testPool()); ClassOf(err) != ClassUnauthenticated || !strings.HasSuffix(err.Error(), "contain no access token: sign in") {
		t.Error(err)
	}
}
