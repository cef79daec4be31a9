package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority signs the certificates of one cluster. Each cluster has its own, so that a client cannot use another cluster by mistake.
type authority struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
	pem  []byte
}

// keyPair is a certificate and its private key, in PEM.
type keyPair struct {
	cert, key []byte
}

func newAuthority() (*authority, error) {
	// kubeadm uses the same size. The API server verifies the client's certificate for each of the client's requests.
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("generating the key of the certificate authority: %w", err)
	}
	template := certificateTemplate(pkix.Name{CommonName: "kubectl-nodeupgrade test CA"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate authority: %w", err)
	}
	return &authority{cert: cert, key: key, pem: encodePEM("CERTIFICATE", der)}, nil
}

// issueServerCert issues the API server's serving certificate.
func (a *authority) issueServerCert() (keyPair, error) {
	template := certificateTemplate(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.DNSNames = []string{"localhost"}
	return a.issue(template)
}

// issueClientCert issues a certificate that authenticates its owner as user, a member of groups.
func (a *authority) issueClientCert(user string, groups ...string) (keyPair, error) {
	template := certificateTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("signing the certificate of %q: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	return keyPair{cert: encodePEM("CERTIFICATE", der), key: keyPEM}, err
}

// certificateTemplate returns a template that is valid from an hour ago to a week from now. The hour is for clocks that differ.
func certificateTemplate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(7 * 24 * time.Hour),
	}
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a private key: %w", err)
	}
	return key, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
