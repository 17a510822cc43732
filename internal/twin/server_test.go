package twin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// loaded is a server that knows every script and whose time is ms.
func loaded(ms *int64) *Server {
	s := New()
	s.Micros = func() int64 { return *ms * 1000 }
	for _, text := range resp.ScriptTexts() {
		s.Do([]string{"SCRIPT", "LOAD", text})
	}
	return s
}

func (s *Server) do(args ...string) string { return s.Do(args).String() }

func TestAKeyIsThereInItsLastMillisecond(t *testing.T) {
	now := int64(1_000_000)
	s := loaded(&now)
	s.do("SET", "key", "v", "PX", "100")
	now += 100
	require.Equal(t, "0", s.do("PTTL", "key"))
	require.Len(t, s.Keys(), 1)
	now++
	require.Equal(t, "-2", s.do("PTTL", "key"))
	require.Empty(t, s.Keys())
}

func TestKeysThatAreOverAreForgottenUnseen(t *testing.T) {
	now := int64(1_000_000)
	s := loaded(&now)
	for i := range 10_000 {
		now += 10
		s.do("SET", ms(int64(i)), "v", "PX", "50")
	}
	require.Less(t, len(s.keys), 2000)
}

func TestACloneIsAServerOfItsOwn(t *testing.T) {
	now := int64(1_000_000)
	s := loaded(&now)
	acquire := []string{"EVALSHA", shaOfName("acquire"), "1", "key", "30000", "e:1", "1000000", "0"}
	require.Equal(t, "[1000000 1]", s.Do(acquire).String())
	replica := s.Clone()
	s.Flush()
	s.FlushScripts()
	require.Equal(t, "[1000000 0 1 30000]", replica.Do(acquire).String())
	require.Equal(t, []Entry{{Key: "key", Kind: TypeHash, TTL: 30000, Hash: []Field{{"e:1", "1"}}}}, replica.Keys())
	require.Equal(t, "-NOSCRIPT No matching script. Please use EVAL.", s.Do(acquire).String())
	require.Equal(t, "(nil)", s.Do(Redisson{Name: "key", Field: "j:1", LeaseMs: 1000}.Lock()).String(), "a foreign client loads its scripts")
	require.True(t, s.Delete("key"))
	require.False(t, s.Delete("key"))
}

func TestWhatALinkAsksAServer(t *testing.T) {
	now := int64(1_000_000)
	s := loaded(&now)
	s.Mode, s.Role, s.Acks, s.MaxMemory = "cluster", "slave", 2, 100
	require.Equal(t, "[1000 0]", s.do("TIME"))
	require.Equal(t, "PONG", s.do("ping"))
	require.Equal(t, "[slave]", s.do("ROLE"))
	require.Equal(t, "2", s.do("WAIT", "1", "100"))
	require.Equal(t, "# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n", s.do("INFO", "server"))
	s.Run = "f00"
	require.Equal(t, "# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\nrun_id:f00\r\n", s.do("INFO", "server"))
	require.Equal(t, "# Memory\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n", s.do("INFO", "memory"))
	require.Equal(t, "[1 0]", s.do("SCRIPT", "EXISTS", shaOfName("acquire"), "f00"))
	require.Equal(t, "-ERR Error compiling script (new function): it has no twin", s.do("SCRIPT", "LOAD", "return 1"))
	require.Equal(t, "[-2]", s.do("EVAL", resp.ScriptTexts()["inspect"], "1", "key"))
	require.Contains(t, s.do("NOSUCH"), "-ERR unknown command")
}

func TestAskingIsForOneCommand(t *testing.T) {
	now := int64(1_000_000)
	s := loaded(&now)
	s.Redirect = func([]string) string {
		if s.Asking {
			return ""
		}
		return "MOVED 1 127.0.0.1:7000"
	}
	s.do("ASKING")
	require.Equal(t, "0", s.do("EXISTS", "key"))
	require.Equal(t, "-MOVED 1 127.0.0.1:7000", s.do("EXISTS", "key"))
}

// A simulation lives on this: what a call costs more it pays a million times.
func TestACallCostsFewAllocations(t *testing.T) {
	now := int64(1_000_000)
	s := loaded(&now)
	acquire := []string{"EVALSHA", shaOfName("acquire"), "1", "key", "30000", "e:1", "1000000", "0"}
	release := []string{"EVALSHA", shaOfName("release"), "1", "key", "PUBLISH", "0", "0", "", "e:1", "1"}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		s.Do(acquire)
		s.Do(release)
	}), 8.0)
	require.Empty(t, s.Keys())
}
