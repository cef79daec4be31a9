package hostile_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

// origin is a server that records its requests.
type origin struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

// secure starts an origin over TLS that requires client certificates, and returns a kubeconfig for it.
func secure(t *testing.T, handle http.HandlerFunc) (o *origin, kubeconfig string) {
	t.Helper()
	o = &origin{}
	o.Server = httptest.NewUnstartedServer(o.remember(handle))
	o.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	o.StartTLS()
	t.Cleanup(o.Close)
	return o, writeKubeconfig(t, o.Server)
}

// plain starts an origin over HTTP.
func plain(t *testing.T, handle http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{}
	o.Server = httptest.NewServer(o.remember(handle))
	t.Cleanup(o.Close)
	return o
}

func (o *origin) remember(handle http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.seen = append(o.seen, r)
		o.mu.Unlock()
		handle(w, r)
	})
}

func (o *origin) requests() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*http.Request(nil), o.seen...)
}

// writeKubeconfig writes a kubeconfig that uses the server's own certificate as the client's.
func writeKubeconfig(t *testing.T, server *httptest.Server) string {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"origin": {Server: server.URL, CertificateAuthorityData: certificate}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"admin": {
			ClientCertificateData: certificate, ClientKeyData: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		}},
		Contexts:       map[string]*clientcmdapi.Context{"origin": {Cluster: "origin", AuthInfo: "admin"}},
		CurrentContext: "origin",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// node answers every request with a node.
func node(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}`)
}

// before starts a front before a secure origin that answers with a node.
func before(t *testing.T, plan hostile.Plan) (*origin, *hostile.Front, clientset.Interface) {
	t.Helper()
	o, kubeconfig := secure(t, node)
	front, err := hostile.Cluster(t.Context(), kubeconfig, plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	return o, front, clientOf(t, front)
}

func clientOf(t *testing.T, front *hostile.Front) clientset.Interface {
	t.Helper()
	client, err := clientset.NewForConfig(configOf(t, front))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func configOf(t *testing.T, front *hostile.Front) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", front.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// ask sends one request. It disables client-go's own retries.
func ask(t *testing.T, client clientset.Interface, verb, path string) error {
	t.Helper()
	return client.CoreV1().RESTClient().Verb(verb).AbsPath(path).MaxRetries(0).Do(t.Context()).Error()
}
