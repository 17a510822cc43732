package api_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// unanswered is an address at which the system drops what wants to connect, as a firewall does: its queue is full.
func unanswered(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	inet, ok := name.(*syscall.SockaddrInet4)
	require.True(t, ok)
	addr := fmt.Sprintf("127.0.0.1:%d", inet.Port)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return addr
}

// Who is kept out by a firewall does not read that the server accepts connections.
func TestOpenSaysThatNobodyAnswersToADial(t *testing.T) {
	t.Parallel()
	addr := unanswered(t)
	_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{addr}})
	require.EqualError(t, err, "holdfast: "+addr+" cannot be reached: nobody answers there, as behind a firewall")
	require.Equal(t, engine.ClassUnreachable, testkit.ServerClass(err))
	require.True(t, engine.SafeToRetry(err))
}
