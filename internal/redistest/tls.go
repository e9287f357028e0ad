package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// StartTLS is Start for a server with another port, addr, that speaks TLS and asks clients for a certificate. The
// config has one, and trusts the server; its authority and certificates are made here and last an hour.
func StartTLS(t testing.TB, args ...string) (s *Server, addr string, config *tls.Config) {
	t.Helper()
	port, err := redisproc.FreePort()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	a := newAuthority(t)
	server, client := a.issue(t, "server", x509.ExtKeyUsageServerAuth), a.issue(t, "client", x509.ExtKeyUsageClientAuth)
	s = Start(t, append([]string{
		"--tls-port", strconv.Itoa(port), "--tls-auth-clients", "yes",
		"--tls-ca-cert-file", a.file, "--tls-cert-file", server.cert, "--tls-key-file", server.key,
	}, args...)...)
	pair, err := tls.LoadX509KeyPair(client.cert, client.key)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return s, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), &tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
	}
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
	file string // of cert
}

// issued are the files of a certificate and its key.
type issued struct{ cert, key string }

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	template := certificate(t, "weir tests")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	a.file = a.write(t, "authority.crt", "CERTIFICATE", der)
	return a
}

// issue makes a certificate for this machine.
func (a *authority) issue(t testing.TB, name string, use x509.ExtKeyUsage) issued {
	t.Helper()
	template := certificate(t, name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{use}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return issued{a.write(t, name+".crt", "CERTIFICATE", der), a.write(t, name+".key", "PRIVATE KEY", private)}
}

func (a *authority) write(t testing.TB, name, kind string, der []byte) (file string) {
	t.Helper()
	file = filepath.Join(a.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return file
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return key
}

// certificate is what all certificates have in common.
func certificate(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}
}
