package hostile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Cluster starts a front before the API server of the kubeconfig, with the kubeconfig's rights. It runs until the context ends or
// Close. Clients use Front.Kubeconfig, over HTTP/1.1. It returns an error if the kubeconfig is invalid or if it cannot write the
// new one. It does not check whether the server is running.
func Cluster(ctx context.Context, kubeconfig string, plan Plan) (*Front, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig to stand before: %w", err)
	}
	config.DisableCompression = true // answers are passed on unchanged
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("logging in to %s: %w", config.Host, err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig to stand before: %w", err)
	}
	f := open(kubernetes(rand.Text()), target, transport, plan)
	f.server.StartTLS()
	f.URL = f.server.URL
	if err := f.writeKubeconfig(); err != nil {
		f.Close()
		return nil, err
	}
	context.AfterFunc(ctx, f.Close)
	return f, nil
}

func (f *Front) writeKubeconfig() error {
	var err error
	if f.folder, err = os.MkdirTemp("", "nodeupgrade-hostile-"); err != nil {
		return fmt.Errorf("making a folder for the kubeconfig: %w", err)
	}
	f.Kubeconfig = filepath.Join(f.folder, "kubeconfig")
	const name = "hostile"
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: f.URL, CertificateAuthorityData: authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: f.api.token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: metav1.NamespaceDefault}},
		CurrentContext: name,
	}, f.Kubeconfig)
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of the front: %w", err)
	}
	return nil
}

func kubernetes(token string) api {
	return api{
		token: token,
		key:   func(r *http.Request) (string, error) { return r.Method + " " + r.URL.Path, nil },
		write: Write, watch: Watch, answer: answerStatus,
	}
}

// Write reports whether a request to a Kubernetes API may change stored data. Dry runs in the query and reviews of the user's own
// rights do not.
func Write(r *http.Request) bool {
	return slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method) &&
		!r.URL.Query().Has("dryRun") && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/")
}

// Watch reports whether a request to a Kubernetes API is a watch.
func Watch(r *http.Request) bool {
	watch, err := strconv.ParseBool(r.URL.Query().Get("watch"))
	return err == nil && watch
}

// Read reports whether a request to a Kubernetes API is neither a write nor a watch.
func Read(r *http.Request) bool { return r.Method == http.MethodGet && !Watch(r) }

// answerStatus answers as the API server does, with a Status. For 429 it answers with plain text, because Priority and Fairness
// sends 429 before the request is processed (apiserver, server/filters/priority-and-fairness.go).
func answerStatus(w http.ResponseWriter, _ *http.Request, h Harm) {
	if h.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(h.RetryAfter/time.Second)))
	}
	if h.Status == http.StatusTooManyRequests {
		w.Header().Set("X-Kubernetes-PF-FlowSchema-UID", "5c3a7a3c-1c9f-4f0e-9d64-0f2f6f0f6d11")
		w.Header().Set("X-Kubernetes-PF-PriorityLevel-UID", "a1a1e2b4-63a5-4b83-8f5a-2d1f4f4b9c22")
		http.Error(w, "Too many requests, please try again later.", h.Status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(h.Status)
	_ = json.NewEncoder(w).Encode(statusOf(h.Status)) // a client that has disconnected needs no answer
}

func statusOf(code int) metav1.Status {
	cause := errors.New("said by a hostile front")
	var err *apierrors.StatusError
	switch code {
	case http.StatusUnauthorized:
		err = apierrors.NewUnauthorized(cause.Error())
	case http.StatusForbidden:
		err = apierrors.NewForbidden(schema.GroupResource{}, "", cause)
	case http.StatusConflict:
		err = apierrors.NewConflict(schema.GroupResource{}, "", cause)
	case http.StatusServiceUnavailable:
		err = apierrors.NewServiceUnavailable(cause.Error())
	case http.StatusGatewayTimeout:
		err = apierrors.NewTimeoutError(cause.Error(), 0)
	default:
		err = apierrors.NewInternalError(cause)
		err.ErrStatus.Code = int32(code)
	}
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return status
}
