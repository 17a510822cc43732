package security_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// An authority signs certificates for one test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.file = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	file := filepath.Join(a.dir, name)
	require.NoError(a.t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

// sign makes a certificate for 127.0.0.1 that is good until an instant, and its files.
func (a *authority) sign(name string, until time.Time) (cert tls.Certificate, certFile, keyFile string) {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: until,
	}
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	certFile, keyFile = a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "EC PRIVATE KEY", secret)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, certFile, keyFile
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// server starts a server that speaks TLS on the returned address, and asks for a client certificate.
func (a *authority) server(certFile, keyFile string, args ...string) (s *redistest.Server, addr string) {
	a.t.Helper()
	port, err := redistest.FreePort()
	require.NoError(a.t, err)
	s = redistest.Run(a.t, redistest.Options{Args: append([]string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", a.file,
	}, args...)})
	return s, fmt.Sprint("127.0.0.1:", port)
}

// C-157: a lock over TLS with a client certificate, and every peer that must not be talked to.
func TestC157_TLSVerifiesTheServerAndShowsTheClientCertificate(t *testing.T) {
	t.Parallel()
	ours, foreign := newAuthority(t), newAuthority(t)
	hour := time.Now().Add(time.Hour)
	_, certFile, keyFile := ours.sign("server", hour)
	s, addr := ours.server(certFile, keyFile)
	client, _, _ := ours.sign("client", hour)
	good := &tls.Config{RootCAs: ours.pool(), Certificates: []tls.Certificate{client}, MinVersion: tls.VersionTLS12}

	e := testkit.Open(t, addr, func(cfg *engine.Config) { cfg.TLS = good })
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	waiter := testkit.Open(t, addr, func(cfg *engine.Config) { cfg.TLS = good })
	ls := testkit.Acquire(t, e.Lock("a"))
	f := waiter.Lock("a").AcquireAsync(testkit.Limited(t)) // subscribes, over TLS too
	testkit.Eventually(t, "it waits", func() bool { return waiter.Stats().WokenBySubscribe > 0 })
	testkit.Release(t, ls)
	got, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, got)
	testkit.Finish(t, s, e, waiter)

	_, oldCert, oldKey := ours.sign("expired", time.Now().Add(-time.Minute))
	_, expired := ours.server(oldCert, oldKey)
	_, old := ours.server(certFile, keyFile, "--tls-protocols", "TLSv1.1")
	change := func(f func(*tls.Config)) *tls.Config {
		c := good.Clone()
		f(c)
		return c
	}
	stranger, _, _ := foreign.sign("client", hour)
	for name, c := range map[string]struct {
		addr string
		tls  *tls.Config
	}{
		"NoClientCertificate":      {addr, change(func(c *tls.Config) { c.Certificates = nil })},
		"ForeignClientCertificate": {addr, change(func(c *tls.Config) { c.Certificates = []tls.Certificate{stranger} })},
		"UnknownAuthority":         {addr, change(func(c *tls.Config) { c.RootCAs = foreign.pool() })},
		"AnotherName":              {addr, change(func(c *tls.Config) { c.ServerName = "redis.example" })},
		"Expired":                  {expired, good},
		"OldProtocol":              {old, good},
		"PlaintextToATLSPort":      {addr, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{c.addr}, TLS: c.tls, Password: testkit.Secret})
			require.Error(t, err)
			require.NotContains(t, err.Error(), testkit.Secret)
		})
	}
}
