package yardstick

import (
	_ "embed" // for the two scripts
	"errors"
	"fmt"

	"github.com/redis/rueidis"
)

var (
	//go:embed scripts/acquire.lua
	acquireLua string
	//go:embed scripts/release.lua
	releaseLua string
)

// Name is one lock that a run takes and frees, with all its scripts may want to know.
// The strings are made before the run begins, so that they cost it nothing.
type Name struct {
	Key     string // the lock's key
	Channel string // redisson_lock__channel:{Key}
	Publish string // the command that tells the waiters: PUBLISH or SPUBLISH
	Field   string // the owner: one per goroutine
	LeaseMs string
}

// Scripts are the two scripts of a run, and how to speak to them. The zero value stands
// for Redisson's.
type Scripts struct {
	Acquire, Release string // Lua

	// AcquireArgs and ReleaseArgs append what follows the SHA: the number of keys, the
	// keys, the arguments. They must not keep args.
	AcquireArgs, ReleaseArgs func(args []string, n Name) []string

	// Granted and Freed return nil if the reply is the one of an uncontended lock.
	Granted, Freed func(rueidis.RedisResult) error
}

// Redisson returns the scripts of Redisson's lock, as the package comment gives them.
func Redisson() Scripts {
	return Scripts{
		Acquire: acquireLua,
		Release: releaseLua,
		AcquireArgs: func(args []string, n Name) []string {
			return append(args, "1", n.Key, n.LeaseMs, n.Field)
		},
		ReleaseArgs: func(args []string, n Name) []string {
			return append(args, "2", n.Key, n.Channel, "0", n.LeaseMs, n.Field, n.Publish)
		},
		Granted: granted,
		Freed:   freed,
	}
}

// errNotOurs is what a run answers when a release finds the lock gone.
var errNotOurs = errors.New("release: not the holder")

func granted(r rueidis.RedisResult) error {
	ms, err := r.AsInt64()
	switch {
	case rueidis.IsRedisNil(err):
		return nil
	case err != nil:
		return fmt.Errorf("acquire: %w", err)
	}
	return fmt.Errorf("acquire: busy for %d ms", ms)
}

func freed(r rueidis.RedisResult) error {
	v, err := r.AsInt64()
	switch {
	case rueidis.IsRedisNil(err):
		return errNotOurs
	case err != nil:
		return fmt.Errorf("release: %w", err)
	case v != 1:
		return fmt.Errorf("release: answered %d, want 1", v)
	}
	return nil
}
