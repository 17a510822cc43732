package testkit

import (
	"testing"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Secret is a password that must not be seen anywhere.
const Secret = "canary-dragon-42"

// ACLServer starts a server with a user who may do everything but what the rules say.
func ACLServer(t testing.TB, rules ...string) *redistest.Server {
	t.Helper()
	s := redistest.Run(t, redistest.Options{})
	ACLRules(t, s, append([]string{"on", ">secret", "~*", "&*", "+@all"}, rules...)...)
	return s
}

// ACLRules changes what that user may do.
func ACLRules(t testing.TB, s *redistest.Server, rules ...string) {
	t.Helper()
	s.Do(t, append([]string{"ACL", "SETUSER", "app"}, rules...)...)
}

// AsApp makes an engine that user's.
func AsApp(cfg *engine.Config) { cfg.Username, cfg.Password = "app", "secret" }
