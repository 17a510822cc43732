package engine

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// hidden stands where a secret was.
const hidden = "***"

// plainConfig is a Config without its methods, so that it can be printed.
type plainConfig Config

// redacted returns a copy without secrets.
func (cfg Config) redacted() plainConfig {
	hide := func(secret *string) {
		if *secret != "" {
			*secret = hidden
		}
	}
	hide(&cfg.Password)
	hide(&cfg.SentinelPassword)
	addrs := make([]string, len(cfg.Addrs))
	for i, addr := range cfg.Addrs {
		addrs[i] = redactAddr(addr)
	}
	cfg.Addrs = addrs
	return plainConfig(cfg)
}

// redactAddr hides what an address says of users. Of one that cannot be read nothing is shown but a host and a port
// behind the last "@": what a password is in it, nobody knows.
func redactAddr(addr string) string {
	scheme, _, isURL := strings.Cut(addr, "://")
	if !isURL {
		at := strings.LastIndexByte(addr, '@')
		switch {
		case at < 0:
			return redactPort(addr)
		case strings.Contains(addr, "?") || !hostAndPort(addr[at+1:]):
			return hidden
		}
		return hidden + addr[at+1:]
	}
	u, err := url.Parse(addr)
	if err != nil || strings.Contains(u.Host+u.Path, "@") {
		return scheme + "://" + hidden
	}
	if u.User != nil {
		u.User = url.User("hidden")
	}
	if u.Fragment = ""; u.RawQuery != "" {
		u.RawQuery = hidden
	}
	return strings.Replace(u.String(), "//hidden@", "//"+hidden+"@", 1)
}

// redactPort hides what stands where a port should be: who forgets the host has written "user:password" there.
func redactPort(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	host, rest, colon := strings.Cut(addr, ":")
	if rest == "" || !colon || err == nil && strings.Trim(port, "0123456789") == "" {
		return addr
	}
	return host + ":" + hidden
}

// hostAndPort reports whether a text is what it looks like.
func hostAndPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	_, number := strconv.ParseUint(port, 10, 16)
	return err == nil && number == nil && host != ""
}

// hider takes the passwords of a configuration out of a text.
func (cfg Config) hider() func(text string) string {
	option := options(cfg)
	return resp.Hide(option.Password, option.Sentinel.Password)
}

// String describes the configuration without its secrets. So do GoString, LogValue and MarshalJSON:
// whoever prints or logs a Config shows no password.
func (cfg Config) String() string { return fmt.Sprintf("%+v", cfg.redacted()) }

// Format is String for every verb: also for those that would show the fields one by one.
func (cfg Config) Format(f fmt.State, verb rune) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), cfg.String())
}

// GoString is String.
func (cfg Config) GoString() string { return cfg.String() }

// LogValue is String, for log/slog.
func (cfg Config) LogValue() slog.Value { return slog.StringValue(cfg.String()) }

// MarshalJSON is String as a JSON string.
func (cfg Config) MarshalJSON() ([]byte, error) { return json.Marshal(cfg.String()) }
