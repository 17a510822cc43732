package topology

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestParseCommands(t *testing.T) {
	text := "# Commandstats\r\ncmdstat_hset:calls=12,usec=3,usec_per_call=0.25\r\n" +
		"cmdstat_copy:calls=7,usec=1\r\ncmdstat_hdel:usec=1,calls=19\r\n" +
		"cmdstat_publish:calls=4,usec=1\r\ncmdstat_spublish:calls=5,usec=1\r\ncmdstat_client|list:calls=9,usec=1\r\n"
	require.Equal(t, Commands{HSet: 12, Copy: 7, HDel: 19, Publish: 9}, parseCommands(text))
}

func TestPeerOf(t *testing.T) {
	for line, want := range map[string]peer{
		"id=3 addr=127.0.0.1:1 name=loadgen-1 flags=N db=0":                peerOurs,
		"id=3 addr=127.0.0.1:1 name=loadgen-12 flags=N db=0":               peerForeign,
		"id=4 addr=127.0.0.1:1 name= flags=P db=0":                         peerForeign,
		"id=5 addr=127.0.0.1:1 name= flags=S db=0":                         peerOurs,
		"id=6 addr=127.0.0.1:1 name=sentinel-0123abcd-cmd flags=N db=0":    peerSentinel,
		"id=7 addr=127.0.0.1:1 name=sentinel-0123abcd-pubsub flags=P db=0": peerOurs,
	} {
		require.Equal(t, want, peerOf(line, "loadgen-1"), line)
	}
}

// What a server says is not written to a terminal as it is.
func TestServerTextIsPrintable(t *testing.T) {
	s := &Server{login: &config.Config{Password: "canary-dragon-42"}}
	require.Equal(t, `ERR \x1b[2J 'HELLO' '***`, s.Hide(textError("ERR \x1b[2J 'HELLO' 'canary-dragon-42'")))
}

type textError string

func (e textError) Error() string { return string(e) }

// What was counted since a reset says nothing of what came before, also where it is more.
func TestAResetOfTheCountersIsSeen(t *testing.T) {
	server := redistest.Run(t, redistest.Options{})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	s := &Server{Client: client, Topology: "single", login: &config.Config{}}
	before := s.Snapshot(t.Context())
	require.True(t, before.Known)
	middle := s.Snapshot(t.Context())
	require.False(t, middle.ResetSince(before))
	server.Do(t, "CONFIG", "RESETSTAT")
	for range 50 {
		server.Do(t, "HSET", "key", "field", "value")
	}
	after := s.Snapshot(t.Context())
	require.False(t, after.Commands.Minus(before.Commands).Fell(), "by these alone it is not seen")
	require.True(t, after.ResetSince(before))
	require.True(t, after.ResetSince(middle))
}
