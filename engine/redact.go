package engine

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
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

// redactAddr hides what an address says of users: all of it, and whatever stands before the last "@" where
// it is no URL that can be read.
func redactAddr(addr string) string {
	at := strings.LastIndexByte(addr, '@')
	if at < 0 && !strings.Contains(addr, "?") {
		return addr
	}
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		if u.User != nil {
			u.User = url.User("hidden")
		}
		if u.Fragment = ""; u.RawQuery != "" {
			u.RawQuery = hidden
		}
		return strings.Replace(u.String(), "//hidden@", "//"+hidden+"@", 1)
	}
	return hidden + addr[at+1:]
}

// String describes the configuration without its secrets. So do GoString, LogValue and MarshalJSON:
// whoever prints or logs a Config shows no password.
func (cfg Config) String() string { return fmt.Sprintf("%+v", cfg.redacted()) }

// GoString is String.
func (cfg Config) GoString() string { return cfg.String() }

// LogValue is String, for log/slog.
func (cfg Config) LogValue() slog.Value { return slog.StringValue(cfg.String()) }

// MarshalJSON is String as a JSON string.
func (cfg Config) MarshalJSON() ([]byte, error) { return json.Marshal(cfg.String()) }
