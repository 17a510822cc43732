package report

// Exit statuses.
const (
	StatusOK          = 0
	StatusFailed      = 1
	StatusUsage       = 2
	StatusConnect     = 3
	StatusViolation   = 4
	StatusInterrupted = 130
)
