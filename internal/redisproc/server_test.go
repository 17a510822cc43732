package redisproc

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestStart(t *testing.T) {
	s := Run(t, Options{Args: []string{"--maxmemory", "64mb"}})

	require.Equal(t, "OK", s.Do(t, "SET", "b", "1"))
	require.Equal(t, "OK", s.Do(t, "SET", "a", "1", "PX", "60000"))
	require.Equal(t, []string{"a", "b"}, s.Keys(t))
	require.Equal(t, []string{"b"}, s.ImmortalKeys(t))
	require.Equal(t, "(nil)", s.Do(t, "GET", "absent"))
	require.Equal(t, "2", s.Do(t, "DBSIZE"))
	require.Equal(t, "maxmemory\n67108864", s.Do(t, "CONFIG", "GET", "maxmemory"))

	pid, err := s.InfoField("server", "process_id")
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(s.Pid()), pid)
	_, err = s.InfoField("server", "no_such_field")
	require.Error(t, err)

	_, err = s.Command(t.Context(), "NOSUCH")
	var reply ReplyError
	require.ErrorAs(t, err, &reply)

	stats, err := s.CommandStats()
	require.NoError(t, err)
	require.EqualValues(t, 2, stats["set"])
	require.EqualValues(t, 1, stats["config|get"])
}

func TestStartSideBySide(t *testing.T) {
	Run(t, Options{})
	servers, err := startAll(t.Context(), make([]Options, 4))
	require.NoError(t, err)
	defer stopAll(servers)
	for _, s := range servers {
		s.Do(t, "SET", "me", s.Addr())
	}
	for _, s := range servers {
		require.Equal(t, s.Addr(), s.Do(t, "GET", "me"))
	}
}

func TestStartTellsWhyItFailed(t *testing.T) {
	Run(t, Options{})
	_, err := Start(t.Context(), Options{Args: []string{"--no-such-setting", "1"}})
	require.ErrorContains(t, err, "no-such-setting")
	_, err = Start(t.Context(), Options{Binary: "/no/such/server"})
	require.ErrorIs(t, err, os.ErrNotExist)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Start(ctx, Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestStartGivesUpATakenPort(t *testing.T) {
	other := Run(t, Options{})
	s := &Server{binary: other.binary, dir: t.TempDir(), port: other.port}
	var err error
	s.args, err = s.arguments(Options{})
	require.NoError(t, err)
	require.ErrorIs(t, s.launch(t.Context()), errPortTaken)
}

func TestStartAuthenticatesItself(t *testing.T) {
	s := Run(t, Options{Args: []string{"--requirepass", "secret"}})
	require.Equal(t, "PONG", s.Do(t, "PING"))
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, "PONG", s.Do(t, "PING"))
}

func TestBinaryComesFromTheEnvironment(t *testing.T) {
	t.Setenv(BinaryEnv, "/no/such/server")
	_, err := Start(t.Context(), Options{})
	require.ErrorIs(t, err, ErrNoServer)
	t.Setenv(BinaryEnv, "")
	t.Setenv("PATH", "")
	_, err = VersionOf("")
	require.ErrorIs(t, err, ErrNoServer)
}

func TestVersionOf(t *testing.T) {
	s := Run(t, Options{})
	version, err := VersionOf("")
	require.NoError(t, err)
	running, err := s.InfoField("server", "redis_version")
	require.NoError(t, err)
	if name, err := s.InfoField("server", "valkey_version"); err == nil {
		running = name
	}
	require.Equal(t, running, version)
}

func TestStop(t *testing.T) {
	for name, before := range map[string]func(*Server){
		"Running": func(*Server) {},
		"Paused":  (*Server).Pause,
		"Killed":  (*Server).Kill,
	} {
		t.Run(name+"LeavesNoOrphanAndNoDirectory", func(t *testing.T) {
			s := Run(t, Options{})
			pid := s.Pid()
			require.False(t, gone(pid))
			before(s)
			s.Stop()
			require.True(t, gone(pid))
			require.NoDirExists(t, s.Dir())
			s.Stop()
			require.Error(t, s.Restart(t.Context()))
		})
	}
}

func TestStopEndsABusyServer(t *testing.T) {
	s := Run(t, Options{})
	c, err := s.Dial(t.Context())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Send("EVAL", "while true do end", "0"))
	s.Stop()
	require.True(t, gone(s.Pid()))
}

func TestRestart(t *testing.T) {
	s := Run(t, Options{Args: []string{"--maxmemory", "64mb"}})
	for name, before := range map[string]func(){
		"Running": func() {},
		"Killed":  s.Kill,
		"Paused":  s.Pause,
		"Saved":   func() { s.Do(t, "SAVE") },
	} {
		t.Run(name, func(t *testing.T) {
			s.Do(t, "SET", "key", "value")
			pid, addr := s.Pid(), s.Addr()
			before()
			require.NoError(t, s.Restart(t.Context()))
			require.True(t, gone(pid))
			require.NotEqual(t, pid, s.Pid())
			require.Equal(t, addr, s.Addr())
			require.Empty(t, s.Keys(t))
			require.Equal(t, "maxmemory\n67108864", s.Do(t, "CONFIG", "GET", "maxmemory"))
		})
	}
}

func TestPauseHoldsAnswersBackUntilResume(t *testing.T) {
	s := Run(t, Options{})
	c, err := s.Dial(t.Context())
	require.NoError(t, err)
	defer c.Close()

	s.Pause()
	require.NoError(t, c.Send("INCR", "n"))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Receive(t.Context())
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.NoError(t, c.SetReadDeadline(time.Time{}))

	s.Resume()
	v, err := c.Receive(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, v)
}

func TestConnSpeaksRESP3(t *testing.T) {
	s := Run(t, Options{})
	c, err := s.Dial(t.Context())
	require.NoError(t, err)
	defer c.Close()
	v, err := c.Do(t.Context(), "HELLO", "3")
	require.NoError(t, err)
	require.Contains(t, v, "server")
	v, err = c.Do(t.Context(), "SUBSCRIBE", "ch")
	require.NoError(t, err)
	require.Equal(t, Push{"subscribe", "ch", int64(1)}, v)
	for kind, want := range map[string]any{
		"string": "Hello World", "integer": int64(12345), "double": "3.141", "null": nil, "true": true, "false": false,
		"verbatim": "This is a verbatim\nstring", "bignum": "1234567999999999999999999999999999999",
		"set": []any{int64(0), int64(1), int64(2)},
		"map": []any{int64(0), false, int64(1), true, int64(2), false},
	} {
		v, err := c.Do(t.Context(), "DEBUG", "PROTOCOL", kind)
		if err != nil {
			require.ErrorContains(t, err, "DEBUG command not allowed")
			continue
		}
		require.Equal(t, want, v, kind)
	}
}
