package topology

import (
	"net"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// Who takes no connection, and who takes one and says nothing, do not matter beside one that answers.
func TestOneAddressThatAnswersIsEnough(t *testing.T) {
	silent, answers := listenOnce(t, ""), listenOnce(t, "+PONG\r\n")
	s := new(Server)
	require.NoError(t, s.greet(t.Context(), rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1", silent, answers}}))
	err := s.greet(t.Context(), rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	require.ErrorContains(t, err, "connect to 127.0.0.1:")
}

func TestWhatAnswersPing(t *testing.T) {
	for answer, says := range map[string]string{
		"+PONG\r\n":                            "",
		"-NOAUTH Authentication required.\r\n": "",
		"-LOADING Redis is loading the dataset in memory\r\n":                       "",
		"-DENIED Redis is running in protected mode because ... . In this mode\r\n": "protected mode",
		"-ERR max number of clients reached\r\n":                                    "max number of clients",
		"HTTP/1.1 400 Bad Request\r\n":                                              "HTTP server",
		"<!DOCTYPE HTML>\n<html>":                                                   "HTTP server",
		"\x15\x03\x01\x00\x02\x02\x46":                                              "expects TLS",
		"SSH-2.0-OpenSSH_9.2\r\n":                                                   `it answers PING with "SSH-2.0-OpenSSH_9.2"`,
		"\x1b[2J":                                                                   `"\x1b[2J"`,
	} {
		got := strangeAnswer([]byte(answer))
		if says == "" {
			require.Empty(t, got, answer)
			continue
		}
		require.Contains(t, got, says)
	}
}

func TestUnfit(t *testing.T) {
	for _, tc := range []struct {
		info map[string]string
		says string
	}{
		{map[string]string{"role": "master", "redis_mode": "standalone", "used_memory": "5", "maxmemory": "0"}, ""},
		{map[string]string{"role": "master", "used_memory": "4", "maxmemory": "5", "maxmemory_policy": "noeviction"}, ""},
		{map[string]string{"role": "master", "used_memory": "5", "maxmemory": "5", "maxmemory_policy": "allkeys-lru"}, ""},
		{map[string]string{"role": "master", "used_memory": "5", "maxmemory": "5", "maxmemory_policy": "noeviction"}, "is full"},
		{map[string]string{"role": "slave", "master_host": "h", "master_port": "1"}, "is a replica of h:1"},
		{map[string]string{"role": "slave", "redis_mode": "cluster"}, ""},
		{map[string]string{"redis_mode": "sentinel"}, "is a sentinel"},
		{nil, ""},
	} {
		if got := unfit(tc.info); tc.says == "" {
			require.Empty(t, got)
		} else {
			require.Contains(t, got, tc.says)
		}
	}
}

// listenOnce takes one connection, and answers the first question with text, if there is one.
func listenOnce(t *testing.T, text string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gone := make(chan struct{})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-gone
	})
	go func() { // ends with the test
		defer close(gone)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for buf := make([]byte, 512); ; {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			if text != "" {
				_, _ = conn.Write([]byte(text))
			}
		}
	}()
	return l.Addr().String()
}
