package controlplane

import (
	"fmt"
	"net/url"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	adminFile = "kubeconfig"
	adminUser = "admin"
	// adminGroup is the group whose members may do everything.
	adminGroup = "system:masters"
)

// KubeconfigFor writes a kubeconfig for a user in groups, and returns its path. The user has only the rights of all authenticated
// users. Bind roles to the user or its groups for more rights. A second call for the same user overwrites the file.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (path string, err error) {
	pair, err := c.authority.issueClientCert(user, groups...)
	if err != nil {
		return "", err
	}
	path = filepath.Join(c.dir, kubeconfigFile(user))
	return path, writeKubeconfig(path, c.restConfigFor(pair), user)
}

// kubeconfigFile returns the name of a user's kubeconfig file.
func kubeconfigFile(user string) string { return url.PathEscape(user) + ".kubeconfig" }

func writeKubeconfig(path string, config *rest.Config, user string) error {
	if err := clientcmd.WriteToFile(kubeconfig(config, user), path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %q: %w", user, err)
	}
	return nil
}

// kubeconfig converts the config to a kubeconfig with embedded credentials.
func kubeconfig(config *rest.Config, user string) clientcmdapi.Config {
	const name = "controlplane"
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: config.Host, CertificateAuthorityData: config.CAData},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			user: {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData},
		},
		Contexts: map[string]*clientcmdapi.Context{
			name: {Cluster: name, AuthInfo: user, Namespace: "default"},
		},
		CurrentContext: name,
	}
}

// restConfigFor returns a client configuration with the key pair, and with rate limits that no test reaches.
func (c *Cluster) restConfigFor(pair keyPair) *rest.Config {
	return &rest.Config{
		Host:  fmt.Sprintf("https://127.0.0.1:%d", c.port),
		QPS:   5000,
		Burst: 10000,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.authority.pem, CertData: pair.cert, KeyData: pair.key,
		},
	}
}
