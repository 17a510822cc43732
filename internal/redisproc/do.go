package redisproc

import (
	"context"
	"slices"
)

// Failer is the part of a [testing.TB] that the helpers of a test need. It is an interface so that nobody else has to
// link package testing.
type Failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Do runs one command and returns its reply as [Text] renders it. A failure or an
// error reply fails the test.
func (s *Server) Do(tb Failer, args ...string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	v, err := s.Command(ctx, args...)
	if err != nil {
		tb.Fatalf("redisproc: %q: %v", args, err)
	}
	return Text(v)
}

// Keys returns the names of all keys, sorted.
func (s *Server) Keys(tb Failer) []string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	keys, err := s.KeyNames(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// ImmortalKeys returns the names of all keys without an expiry, sorted.
func (s *Server) ImmortalKeys(tb Failer) []string {
	tb.Helper()
	return slices.DeleteFunc(s.Keys(tb), func(key string) bool {
		return s.Do(tb, "PTTL", key) != "-1"
	})
}
