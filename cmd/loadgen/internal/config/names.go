package config

import (
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"strings"
)

// RedactURL hides what stands before the host, and the query: either may hold a password. Of what cannot be read
// it shows the scheme at most.
func RedactURL(addr string) string {
	scheme, _, isURL := strings.Cut(addr, "://")
	switch u, err := url.Parse(addr); {
	case !isURL && !strings.Contains(addr, "@"):
		return addr
	case !isURL:
		return "…"
	case err != nil || strings.Contains(u.Host+u.Path, "@"):
		return scheme + "://…"
	case u.User != nil:
		return scheme + "://…@" + u.Host + u.Path
	default:
		return scheme + "://" + u.Host + u.Path
	}
}

// RandomID makes eight hexadecimal digits that no other run has.
func RandomID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
