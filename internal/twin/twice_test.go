package twin

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A thread of Redisson's stands in the queue twice where the scores were lost before it asked again. What is known of it
// counts once.
func TestDifferentialAThreadThatStandsInTheQueueTwice(t *testing.T) {
	p := newPair(t, redistest.Run(t, redistest.Options{}))
	p.every = 1
	now := newGenerator(1).start / 1000
	at := func(ms int64) string { return strconv.FormatInt(now+ms, 10) }
	diff := p.play(t, now*1000, []action{
		{args: []string{"HSET", "n", "e:01", "1"}},
		{args: []string{"PEXPIRE", "n", "60000"}},
		{args: []string{"RPUSH", "redisson_lock_queue:{n}", "j:7", "j:7"}},
		{args: []string{"ZADD", "redisson_lock_timeout:{n}", at(180_000), "j:7"}},
		{args: []string{"HSET", "{n}:fair_notes", "front", at(-10_000), "edge", "j:7", "base", at(4_000)}},
		{args: []string{"PEXPIRE", "{n}:fair_notes", "60000"}},
		{script: "fair", args: []string{"1", "n", "30000", at(1_000), "1", "5000", "300000", "PUBLISH", "0", "e:02", "1"}},
	}, nil)
	require.Nil(t, diff)
	require.Equal(t, float64(now+180_000+15_000), p.twin.ZSet("redisson_lock_timeout:{n}")[1].Score,
		"behind the thread, and as much later as our base has been lifted since: once")
}
