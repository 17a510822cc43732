package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Not parallel: others would take the time of the rate that can be reached.
func TestARateThatIsNotReachedFails(t *testing.T) {
	needServer(t)
	addr := redistest.Run(t, redistest.Options{}).Addr()
	args := []string{"run", "--addr", addr, "--duration", "300ms", "--warmup", "0s", "--inflight", "16", "--json", "-", "--rate"}
	status, stdout, stderr := invoke(t, append(args, "5000000")...)
	require.Equal(t, report.StatusFailed, status)
	require.Contains(t, stderr, "--rate asks for 5,000,000 pairs a second and ")
	require.Contains(t, stderr, "were due and not made")
	require.Positive(t, requireReport(t, []byte(stdout))["skipped_starts"])
	status, stdout, stderr = invoke(t, append(args, "500")...)
	require.Equal(t, report.StatusOK, status, stderr+stdout)
	require.Zero(t, requireReport(t, []byte(stdout))["skipped_starts"])
}
