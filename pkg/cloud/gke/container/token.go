package container

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"k8s.io/client-go/rest"
)

// Token adds an access token to requests.
type Token interface {
	// Wrap returns a transport that sets the header Authorization and passes the request on to next. It may be used by several
	// goroutines.
	Wrap(next http.RoundTripper) (http.RoundTripper, error)
	// Remedy is what the user can do if the API does not accept the token.
	Remedy() string
}

// pluginName is the credential plugin that gcloud writes into kubeconfigs.
const pluginName = "gke-gcloud-auth-plugin"

// Scope is the OAuth scope that a token needs.
const Scope = "https://www.googleapis.com/auth/cloud-platform"

// FindToken returns the token of the kubeconfig if its user runs gke-gcloud-auth-plugin. Otherwise it returns one from
// application default credentials, which pods with Workload Identity have. config may be nil.
//
// FindToken runs no program. If there are no default credentials, it asks the metadata server, which may take seconds. The
// token is renewed as long as ctx has not ended.
func FindToken(ctx context.Context, config *rest.Config) (Token, error) {
	return tokenFinder{exec.LookPath, google.FindDefaultCredentials, os.Getenv}.find(ctx, config)
}

// tokenFinder has the functions that look for credentials on this machine.
type tokenFinder struct {
	lookPath    func(string) (string, error)
	findDefault func(context.Context, ...string) (*google.Credentials, error)
	getenv      func(string) string
}

func (f tokenFinder) find(ctx context.Context, config *rest.Config) (Token, error) {
	plugin := runsPlugin(config)
	if plugin {
		if _, err := f.lookPath(config.ExecProvider.Command); err == nil {
			return kubeconfigToken{config}, nil
		}
	}
	credentials, err := f.findDefault(ctx, Scope)
	switch {
	case err == nil:
		return newDefaultToken(credentials, f.getenv("GOOGLE_CLOUD_QUOTA_PROJECT")), nil
	case f.getenv("GOOGLE_APPLICATION_CREDENTIALS") != "":
		return nil, errors.New("finding credentials for the GKE API: the file of GOOGLE_APPLICATION_CREDENTIALS cannot be used: set it to a file with credentials of Google Cloud, or unset it")
	case plugin:
		return nil, errors.New("finding credentials for the GKE API: the kubeconfig's gke-gcloud-auth-plugin is not on the PATH, and there are no application default credentials: install the plugin with gcloud components install gke-gcloud-auth-plugin, or run gcloud auth application-default login")
	}
	return nil, errors.New("finding credentials for the GKE API: the kubeconfig does not use gke-gcloud-auth-plugin, and there are no application default credentials: run gcloud container clusters get-credentials, or gcloud auth application-default login")
}

// runsPlugin reports whether the user of a kubeconfig runs gke-gcloud-auth-plugin.
func runsPlugin(config *rest.Config) bool {
	if config == nil || config.ExecProvider == nil {
		return false
	}
	command := path.Base(strings.ReplaceAll(config.ExecProvider.Command, `\`, "/"))
	return strings.TrimSuffix(strings.ToLower(command), ".exe") == pluginName
}

// kubeconfigToken runs the credential plugin as client-go does. client-go keeps the plugin's answers for each configuration, so
// the client of the cluster and this one share a token.
type kubeconfigToken struct{ config *rest.Config }

// Wrap implements Token.
func (k kubeconfigToken) Wrap(next http.RoundTripper) (http.RoundTripper, error) {
	// The plugin's input contains the address and the certificate authority of the cluster. Other credentials, impersonation and
	// transports of the kubeconfig are for the cluster only.
	return rest.HTTPWrappersForConfig(&rest.Config{
		Host:               k.config.Host,
		ExecProvider:       k.config.ExecProvider,
		Proxy:              k.config.Proxy,
		DisableCompression: k.config.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: k.config.Insecure, ServerName: k.config.ServerName, CAFile: k.config.CAFile, CAData: k.config.CAData,
		},
	}, next)
}

// Remedy implements Token.
func (k kubeconfigToken) Remedy() string {
	for _, arg := range k.config.ExecProvider.Args {
		if strings.Contains(arg, "use_application_default_credentials") {
			return defaultRemedy
		}
	}
	return "sign in with gcloud auth login"
}

const defaultRemedy = "sign in with gcloud auth application-default login, or check the service account of the machine or pod"

// defaultToken is a token of application default credentials.
type defaultToken struct {
	source oauth2.TokenSource
	// quotaProject is the project that pays for the requests, or "".
	quotaProject string
}

func newDefaultToken(credentials *google.Credentials, quotaProject string) defaultToken {
	var file struct {
		QuotaProject string `json:"quota_project_id"`
	}
	if quotaProject == "" && json.Unmarshal(credentials.JSON, &file) == nil {
		quotaProject = file.QuotaProject
	}
	return defaultToken{oauth2.ReuseTokenSource(nil, credentials.TokenSource), quotaProject}
}

// Wrap implements Token.
func (d defaultToken) Wrap(next http.RoundTripper) (http.RoundTripper, error) {
	signed := &oauth2.Transport{Source: d.source, Base: next}
	if d.quotaProject == "" {
		return signed, nil
	}
	return quotaTransport{d.quotaProject, signed}, nil
}

// Remedy implements Token.
func (d defaultToken) Remedy() string { return defaultRemedy }

// quotaTransport names the project that pays for the requests, as Google's own clients do.
type quotaTransport struct {
	project string
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (q quotaTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Goog-User-Project", q.project)
	return q.next.RoundTrip(r)
}
