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
)

// An Authority signs certificates for one test.
type Authority struct {
	File string // its own certificate

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority that is good for an hour.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	a.must(err)
	a.cert, err = x509.ParseCertificate(der)
	a.must(err)
	a.File = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// A Certificate is what an authority has signed, with its key, and the files of both.
type Certificate struct {
	tls.Certificate

	CertFile, KeyFile string
}

// Sign makes a certificate for the given DNS names, or without one for 127.0.0.1, that is good for an hour.
func (a *Authority) Sign(name string, names ...string) Certificate {
	a.t.Helper()
	return a.SignUntil(time.Now().Add(time.Hour), name, names...)
}

// SignUntil makes a certificate that is good until an instant.
func (a *Authority) SignUntil(until time.Time, name string, names ...string) Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: until,
	}
	if len(names) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	a.must(err)
	secret, err := x509.MarshalECPrivateKey(key)
	a.must(err)
	return Certificate{
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		CertFile:    a.write(name+".pem", "CERTIFICATE", der), KeyFile: a.write(name+".key", "EC PRIVATE KEY", secret),
	}
}

// Pool has the authority, and others that are given.
func (a *Authority) Pool(others ...*Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, one := range append(others, a) {
		pool.AddCert(one.cert)
	}
	return pool
}

// Server starts a server that speaks TLS on the returned address, with a certificate of this or another authority, and
// asks for a client's that this one has signed. On its other port it speaks plainly.
func (a *Authority) Server(c Certificate, args ...string) (s *Server, secure string) {
	a.t.Helper()
	port, err := FreePort()
	a.must(err)
	s = Run(a.t, Options{Args: append([]string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", c.CertFile, "--tls-key-file", c.KeyFile, "--tls-ca-cert-file", a.File,
	}, args...)})
	return s, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	return key
}

func (a *Authority) write(name, kind string, der []byte) (file string) {
	a.t.Helper()
	file = filepath.Join(a.dir, name)
	a.must(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

func (a *Authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
