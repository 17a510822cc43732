package config

// The kinds of locks that --kind names.
const (
	KindLock   = "lock"
	KindSpin   = "spin"
	KindFenced = "fenced"
	KindFair   = "fair"
	KindRead   = "read"
	KindWrite  = "write"

	// No values of --kind:
	KindRW        = "rw" // both halves, in the scenario rw
	KindSemaphore = "semaphore"
	KindLatch     = "latch"
	KindPermits   = "permits" // those of a semaphore that are leased
)

// OwnKind is the kind of locks that a scenario brings along; "" if --kind says it.
func OwnKind(scenario string) string {
	return map[string]string{
		"fenced": KindFenced, "fair": KindFair, "rw": KindRW, "multi": KindLock,
		KindSemaphore: KindSemaphore, KindPermits: KindPermits, KindLatch: KindLatch,
	}[scenario]
}
