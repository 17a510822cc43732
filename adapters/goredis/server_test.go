package goredis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/adapters/goredis"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

const secret = "a long secret"

// sameServer takes a lock by an engine with the options of a client, and sees it by the client.
func sameServer(t *testing.T, options *redis.UniversalOptions) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := redis.NewUniversalClient(options)
	defer client.Close()
	cfg, err := goredis.Config(options)
	require.NoError(t, err)
	eng, err := engine.Open(ctx, cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close(context.WithoutCancel(ctx))) }()
	for i := range 10 { // of a cluster: on several masters
		name := fmt.Sprint("lock:", i)
		ls, err := eng.Lock(name).Acquire(ctx)
		require.NoError(t, err)
		fields, err := client.HKeys(ctx, name).Result()
		require.NoError(t, err)
		require.Equal(t, []string{ls.OwnerID()}, fields)
		require.NoError(t, ls.Release(ctx))
		n, err := client.Exists(ctx, name).Result()
		require.NoError(t, err)
		require.Zero(t, n)
	}
}

// refusesOthers makes sure that a password was needed: with another one nobody is let in.
func refusesOthers(t *testing.T, options redis.UniversalOptions, wrong func(*redis.UniversalOptions)) {
	t.Helper()
	wrong(&options)
	cfg, err := goredis.Config(&options)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = engine.Open(ctx, cfg)
	require.Error(t, err)
}

func TestASingleServerWithPasswordAndTLS(t *testing.T) {
	t.Parallel()
	certFile, keyFile, roots := certificate(t)
	port, err := redistest.FreePort()
	require.NoError(t, err)
	redistest.Run(t, redistest.Options{Args: []string{
		"--requirepass", secret, "--tls-port", fmt.Sprint(port), "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-auth-clients", "no",
	}})
	options := &redis.UniversalOptions{
		Addrs: []string{fmt.Sprint("127.0.0.1:", port)}, Password: secret, DB: 3,
		TLSConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	sameServer(t, options)
	refusesOthers(t, *options, func(o *redis.UniversalOptions) { o.Password = "another" })
	refusesOthers(t, *options, func(o *redis.UniversalOptions) { o.TLSConfig = nil })
	refusesOthers(t, *options, func(o *redis.UniversalOptions) { o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} })
}

func TestSentinelsWithCredentialsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	user := func(servers []*redistest.Server, name, password string) {
		for _, server := range servers {
			server.Do(t, "ACL", "SETUSER", name, "on", ">"+password, "~*", "&*", "+@all")
		}
	}
	user(s.Sentinels, "asker", secret)
	user(append(s.Replicas, s.Master), "app", secret+"!")
	options := &redis.UniversalOptions{
		Addrs: s.Addrs(), MasterName: redistest.MasterName, DB: 1,
		Username: "app", Password: secret + "!", SentinelUsername: "asker", SentinelPassword: secret,
	}
	sameServer(t, options)
	refusesOthers(t, *options, func(o *redis.UniversalOptions) { o.SentinelPassword = "another" })
	refusesOthers(t, *options, func(o *redis.UniversalOptions) { o.Password = "another" })
}

func TestACluster(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	sameServer(t, &redis.UniversalOptions{Addrs: c.Addrs()})
	sameServer(t, &redis.UniversalOptions{Addrs: c.Addrs()[:1], IsClusterMode: true})
}

// certificate makes one for 127.0.0.1, and the roots that trust it.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	return certFile, keyFile, roots
}
