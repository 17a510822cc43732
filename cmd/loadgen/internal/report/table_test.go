package report

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
)

// full is a report with everything in it that is long.
func full() *Report {
	long := &Latency{P50: 1_462_764, P90: 2_470_445, P99: 2_740_978, P999: 22_900_900, Max: 123_202_890}
	us := 123456.0
	return &Report{
		Scenario: "contend", Kind: "fair", Topology: "cluster", Masters: 3, Replicas: 3, Server: "redis 7.0.15", Embedded: true,
		API: "sync", Clients: 64, Engines: 4, Keys: 8, Pairs: 123_456_789, PairsPerS: 1_234_567, DurationS: 123,
		Acquire: long, Release: long, ClientCPU: &us, ServerCPU: &us, Skipped: 123_456, Locks: 1000, Lost: 100, Forgotten: 100,
		Errors: map[string]int64{"lost": 1_000_000, "unanswered": 2_000_000, "server:oom": 3_000_000, "not_held": 4_000_000},
		Commands: &topology.Commands{
			Evalsha: 123_456_789, HSet: 123_456_789, Copy: 123_456_789, Restore: 123_456_789, HDel: 123_456_789, Publish: 123_456_789,
		},
		ScriptCalls: &us, ServerCheck: "agrees: one acquiring command, one HDEL and at most two PUBLISH a pair that was not handed over",
		Yardstick: &Yardstick{Kind: "3 pipelines", PairsPerS: 1_234_567, ServerCPU: &us, Rounds: []YardstickRound{{1_234_567, 1_234_567}}},
		Contend: &Contend{
			Grants: 123_456_789, ByHandOff: 123_456_789, ByMessage: 123_456_789, ByPoll: 123_456_789,
			Order: &Order{Looks: 123_456, Followed: 123_456, Judged: "what stands in the queue, and the order of asking to within a second"},
		},
		Failures: []string{"123456789 grants, but the server ran only 123456788 acquiring commands (1 HSET + 2 COPY + 3 RESTORE)"},
		Status:   StatusViolation,
	}
}

func TestTheTableFitsItsColumns(t *testing.T) {
	r := full()
	squeeze := func(s string) string { // without what a table is drawn with
		return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(" \n│─╭╮╰╯├┤┬┴┼", c) }), "")
	}
	whole := r.Table(0)
	require.Greater(t, text.LongestLineLen(whole), 120, "in a pipe nothing is wrapped")
	require.Contains(t, whole, "evalsha 123,456,789, hset 123,456,789, copy 123,456,789, restore 123,456,789, hdel 123,456,789, publish 123,456,789 │")
	for _, columns := range []int{60, 80, 100} {
		table := r.Table(columns)
		for line := range strings.Lines(table) {
			require.LessOrEqual(t, text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")), columns, "%d columns:\n%s", columns, table)
		}
		for _, row := range r.rows() {
			require.Contains(t, squeeze(table), squeeze(row[0]), "%d columns", columns)
		}
		for _, figure := range []string{"1,462,764", "123,202,890", "yardstick", "publish123,456,789"} {
			require.Contains(t, squeeze(table), figure, "%d columns", columns)
		}
	}
}

// What costs and hand-offs are told of is what was counted, and an interrupted run is not told as a whole one.
func TestTheTableSaysOfWhatItTells(t *testing.T) {
	r := full()
	require.Contains(t, r.Table(0), "client CPU a pair")
	require.NotContains(t, r.Table(0), "of single locks")
	r.Contend = &Contend{Latch: &Latch{}}
	require.Contains(t, r.Table(0), "client CPU a count")
	require.Contains(t, r.Table(0), "script calls a count")
	r.Contend = &Contend{ByHandOff: 7, Multi: &Multi{}}
	require.Contains(t, r.Table(0), "hand-off 7 of single locks;")
	r.Status = StatusOK
	require.True(t, strings.HasSuffix(r.Table(0), "\nok\n"))
	r.Interrupted = true
	require.True(t, strings.HasSuffix(r.Table(0), "\nok as far as it went: it was interrupted\n"))
}
