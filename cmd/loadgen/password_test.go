package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Who gives a password by a file gets all of a run: the engines, loadgen's own client, the yardstick, and the other
// process that is killed. It is in nothing that is written, and in no process's arguments.
func TestARunWithAPassword(t *testing.T) {
	needServer(t)
	t.Parallel()
	const secret = "canary-dragon-42"
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "&*", "+@all")
	s.Do(t, "ACL", "SETUSER", "default", "on", ">"+secret+"-too", "~*", "&*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	for _, args := range []string{
		"--addr " + s.Addr() + " --user app --yardstick --rounds 1 --duration 300ms --inflight 16",
		"--addr redis://app@" + s.Addr() + " --yardstick --rounds 1 --duration 300ms --inflight 16",
		"--addr " + s.Addr() + " --user app --chaos client --scenario contend --clients 4 --lease 2s --duration 4s",
	} {
		all := append([]string{"run", "--warmup", "0s", "--json", "-", "--password-file", file}, strings.Fields(args)...)
		status, stdout, stderr := invoke(t, all...)
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		require.NotContains(t, stdout+stderr, secret)
	}
	status, stdout, stderr := invoke(t, "run", "--addr", s.Addr(), "--user", "nobody", "--password-file", file)
	require.Equal(t, report.StatusConnect, status)
	require.Contains(t, stderr, "WRONGPASS")
	require.NotContains(t, stdout+stderr, secret)
}
