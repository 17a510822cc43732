package redisproc

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// askTimeout bounds the helpers that take no context.
const askTimeout = 10 * time.Second

// Dial opens a raw connection to the server, authenticated if it asks for that.
func (s *Server) Dial(ctx context.Context) (*Conn, error) {
	c, err := Dial(ctx, s.Addr())
	if err != nil || s.password == "" {
		return c, err
	}
	if _, err := c.Do(ctx, "AUTH", s.password); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("redisproc: AUTH: %w", err)
	}
	return c, nil
}

// Command runs one command on a fresh connection and returns its reply, decoded as
// [Conn.Receive] does. No connection is left behind in CLIENT LIST.
func (s *Server) Command(ctx context.Context, args ...string) (any, error) {
	c, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, args...)
}

// CommandStats returns how often each command was called since the start or the
// last CONFIG RESETSTAT, by its lower-case name ("evalsha", "config|get"). Commands
// called by scripts count too, as do those of this package: "info", "ping", "auth".
func (s *Server) CommandStats() (map[string]int64, error) {
	info, err := s.info("commandstats")
	if err != nil {
		return nil, err
	}
	stats := make(map[string]int64, len(info))
	for field, value := range info {
		name, ok := strings.CutPrefix(field, "cmdstat_")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("redisproc: INFO %s:%s: %w", field, value, err)
		}
		stats[name] = n
	}
	return stats, nil
}

// InfoField returns one field of one INFO section; an absent field is an error.
func (s *Server) InfoField(section, field string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return s.infoField(ctx, section, field)
}

func (s *Server) infoField(ctx context.Context, section, field string) (string, error) {
	info, err := s.infoContext(ctx, "INFO", section)
	if err != nil {
		return "", err
	}
	value, ok := info[field]
	if !ok {
		return "", fmt.Errorf("redisproc: INFO %s has no field %q", section, field)
	}
	return value, nil
}

func (s *Server) info(section string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return s.infoContext(ctx, "INFO", section)
}

// infoContext runs a command that answers with lines of "field:value".
func (s *Server) infoContext(ctx context.Context, args ...string) (map[string]string, error) {
	v, err := s.Command(ctx, args...)
	if err != nil {
		return nil, err
	}
	info := make(map[string]string)
	for line := range strings.Lines(Text(v)) {
		if field, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[field] = value
		}
	}
	return info, nil
}

// KeyNames returns the names of all keys of database 0, in no order.
func (s *Server) KeyNames(ctx context.Context) ([]string, error) {
	c, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	v, err := c.Do(ctx, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	items, _ := v.([]any)
	keys := make([]string, len(items))
	for i, item := range items {
		keys[i] = Text(item)
	}
	return keys, nil
}
