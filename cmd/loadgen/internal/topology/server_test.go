package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCommands(t *testing.T) {
	text := "# Commandstats\r\ncmdstat_hset:calls=12,usec=3,usec_per_call=0.25\r\n" +
		"cmdstat_copy:calls=7,usec=1\r\ncmdstat_hdel:usec=1,calls=19\r\n" +
		"cmdstat_publish:calls=4,usec=1\r\ncmdstat_spublish:calls=5,usec=1\r\ncmdstat_client|list:calls=9,usec=1\r\n"
	require.Equal(t, Commands{HSet: 12, Copy: 7, HDel: 19, Publish: 9}, parseCommands(text))
}

func TestIsForeign(t *testing.T) {
	require.False(t, isForeign("id=3 addr=127.0.0.1:1 name=loadgen-1 flags=N db=0", "loadgen-1"))
	require.True(t, isForeign("id=3 addr=127.0.0.1:1 name=loadgen-12 flags=N db=0", "loadgen-1"))
	require.True(t, isForeign("id=4 addr=127.0.0.1:1 name= flags=P db=0", "loadgen-1"))
	require.False(t, isForeign("id=5 addr=127.0.0.1:1 name= flags=S db=0", "loadgen-1"))
}

// What a server says is not written to a terminal as it is.
func TestServerTextIsPrintable(t *testing.T) {
	s := &Server{Password: "canary-dragon-42"}
	require.Equal(t, `ERR \x1b[2J 'HELLO' '***`, s.Hide(textError("ERR \x1b[2J 'HELLO' 'canary-dragon-42'")))
}

type textError string

func (e textError) Error() string { return string(e) }
