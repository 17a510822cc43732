package config

// The kinds of locks that --kind names.
const (
	KindLock   = "lock"
	KindSpin   = "spin"
	KindFenced = "fenced"
	KindFair   = "fair"
	KindRead   = "read"
	KindWrite  = "write"

	KindRW = "rw" // both halves, in the scenario rw; no value of --kind
)

// OwnKind is the kind of locks that a scenario brings along; "" if --kind says it.
func OwnKind(scenario string) string {
	return map[string]string{"fenced": KindFenced, "fair": KindFair, "rw": KindRW, "multi": KindLock}[scenario]
}
