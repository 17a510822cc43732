package faultproxy

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadReplyTakesWholeReplies(t *testing.T) {
	replies := []string{
		"+OK\r\n", "-ERR no\r\n", ":-12\r\n", "$5\r\nhel\r\n\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "_\r\n", "#t\r\n", ",3.14\r\n", ",inf\r\n", "(123456789012345678901234567890\r\n",
		"!5\r\nERR x\r\n", "=7\r\ntxt:abc\r\n", "%1\r\n+k\r\n*1\r\n:1\r\n", "~2\r\n:1\r\n:2\r\n",
		">3\r\n+message\r\n+ch\r\n+hi\r\n", "|1\r\n+ttl\r\n:3\r\n+OK\r\n", "*2\r\n|1\r\n+ttl\r\n:3\r\n:1\r\n:2\r\n",
		"+" + strings.Repeat("x", 100_000) + "\r\n", "$100000\r\n" + strings.Repeat("y", 100_000) + "\r\n",
	}
	r := bufio.NewReaderSize(strings.NewReader(strings.Join(replies, "")), 16)
	for _, want := range replies {
		raw, start, err := readReply(r)
		require.NoError(t, err, "%.40q", want)
		require.Equal(t, want, string(raw))
		require.NotEqual(t, byte('|'), raw[start])
	}
	_, _, err := readReply(r)
	require.ErrorIs(t, err, io.EOF)
}

func TestReadReplyRefusesWhatIsNotRESP(t *testing.T) {
	for _, given := range []string{
		"\r\n", "x\n", "$x\r\n", "$99999999999\r\n", "?1\r\n", "$?\r\n", strings.Repeat("*1\r\n", 10_000),
	} {
		_, _, err := readReply(bufio.NewReader(strings.NewReader(given)))
		require.ErrorIs(t, err, errProtocol, "%.40q", given)
	}
}

func TestReadCommand(t *testing.T) {
	given := "*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n"
	cmd, raw, err := readCommand(bufio.NewReader(strings.NewReader(given)))
	require.NoError(t, err)
	require.Equal(t, []string{"ECHO", "a\r\nb"}, cmd)
	require.Equal(t, given, string(raw))
	_, _, err = readCommand(bufio.NewReader(strings.NewReader("PING\r\n")))
	require.ErrorIs(t, err, errProtocol)
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\na\r\n%1\r\n+k\r\n_\r\n"))
	f.Add([]byte("|1\r\n+ttl\r\n:3\r\n>2\r\n+a\r\n+b\r\n"))
	f.Add([]byte("*99999999\r\n"))
	f.Fuzz(func(t *testing.T, given []byte) {
		raw, start, err := readReply(bufio.NewReader(bytes.NewReader(given)))
		if err != nil {
			return
		}
		if !bytes.HasPrefix(given, raw) || start >= len(raw) {
			t.Fatalf("read %q of %q, start %d", raw, given, start)
		}
		items(raw[start:])
	})
}
