package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/spf13/pflag"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
)

// The variables of the environment that hold passwords: an argument is seen by whoever lists the processes of the
// machine.
const (
	passwordVar         = "LOADGEN_PASSWORD"
	sentinelPasswordVar = "LOADGEN_SENTINEL_PASSWORD"
)

// addServerFlags declares how a server of --addr is reached.
func addServerFlags(f *pflag.FlagSet, c *config.Config) {
	f.StringArrayVarP(&c.Addrs, "addr", "a", nil,
		"`host:port` of a server, repeatable, or one redis:// or rediss:// URL;\nwithout it loadgen starts a server of its own")
	f.StringVar(&c.User, "user", "", "`name` to authenticate with, on --addr; its password comes from --password-file,\n"+
		"or from the environment as "+passwordVar)
	f.StringVar(&c.SecretFile, "password-file", "", "`file` whose first line is the password")
	f.StringVar(&c.MasterName, "master-name", "", "--addr are sentinels: `name` of the master they watch")
	f.StringVar(&c.SentinelUser, "sentinel-user", "", "`name` to authenticate with at the sentinels; its password comes from\n"+
		"--sentinel-password-file, or from the environment as "+sentinelPasswordVar)
	f.StringVar(&c.SentinelSecretFile, "sentinel-password-file", "", "`file` whose first line is the password for the sentinels")
	f.BoolVar(&c.TLS.On, "tls", false, "speak TLS with --addr and with its sentinels, as with a rediss:// URL")
	f.StringVar(&c.TLS.CA, "tls-ca", "", "PEM `file` of the authorities to trust (default those of the system)")
	f.StringVar(&c.TLS.Cert, "tls-cert", "", "PEM `file` of the client's certificate, with --tls-key")
	f.StringVar(&c.TLS.Key, "tls-key", "", "PEM `file` of its key")
	f.StringVar(&c.TLS.ServerName, "tls-server-name", "", "`name` in the server's certificate (default the host of the address)")
	f.BoolVar(&c.TLS.Insecure, "tls-insecure", false, "accept any certificate: whoever stands between can read and change everything")
	f.BoolVar(&c.TLS.PlainSentinels, "sentinel-no-tls", false, "ask the sentinels in plain text although the master speaks TLS")
}

// checkAddrs refuses addresses that cannot be dialled whatever the network does.
func (c *flags) checkAddrs() error {
	for _, a := range c.Addrs {
		if strings.Contains(a, "://") {
			if len(c.Addrs) > 1 {
				return errors.New("--addr: give one URL, or several host:port")
			}
			option, err := rueidis.ParseURL(a)
			switch {
			case err != nil: // its text may hold a password
				return fmt.Errorf("--addr %q is not a redis://, rediss:// or unix:// URL", config.RedactURL(a))
			case option.Password != "":
				return fmt.Errorf("--addr %q holds a password, which whoever lists this machine's processes can read: "+
					"give it by --password-file, or in the environment as %s", config.RedactURL(a), passwordVar)
			}
			continue
		}
		if err := checkHostPort(a); err != nil {
			return fmt.Errorf("--addr %q: %w", config.RedactURL(a), err)
		}
	}
	return nil
}

func checkHostPort(a string) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return errors.New("must be host:port or a redis:// URL")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("bad port: not from 1 to 65535")
	}
	if host == "" {
		return errors.New("needs a host")
	}
	return nil
}

// checkLogin refuses names for servers that have none.
func (c *flags) checkLogin() error {
	sentinels := c.MasterName != "" || c.urlHas("master_set")
	switch {
	case len(c.Addrs) == 0 && (c.User != "" || c.SecretFile != ""):
		return errors.New("--user and --password-file need --addr: loadgen's own servers have no users")
	case len(c.Addrs) == 0 && c.MasterName != "":
		return errors.New("--master-name needs --addr with the addresses of sentinels")
	case strings.ContainsAny(c.MasterName, " \r\n"):
		return fmt.Errorf("--master-name %q has spaces", c.MasterName)
	case !sentinels && (c.SentinelUser != "" || c.SentinelSecretFile != ""):
		return errors.New("--sentinel-user and --sentinel-password-file need --master-name, or a URL with ?master_set=")
	}
	return nil
}

// urlHas reports whether the address is a URL with a value for key.
func (c *flags) urlHas(key string) bool {
	if len(c.Addrs) != 1 {
		return false
	}
	_, query, _ := strings.Cut(c.Addrs[0], "?")
	for pair := range strings.SplitSeq(query, "&") {
		if strings.HasPrefix(pair, key+"=") {
			return true
		}
	}
	return false
}

// readPasswords finds the passwords for the servers of --addr and their sentinels; "" where there is none.
func (c *flags) readPasswords(getenv func(string) string) (err error) {
	if len(c.Addrs) == 0 {
		return nil
	}
	if c.Password, err = secret("password-file", c.SecretFile, getenv(passwordVar)); err != nil {
		return err
	}
	if c.User != "" && c.Password == "" {
		return fmt.Errorf("--user %q needs a password: give it by --password-file, or in the environment as %s", c.User, passwordVar)
	}
	if c.MasterName == "" && !c.urlHas("master_set") {
		return nil
	}
	c.SentinelPassword, err = secret("sentinel-password-file", c.SentinelSecretFile, getenv(sentinelPasswordVar))
	if err == nil && c.SentinelUser != "" && c.SentinelPassword == "" {
		err = fmt.Errorf("--sentinel-user %q needs a password: give it by --sentinel-password-file, or in the environment as %s",
			c.SentinelUser, sentinelPasswordVar)
	}
	return err
}

// secret is the first line of file, or, where no file is named, what the environment has.
func secret(flag, file, env string) (string, error) {
	if file == "" {
		return env, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("--%s %q: its first line is empty", flag, file)
	}
	return line, nil
}

// checkTLS refuses what says how to speak TLS where nobody does.
func (c *flags) checkTLS(changed func(string) bool) error {
	rediss := len(c.Addrs) == 1 && strings.HasPrefix(c.Addrs[0], "rediss://")
	isURL := len(c.Addrs) == 1 && strings.Contains(c.Addrs[0], "://")
	switch {
	case c.TLS.On && len(c.Addrs) == 0:
		return errors.New("--tls needs --addr: loadgen's own servers speak plain text")
	case c.TLS.On && isURL && !rediss:
		return errors.New("--tls and a URL that is not rediss:// disagree: give one of them")
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return errors.New("--tls-cert and --tls-key belong together: give both or none")
	case c.TLS.Insecure && (c.TLS.CA != "" || c.TLS.ServerName != ""):
		return errors.New("--tls-insecure checks nothing: omit it, or omit --tls-ca and --tls-server-name")
	case c.TLS.PlainSentinels && c.MasterName == "" && !c.urlHas("master_set"):
		return errors.New("--sentinel-no-tls needs --master-name, or a URL with ?master_set=")
	}
	c.TLS.On = c.TLS.On || rediss
	for _, flag := range []string{"tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-insecure", "sentinel-no-tls"} {
		if changed(flag) && !c.TLS.On {
			return fmt.Errorf("--%s needs --tls, or a rediss:// URL", flag)
		}
	}
	return nil
}

// readTLS reads the files of the flags.
func (c *flags) readTLS() error {
	t := &c.TLS
	if !t.On {
		return nil
	}
	t.Config = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.Insecure || c.urlSkipsVerify()}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return fmt.Errorf("--tls-ca: %w", err)
		}
		t.Config.RootCAs = x509.NewCertPool()
		if !t.Config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("--tls-ca %q has no certificate in PEM", t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return fmt.Errorf("--tls-cert %q and --tls-key %q: %w", t.Cert, t.Key, err)
		}
		t.Config.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// urlSkipsVerify reports whether the URL asks to accept any certificate, as the engine reads it.
func (c *flags) urlSkipsVerify() bool {
	if !c.urlHas("skip_verify") {
		return false
	}
	option, err := rueidis.ParseURL(c.Addrs[0])
	return err == nil && option.TLSConfig != nil && option.TLSConfig.InsecureSkipVerify
}
